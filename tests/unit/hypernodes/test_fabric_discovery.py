"""HyperNodes from the ports that UFM lists."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.hypernodes.topology import Topology, exact
from volcanoio.engine.hypernodes.fabric import PortsError, parse_ports

UFM = """
networkTopologyDiscovery:
- source: ufm
  enabled: true
  credentials: {secretRef: {name: ufm}}
  config: {endpoint: ufm}
"""


@pytest.fixture
def world() -> Topology:
    made = Topology()
    made.configure(UFM)
    return made


def test_leaf_switches_and_a_spine_become_hyper_nodes(world: Topology) -> None:
    world.node("n1")
    world.fabric(b="n3 n2", a="n1 n0")
    world.wait(1)
    assert world.tree == {"leaf-hn-0": "1: n0 n1", "leaf-hn-1": "1: n2 n3", "spine-hn": "2: leaf-hn-0 leaf-hn-1"}
    assert world.counts() == {"leaf-hn-0": 1, "leaf-hn-1": 0, "spine-hn": 1}


def test_leaf_switches_with_a_common_node_are_one(world: Topology) -> None:
    world.fabric(a="n0 n1", b="n1 n2", c="n3", d="n2 n4", e="n3")
    world.wait(1)
    assert world.tree == {"leaf-hn-0": "1: n0 n1 n2 n4", "leaf-hn-1": "1: n3", "spine-hn": "2: leaf-hn-0 leaf-hn-1"}


def test_hyper_nodes_follow_the_fabric(world: Topology) -> None:
    world.fabric(a="n0", b="n1")
    world.wait(1)
    world.fabric(a="n0 n1")
    world.wait(1)
    assert world.tree == {"leaf-hn-0": "1: n0 n1", "spine-hn": "2: leaf-hn-0"}


def test_nothing_is_deleted_before_the_fabric_was_listed(world: Topology) -> None:
    world.hyper_node("leaf-hn-7", exact("n0"), source="ufm")
    world.wait(1)
    assert world.tree == {"leaf-hn-7": "1: n0"}
    world.fabric(a="n0")
    world.wait(1)
    assert world.tree == {"leaf-hn-0": "1: n0", "spine-hn": "2: leaf-hn-0"}


def test_a_name_that_a_user_has_taken_is_reported(world: Topology) -> None:
    world.hyper_node("leaf-hn-0", exact("mine"))
    world.fabric(a="n0", b="n1")
    world.wait(1)
    assert world.tree == {"leaf-hn-0": "1: mine", "leaf-hn-1": "1: n1", "spine-hn": "2: leaf-hn-0 leaf-hn-1"}
    assert world.warnings == [("leaf-hn-0", "NameTaken")]


def test_ports_of_hosts_are_links() -> None:
    ports = [
        {"description": "Computer IB Port", "system_name": "n0", "peer_node_name": "leaf-a", "port": 1},
        {"description": "Computer IB Port", "system_name": "n0", "peer_node_name": "leaf-a", "port": 2},
        {"description": "Computer IB Port", "system_name": "n1", "peer_node_name": ""},
        {"description": "Switch IB Port", "system_name": "leaf-a", "peer_node_name": "spine"},
        {"description": None, "system_name": "n2", "peer_node_name": "leaf-a"},
        {},
    ]
    assert parse_ports(msgspec.json.encode(ports)) == (("n0", "leaf-a"),)


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'[{"system_name": 1}]', b"<html>", b"\xff"])
def test_another_answer_is_refused(body: bytes) -> None:
    with pytest.raises(PortsError, match="not as UFM writes it"):
        parse_ports(body)
