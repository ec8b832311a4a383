"""What must hold at every moment, checked against a watch of our own: bookings, gangs, bindings.

A violation is kept with its time until the scenario reports it; nothing here repairs or waits.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from tests.realcluster.deployed.api import Api, Obj

GROUP = "scheduling.k8s.io/group-name"
PARTIAL_SECONDS = 10.0
"""How long a gang's binds may take: the first of them until there are minMember."""
EXCUSED_SECONDS = 60.0
"""The same for a gang that a fault struck: another leader, a server's return or a new attempt completes it."""
DISTURBED_SECONDS = 30.0
"""How long after a fault of a process or server binds are excused: a lease lasts 15 s, and lists follow it."""
_SUFFIXES = {
    "m": Decimal("0.001"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "": Decimal(1),
}
_QUANTITY = re.compile(r"([0-9.]+)([a-zA-Z]*)")


def amount(quantity: object) -> Decimal:
    """Return the number that a quantity stands for."""
    match = _QUANTITY.fullmatch(str(quantity))
    assert match, quantity
    return Decimal(match[1]) * _SUFFIXES[match[2]]


def requests_of(pod: Obj) -> dict[str, Decimal]:
    """Return what a pod occupies on its node, with one of `pods`."""
    total: dict[str, Decimal] = defaultdict(Decimal, pods=Decimal(1))
    for container in pod["spec"]["containers"]:
        for name, quantity in (container.get("resources", {}).get("requests") or {}).items():
            total[name] += amount(quantity)
    for container in pod["spec"].get("initContainers") or ():
        for name, quantity in (container.get("resources", {}).get("requests") or {}).items():
            total[name] = max(total[name], amount(quantity))
    for name, quantity in (pod["spec"].get("overhead") or {}).items():
        total[name] += amount(quantity)
    return total


@dataclass
class Episode:
    """The binds of a gang from its first one on, until it has minMember of them."""

    begun: float
    uids: set[str]
    excused: bool = False
    """Whether a fault, a refused bind or a deleted member kept the rest from being bound at once."""
    reported: bool = False


@dataclass
class Invariants:
    """Pods, nodes and PodGroups as our own watches show them, and what was violated."""

    api: Api
    violations: list[str] = field(default_factory=list)
    pods: dict[str, Obj] = field(default_factory=dict)
    """Every pod that exists, by uid."""
    lives: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    """The uids of all pods that ever were, by namespace and name, oldest first."""
    longest_partial: float = 0.0
    """Seconds of the longest time from a gang's first bind to its minMember-th, excused ones aside."""
    partials: list[tuple[str, float]] = field(default_factory=list)
    """Groups whose binds were excused, with the seconds until they were complete."""
    _nodes: dict[str, Obj] = field(default_factory=dict)
    _groups: dict[tuple[str, str], Obj] = field(default_factory=dict)
    _bound: dict[str, str] = field(default_factory=dict)
    _booked: dict[str, dict[str, Decimal]] = field(default_factory=dict)
    _episodes: dict[tuple[str, str], Episode] = field(default_factory=dict)
    _complete: set[tuple[str, str]] = field(default_factory=set)
    _refused: set[tuple[str, str]] = field(default_factory=set)
    """Pods of which a bind was refused; the refusal may be known before the pod is seen."""
    _disturbed_until: float = 0.0
    synced: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_nodes())
            tasks.create_task(self._follow_groups())
            tasks.create_task(self._follow_pods())
            tasks.create_task(self._tick())

    async def _follow_nodes(self) -> None:
        async for kind, node in self.api.follow("/api/v1/nodes"):
            if kind in {"ADDED", "MODIFIED"}:
                self._nodes[node["metadata"]["name"]] = node

    async def _follow_groups(self) -> None:
        async for kind, group in self.api.follow("/apis/scheduling.volcano.sh/v1beta1/podgroups"):
            if kind == "SYNCED":
                continue
            key = _key(group)
            if kind == "DELETED":
                self._groups.pop(key, None)
                self._episodes.pop(key, None)
                self._complete.discard(key)
            else:
                self._groups[key] = group

    async def _follow_pods(self) -> None:
        async for kind, pod in self.api.follow("/api/v1/pods"):
            if kind == "SYNCED":
                self.synced.set()
            else:
                self.observe(kind, pod)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            self.check_gangs(time.monotonic())

    def observe(self, kind: str, pod: Obj) -> None:
        """Fold one event of a pod."""
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        known = self.lives[_key(pod)]
        if uid not in known:
            known.append(uid)
        if kind == "DELETED":
            self.pods.pop(uid, None)
            self._release(uid)
            self._excuse_member(pod, uid)
            return
        self.pods[uid] = pod
        newly_bound = bool(node) and uid not in self._bound
        if node and self._bound.setdefault(uid, node) != node:
            self._violate(f"pod {'/'.join(_key(pod))} moved from node {self._bound[uid]} to {node}")
        if pod["status"].get("phase") in {"Succeeded", "Failed"}:
            self._release(uid)
        elif node and uid not in self._booked:
            self._book(uid, node, pod)
        if newly_bound:
            self._note_bind(pod, uid)
        if "deletionTimestamp" in pod["metadata"]:
            self._excuse_member(pod, uid)

    def refused(self, namespace: str, pod: str) -> None:
        """Note that a bind of this pod was refused, so its gang may be partly bound for a while."""
        self._refused.add((namespace, pod))
        for one in self.pods.values():
            if _key(one) == (namespace, pod) and (episode := self._episodes.get(_group(one))) is not None:
                episode.excused = True

    def disturbed(self, seconds: float = DISTURBED_SECONDS) -> None:
        """Note that a process or server is stopped now, and that it and its successors need so long to work again."""
        self._disturbed_until = max(self._disturbed_until, time.monotonic() + seconds)
        for episode in self._episodes.values():
            episode.excused = True

    def recovering(self) -> None:
        """Note that what was disturbed works again from now on, earlier than it had to."""
        self._disturbed_until = time.monotonic() + DISTURBED_SECONDS

    def check_gangs(self, now: float) -> None:
        """Report gangs whose binds have taken too long."""
        for key, episode in self._episodes.items():
            begun = max(episode.begun, self._disturbed_until) if episode.excused else episode.begun
            lasted, limit = now - begun, EXCUSED_SECONDS if episode.excused else PARTIAL_SECONDS
            wanted = self._wanted(key)
            if wanted is not None and not episode.reported and lasted > limit:
                self._violate(f"gang {'/'.join(key)} has {len(episode.uids)} of {wanted} bound after {lasted:.1f} s")
                episode.reported = True

    def _note_bind(self, pod: Obj, uid: str) -> None:
        key = _group(pod)
        if not key[1] or key in self._complete:
            return
        now = time.monotonic()
        episode = self._episodes.setdefault(key, Episode(now, set()))
        episode.uids.add(uid)
        if now < self._disturbed_until or any(_group(one) == key for one in self._struck()):
            episode.excused = True
        wanted = self._wanted(key)
        if wanted is not None and len(episode.uids) >= wanted:
            lasted = now - episode.begun
            if episode.excused:
                self.partials.append(("/".join(key), lasted))
            else:
                self.longest_partial = max(self.longest_partial, lasted)
            del self._episodes[key]
            self._complete.add(key)

    def _struck(self) -> Iterator[Obj]:
        """Yield the pods of which a bind was refused."""
        return (one for one in self.pods.values() if _key(one) in self._refused)

    def _excuse_member(self, pod: Obj, uid: str) -> None:
        episode = self._episodes.get(_group(pod))
        if episode is not None and (uid in episode.uids or not pod["spec"].get("nodeName")):
            episode.excused = True

    def _wanted(self, key: tuple[str, str]) -> int | None:
        group = self._groups.get(key)
        return None if group is None else int(group["spec"].get("minMember", 1))

    def _book(self, uid: str, node: str, pod: Obj) -> None:
        self._booked[uid] = requests_of(pod)
        offered = self._nodes.get(node, {}).get("status", {}).get("allocatable")
        if offered is None:
            return
        for name in self._booked[uid]:
            total = sum(
                (booked.get(name, Decimal(0)) for other, booked in self._booked.items() if self._bound[other] == node),
                Decimal(0),
            )
            if total > amount(offered.get(name, 0)):
                self._violate(f"node {node} has {total} of {name} booked, over {offered.get(name, 0)} allocatable")

    def _release(self, uid: str) -> None:
        self._booked.pop(uid, None)

    def _violate(self, text: str) -> None:
        self.violations.append(f"{time.strftime('%H:%M:%S')} {text}")


def _key(one: Obj) -> tuple[str, str]:
    return one["metadata"].get("namespace", ""), one["metadata"]["name"]


def _group(pod: Obj) -> tuple[str, str]:
    return pod["metadata"].get("namespace", ""), (pod["metadata"].get("annotations") or {}).get(GROUP, "")
