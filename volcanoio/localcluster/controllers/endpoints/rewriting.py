"""Which slices are to be written, and what the Endpoints object says. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from volcanoio.localcluster.controllers.endpoints.kept import Kept, Placed
from volcanoio.localcluster.controllers.endpoints.members import Member, Ports, headless, target
from volcanoio.localcluster.controllers.endpoints.slices import MOST_IN_SLICE, slice_ports
from volcanoio.localcluster.controllers.kinds import EndpointSlice
from volcanoio.model.base import Manifest

MOST_IN_ENDPOINTS = 1000
"""Addresses in one Endpoints object (Kubernetes: maxCapacity of pkg/controller/endpoint)."""


class Rewrite(NamedTuple):
    """What a slice is to hold: a new one where `known` is None; `members` None for one that is to go."""

    known: EndpointSlice | None
    ports: Ports = ()
    members: list[Member] | None = None


def rewrites(kept: Kept) -> Iterator[Rewrite]:
    """Slices that may have to be written, one after the other, so that who asks for few pays for few.

    Pods stay where they are; pods that are in none fill first slices that change anyway, then those with room, then
    new ones.
    """
    if not kept.groups:
        yield from _placeholder(kept)
        return
    room = _Filling(kept)
    for name in sorted(kept.stale):
        yield room.filled(kept.placed[name])
    for name, placed in sorted(kept.placed.items()):
        if name not in kept.stale and (not placed.uids or room.has(placed)):
            yield room.filled(placed)
    for ports in sorted(kept.groups):
        while members := room.take(ports, MOST_IN_SLICE):
            yield Rewrite(None, ports, members)


def _placeholder(kept: Kept) -> Iterator[Rewrite]:
    """Without pods there is one slice without anything."""
    known = [placed.known for _, placed in sorted(kept.placed.items())]
    if not known:
        yield Rewrite(None, (), [])
    elif known[0].metadata.name in kept.stale:
        yield Rewrite(known[0], (), [])
    for one in known[1:]:
        yield Rewrite(one)


class _Filling:
    """Hands out the pods that are in no slice."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._given: dict[Ports, int] = {}

    def has(self, placed: Placed) -> bool:
        """Whether a slice has room for a pod that is left."""
        group = self._kept.groups.get(placed.ports)
        left = 0 if group is None else len(group.waiting) - self._given.get(placed.ports, 0)
        return left > 0 and len(placed.uids) < MOST_IN_SLICE

    def take(self, ports: Ports, most: int) -> list[Member]:
        """The next pods with these ports."""
        start = self._given.get(ports, 0)
        names = self._kept.groups[ports].waiting[start : start + most]
        self._given[ports] = start + len(names)
        return self._kept.named(names)

    def filled(self, placed: Placed) -> Rewrite:
        """A slice with what stays and what fits; one that would be empty goes."""
        if placed.ports not in self._kept.groups:
            return Rewrite(placed.known)
        stay = self._kept.within(placed)
        return Rewrite(placed.known, placed.ports, [*stay, *self.take(placed.ports, MOST_IN_SLICE - len(stay))] or None)


def subsets(kept: Kept) -> tuple[list[Manifest], bool]:
    """The subsets of the Endpoints object, and whether some were left out.

    Of too many, ready ones come first, and each subset has its share (Kubernetes: truncateEndpoints).
    """
    bare = headless(kept.service)
    groups = [(ports, group) for ports, group in sorted(kept.groups.items()) if ports or bare]
    good = _shares([len(group.ready) for _, group in groups], MOST_IN_ENDPOINTS)
    bad = _shares([len(group.unready) for _, group in groups], MOST_IN_ENDPOINTS - sum(good))
    result: list[Manifest] = []
    for (ports, group), up, down in zip(groups, good, bad, strict=True):
        subset: Manifest = {}
        for field, names in (("addresses", group.ready[:up]), ("notReadyAddresses", group.unready[:down])):
            if names:
                subset[field] = [_address(one, kept.service.metadata.namespace) for one in kept.named(names)]
        if subset:
            if ports:
                subset["ports"] = [
                    {key: value for key, value in one.items() if value != ""} for one in slice_ports(ports)
                ]
            result.append(subset)
    return result, sum(len(group.ready) + len(group.unready) for _, group in groups) > MOST_IN_ENDPOINTS


def _shares(sizes: list[int], most: int) -> list[int]:
    """How many of each there is room for, rounded up, so that the last may have less."""
    total = sum(sizes)
    if total <= most:
        return sizes
    left, shares = most, list[int]()
    for size in sizes:
        shares.append(min(math.ceil(size / total * most), left))
        left -= shares[-1]
    return shares


def _address(one: Member, namespace: str) -> Manifest:
    address: Manifest = {"ip": one.address, "targetRef": target(one, namespace)}
    if one.node:
        address["nodeName"] = one.node
    if one.hostname:
        address["hostname"] = one.hostname
    return address
