"""The observed state of one Service, updated incrementally, and the slices that must be written. Pure.

The cost of a reconciliation depends on what changed, not on the size of the Service. The state follows from the objects
alone: it can be dropped and rebuilt from them.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from volcanoio.framework.objects import Objects
from volcanoio.localcluster.controllers.endpoints.slices import (
    MAX_IN_SLICE,
    Member,
    Ports,
    headless,
    member,
    ports_of,
    slice_ports,
    target,
)
from volcanoio.localcluster.controllers.objects import EndpointSlice
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod, Service
from volcanoio.model.kinds import POD


@dataclass(slots=True)
class PortGroup:
    """Pods with the same ports, by name.

    Those in no slice, and those for the Endpoints object.
    """

    waiting: list[str] = field(default_factory=list)
    ready: list[str] = field(default_factory=list)
    unready: list[str] = field(default_factory=list)
    size: int = 0


@dataclass(slots=True)
class PlacedSlice:
    """An observed slice, its desired ports, and the pods (uids) that stay in it, in its order."""

    known: EndpointSlice
    ports: Ports
    uids: list[str]


class ServiceState:
    """One Service, its pods and its slices. `due` has the names of pods to read."""

    def __init__(self, service: Service, due: Iterable[str]) -> None:
        self.service = service
        self.due: dict[str, None] = dict.fromkeys(due)
        self.groups: dict[Ports, PortGroup] = {}
        self.placed: dict[str, PlacedSlice] = {}
        self.stale: set[str] = set()
        """Names of slices that are new or whose pods changed: they may have to be written."""
        self._members: dict[str, Member] = {}
        self._by_uid: dict[str, Member] = {}
        self._slice_of: dict[str, str] = {}

    def named(self, names: Iterable[str]) -> list[Member]:
        """Return pods by name."""
        return [self._members[name] for name in names]

    def within(self, placed: PlacedSlice) -> list[Member]:
        """Return the pods that stay in a slice."""
        return [self._by_uid[uid] for uid in placed.uids]

    def fold_pods(self, objects: Objects, most: int) -> bool:
        """Read at most so many of the due pods; returns whether none is left."""
        namespace = self.service.metadata.namespace
        for name in list(itertools.islice(self.due, most)):
            pod = objects.get(POD, f"{namespace}/{name}", Pod)
            self._replace(name, None if pod is None else member(self.service, pod))
            del self.due[name]
        return not self.due

    def fold_slices(self, ours: Sequence[EndpointSlice], most: int) -> bool:
        """Read at most so many of the changed slices; returns whether none is left."""
        there = {one.metadata.name for one in ours}
        for name in [name for name in self.placed if name not in there]:
            self._leave(name)
        unread = [(one, ports) for one in ours if (ports := self._unread(one)) is not None]
        for one, ports in unread[:most]:
            self._leave(one.metadata.name)
            self._enter(one, ports)
        return len(unread) <= most

    def _unread(self, one: EndpointSlice) -> Ports | None:
        """Return the desired ports of a slice, if they or the slice changed.

        Where all pods have the same ports, slices that have others are to have these.
        """
        ports = ports_of(one)
        if ports not in self.groups and len(self.groups) == 1:
            ports = next(iter(self.groups))
        placed = self.placed.get(one.metadata.name)
        return None if placed is not None and placed.known is one and placed.ports == ports else ports

    def _enter(self, one: EndpointSlice, ports: Ports) -> None:
        name, group, uids = one.metadata.name, self.groups.get(ports), list[str]()
        for entry in one.endpoints:
            uid = (entry.get("targetRef") or {}).get("uid", "")
            known = self._by_uid.get(uid)
            if group is None or known is None or known.ports != ports or uid in self._slice_of:
                continue
            if len(uids) < MAX_IN_SLICE:
                self._slice_of[uid] = name
                _take_out(group.waiting, known.name)
                uids.append(uid)
        self.placed[name] = PlacedSlice(one, ports, uids)
        self.stale.add(name)

    def _leave(self, name: str) -> None:
        placed = self.placed.pop(name, None)
        self.stale.discard(name)
        if placed is not None:
            for uid in placed.uids:
                del self._slice_of[uid]
                known = self._by_uid[uid]
                bisect.insort(self.groups[known.ports].waiting, known.name)

    def _replace(self, name: str, new: Member | None) -> None:
        old = self._members.get(name)
        if old == new:
            return
        if old is not None and new is not None and old.uid == new.uid and old.ports == new.ports:
            group = self.groups[new.ports]
            _unlist(group, old)
            _enlist(group, new)
            self._members[name] = self._by_uid[new.uid] = new
            if new.uid in self._slice_of:
                self.stale.add(self._slice_of[new.uid])
            return
        if old is not None:
            self._part(old)
        if new is not None:
            group = self.groups.setdefault(new.ports, PortGroup())
            group.size += 1
            bisect.insort(group.waiting, name)
            _enlist(group, new)
            self._members[name] = self._by_uid[new.uid] = new

    def _part(self, old: Member) -> None:
        group = self.groups[old.ports]
        where = self._slice_of.pop(old.uid, None)
        if where is None:
            _take_out(group.waiting, old.name)
        else:
            self.placed[where].uids.remove(old.uid)
            self.stale.add(where)
        _unlist(group, old)
        group.size -= 1
        if not group.size:
            del self.groups[old.ports]
        del self._members[old.name], self._by_uid[old.uid]


def _enlist(group: PortGroup, one: Member) -> None:
    """Add a pod to the addresses of the Endpoints object, unless it is terminating."""
    if not one.terminating:
        bisect.insort(group.ready if one.ready else group.unready, one.name)


def _unlist(group: PortGroup, one: Member) -> None:
    if not one.terminating:
        _take_out(group.ready if one.ready else group.unready, one.name)


def _take_out(names: list[str], name: str) -> None:
    at = bisect.bisect_left(names, name)
    if at < len(names) and names[at] == name:
        del names[at]


MAX_IN_ENDPOINTS = 1000
"""Addresses in one Endpoints object (Kubernetes: maxCapacity of pkg/controller/endpoint)."""


class Rewrite(NamedTuple):
    """Desired content of a slice; `known` is None for a new one, `members` for one to delete."""

    known: EndpointSlice | None
    ports: Ports = ()
    members: list[Member] | None = None


def rewrites(kept: ServiceState) -> Iterator[Rewrite]:
    """Yield slices that may have to be written, computed one at a time.

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
        while members := room.take(ports, MAX_IN_SLICE):
            yield Rewrite(None, ports, members)


