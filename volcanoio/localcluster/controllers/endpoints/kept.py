"""What is known of one Service, folded change by change, so that a look costs what has changed and not its size.

It holds nothing that does not follow from the tables: whoever forgets it gets the same by folding everything again.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from volcanoio.localcluster.controllers.endpoints.members import Member, Ports, member
from volcanoio.localcluster.controllers.endpoints.slices import MOST_IN_SLICE, ports_of
from volcanoio.localcluster.controllers.frame.tables import Tables
from volcanoio.localcluster.controllers.kinds import EndpointSlice
from volcanoio.model.core import Pod, Service
from volcanoio.model.kinds import POD


@dataclass(slots=True)
class Group:
    """The pods with the same ports, by name: those in no slice, and those for the Endpoints object."""

    waiting: list[str] = field(default_factory=list)
    ready: list[str] = field(default_factory=list)
    unready: list[str] = field(default_factory=list)
    size: int = 0


@dataclass(slots=True)
class Placed:
    """A slice as it is known, the ports it is meant to have, and the pods (uids) that stay in it, in its order."""

    known: EndpointSlice
    ports: Ports
    uids: list[str]


class Kept:
    """One Service, its pods and its slices. `due` are the names of pods to look at."""

    def __init__(self, service: Service, due: Iterable[str]) -> None:
        self.service = service
        self.due: dict[str, None] = dict.fromkeys(due)
        self.groups: dict[Ports, Group] = {}
        self.placed: dict[str, Placed] = {}
        self.stale: set[str] = set()
        """Names of slices that are news or whose pods changed: they may say something else than they should."""
        self._members: dict[str, Member] = {}
        self._by_uid: dict[str, Member] = {}
        self._slice_of: dict[str, str] = {}

    def named(self, names: Iterable[str]) -> list[Member]:
        """Pods by name."""
        return [self._members[name] for name in names]

    def within(self, placed: Placed) -> list[Member]:
        """The pods that stay in a slice."""
        return [self._by_uid[uid] for uid in placed.uids]

    def fold_pods(self, tables: Tables, most: int) -> bool:
        """Look at no more than so many of the pods that are due; whether that were all."""
        namespace = self.service.metadata.namespace
        for name in list(itertools.islice(self.due, most)):
            pod = tables.get(POD, f"{namespace}/{name}", Pod)
            self._replace(name, None if pod is None else member(self.service, pod))
            del self.due[name]
        return not self.due

    def fold_slices(self, ours: Sequence[EndpointSlice], most: int) -> bool:
        """Look at no more than so many of the slices that are not as they were; whether that were all."""
        there = {one.metadata.name for one in ours}
        for name in [name for name in self.placed if name not in there]:
            self._leave(name)
        unread = [(one, ports) for one in ours if (ports := self._unread(one)) is not None]
        for one, ports in unread[:most]:
            self._leave(one.metadata.name)
            self._enter(one, ports)
        return len(unread) <= most

    def _unread(self, one: EndpointSlice) -> Ports | None:
        """The ports a slice is meant to have, if that or the slice is news.

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
            if len(uids) < MOST_IN_SLICE:
                self._slice_of[uid] = name
                _take_out(group.waiting, known.name)
                uids.append(uid)
        self.placed[name] = Placed(one, ports, uids)
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
            group = self.groups.setdefault(new.ports, Group())
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


def _enlist(group: Group, one: Member) -> None:
    """Have it among the addresses of the Endpoints object, unless it is about to go."""
    if not one.terminating:
        bisect.insort(group.ready if one.ready else group.unready, one.name)


def _unlist(group: Group, one: Member) -> None:
    if not one.terminating:
        _take_out(group.ready if one.ready else group.unready, one.name)


def _take_out(names: list[str], name: str) -> None:
    at = bisect.bisect_left(names, name)
    if at < len(names) and names[at] == name:
        del names[at]
