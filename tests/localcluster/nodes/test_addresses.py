"""Addresses of the simulated network."""

from __future__ import annotations

import ipaddress

from volcanoio.localcluster.nodes.addresses import PodAddresses, host_address


def test_addresses_in_use_differ_and_lie_in_the_pod_network() -> None:
    addresses = PodAddresses()
    addresses.keep("10.244.0.2")
    taken = [addresses.take() for _ in range(1000)]
    assert len({*taken, "10.244.0.2"}) == 1001
    assert all(ipaddress.ip_address(address) in ipaddress.ip_network("10.244.0.0/16") for address in taken)


def test_an_address_given_back_comes_round_again() -> None:
    addresses = PodAddresses()
    first = addresses.take()
    addresses.give_back(first)
    assert addresses.take() != first
    assert first in {addresses.take() for _ in range(64_767)}


def test_more_pods_than_addresses_share_one() -> None:
    addresses = PodAddresses()
    assert len({addresses.take() for _ in range(66_000)}) == 64_769


def test_nodes_have_addresses_of_their_own() -> None:
    assert len({host_address(index) for index in range(1000)}) == 1000