def _placeholder(kept: ServiceState) -> Iterator[Rewrite]:
    """Yield the empty slice of a Service without pods."""
    known = [placed.known for _, placed in sorted(kept.placed.items())]
    if not known:
        yield Rewrite(None, (), [])
    elif known[0].metadata.name in kept.stale:
        yield Rewrite(known[0], (), [])
    for one in known[1:]:
        yield Rewrite(one)


class _Filling:
    """Assignment of pods without slice to slices."""

    def __init__(self, kept: ServiceState) -> None:
        self._kept = kept
        self._given: dict[Ports, int] = {}

    def has(self, placed: PlacedSlice) -> bool:
        """Return whether a slice has room for a pod that is left."""
        group = self._kept.groups.get(placed.ports)
        left = 0 if group is None else len(group.waiting) - self._given.get(placed.ports, 0)
        return left > 0 and len(placed.uids) < MAX_IN_SLICE

    def take(self, ports: Ports, most: int) -> list[Member]:
        """Return the next pods with these ports."""
        start = self._given.get(ports, 0)
        names = self._kept.groups[ports].waiting[start : start + most]
        self._given[ports] = start + len(names)
        return self._kept.named(names)

    def filled(self, placed: PlacedSlice) -> Rewrite:
        """Return a slice with the pods that stay and that fit; an empty one is deleted."""
        if placed.ports not in self._kept.groups:
            return Rewrite(placed.known)
        stay = self._kept.within(placed)
        return Rewrite(placed.known, placed.ports, [*stay, *self.take(placed.ports, MAX_IN_SLICE - len(stay))] or None)


def subsets(kept: ServiceState) -> tuple[list[Manifest], bool]:
    """Return the subsets of the Endpoints object, and whether some were left out.

    Of too many, ready ones come first, and each subset has its share (Kubernetes: truncateEndpoints).
    """
    bare = headless(kept.service)
    groups = [(ports, group) for ports, group in sorted(kept.groups.items()) if ports or bare]
    good = _shares([len(group.ready) for _, group in groups], MAX_IN_ENDPOINTS)
    bad = _shares([len(group.unready) for _, group in groups], MAX_IN_ENDPOINTS - sum(good))
    result: list[Manifest] = []
    for (ports, group), up, down in zip(groups, good, bad, strict=True):
        subset: Manifest = {}
        for key, names in (("addresses", group.ready[:up]), ("notReadyAddresses", group.unready[:down])):
            if names:
                subset[key] = [_address(one, kept.service.metadata.namespace) for one in kept.named(names)]
        if subset:
            if ports:
                subset["ports"] = [
                    {key: value for key, value in one.items() if value != ""} for one in slice_ports(ports)
                ]
            result.append(subset)
    return result, sum(len(group.ready) + len(group.unready) for _, group in groups) > MAX_IN_ENDPOINTS


def _shares(sizes: list[int], most: int) -> list[int]:
    """Return the share of each, rounded up, so that the last may get less."""
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
