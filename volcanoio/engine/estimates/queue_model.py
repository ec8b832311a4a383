"""`QueueModel`: the jobs of a cluster as groups of equal pods, and when the waiting ones start.

Simulated forward many times, each time with other run times and other jobs to come. Jobs are tried as with Volcano's
default configuration: queues by share, in a queue first those that do not run yet, in their order; one that does not
fit is skipped, and later ones are tried. Nodes are distinguished; pods are spread over those with most room. What is
not simulated: preemption, topology, and limits other than a queue's capability.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.estimates.run_times import Floats, remaining

Ints = NDArray[np.intp]
Mask = NDArray[np.bool_]
SAMPLES = 32
"""Number of simulations of the future."""
TICK = 0.5
"""Pods that end within this many seconds free their room together; later, within a hundredth of the time until then."""
_GROWTH = 0.01
MOST_STEPS = 5000
"""Moments of one simulation at which waiting groups are tried; the start of groups that still wait then is unknown."""
GOLDEN = 0.6180339887498949
"""The fractional parts of its multiples are spread evenly from 0 to 1."""
MOST_DAYS = 30.0
_HORIZON = MOST_DAYS * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingGroup:
    """Pending pods of a job.

    `minimum` of them start together, or one after the other if it is 0, as the job runs already. `rank` orders the jobs
    of a queue, smaller first. `request` is one amount for each resource, `seconds` are equally likely run times.
    `nodes` are those that are possible, None for all. `arrives` is in seconds from now.
    """

    key: str
    queue: str
    request: Floats
    minimum: int
    pods: int
    seconds: Floats
    rank: tuple[float, ...] = ()
    nodes: Mask | None = None
    arrives: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningGroup:
    """Running pods of a job: the row of the node and the age in seconds of each, and equally likely run times."""

    queue: str
    request: Floats
    rows: Ints
    ages: Floats
    seconds: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueShare:
    """A queue: what it deserves, which orders queues, and what it may have at most (inf for no limit)."""

    deserved: Floats
    capability: Floats
    allocated: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueModel:
    """A cluster at one time: `free` has a row for each resource and a column for each node."""

    free: Floats
    running: Sequence[RunningGroup]
    waiting: Sequence[WaitingGroup]
    queues: dict[str, QueueShare] = field(default_factory=dict)

    def starts(
        self, futures: Sequence[Sequence[WaitingGroup]] = ((),), *, samples: int = SAMPLES, seed: int = 0
    ) -> Floats:
        """Return seconds until each waiting group starts, a row for each sample; inf beyond what was simulated.

        `futures` are possible sequences of jobs to come, by arrival; they are used in turn.
        """
        found = np.full((samples, len(self.waiting)), np.inf)
        ranks = _stratified(samples, len(self.running) + len(self.waiting), seed)
        for sample in range(samples):
            _Simulation(self, ranks[sample], futures[sample % len(futures)], found[sample]).run()
        return found


def _stratified(samples: int, groups: int, seed: int) -> Floats:
    """Return ranks from 0 to 1: for each group (a column) one from each of as many equal parts as there are samples."""
    drawn = np.random.default_rng(seed)
    ranks = (np.arange(samples).reshape(-1, 1) + drawn.random((samples, groups))) / samples
    return drawn.permuted(ranks, axis=0)


@dataclass(slots=True)
class _Pending:
    """A group in a simulation, with the pods that still wait."""

    group: WaitingGroup
    seconds: float
    pods: int
    minimum: int
    at: int
    """Its place among those whose start is wanted, -1 for none."""

    @property
    def order(self) -> tuple[bool, tuple[float, ...], float]:
        return self.minimum == 0, self.group.rank, self.group.arrives


class _Simulation:
    """One possible future; `found` receives the starts."""

    def __init__(self, model: QueueModel, ranks: Floats, future: Sequence[WaitingGroup], found: Floats) -> None:
        self._free = model.free.copy()
        self._queues = model.queues
        self._allocated = {name: each.allocated.copy() for name, each in model.queues.items()}
        self._found = found
        self._unknown = len(model.waiting)
        self._ends: list[tuple[float, int, Ints, Floats, str]] = []
        self._number = 0
        for group, rank in zip(model.running, ranks, strict=False):
            self._add_ends(group, remaining(group.seconds, group.ages, float(rank)))
        after = ranks[len(model.running) :]
        self._waiting = [
            _Pending(group, _at(group.seconds, rank), group.pods, group.minimum, at)
            for at, (group, rank) in enumerate(zip(model.waiting, after, strict=True))
        ]
        self._future = iter(future)
        self._next = next(self._future, None)
        self._arrivals = 0

    def run(self) -> None:
        """Simulate until every start is known."""
        now = 0.0
        for _ in range(MOST_STEPS):
            self._try_all(now)
            if not self._unknown or (following := self._advance(now)) is None or following > _HORIZON:
                return
            now = following

    def _add_ends(self, group: RunningGroup, after: Floats) -> None:
        for moment in np.unique(after):
            self._push(float(moment), group.rows[after == moment], group.request, group.queue)

    def _push(self, moment: float, rows: Ints, request: Floats, queue: str) -> None:
        self._number += 1
        heapq.heappush(self._ends, (moment, self._number, rows, request, queue))

    def _advance(self, now: float) -> float | None:
        """Free what ends, and take in what arrives, until the next try; returns its time, None if nothing comes."""
        due = [self._ends[0][0]] if self._ends else []
        if self._next is not None:
            due.append(self._next.arrives)
        if not due:
            return None
        following = min(due)
        until = following + max(TICK, _GROWTH * now)
        while self._ends and self._ends[0][0] <= until:
            following, _, rows, request, queue = heapq.heappop(self._ends)
            np.add.at(self._free.T, rows, request)
            if queue in self._allocated:
                self._allocated[queue] -= request * len(rows)
        while self._next is not None and self._next.arrives <= max(following, now):
            group, self._arrivals = self._next, self._arrivals + 1
            rank = self._arrivals * GOLDEN % 1.0
            self._waiting.append(_Pending(group, _at(group.seconds, rank), group.pods, group.minimum, -1))
            self._next = next(self._future, None)
        return following

    def _try_all(self, now: float) -> None:
        """Try each waiting group once, queue by queue in the order of their shares."""
        failed: dict[tuple[bytes, int, str], int] = {}
        rooms: dict[tuple[bytes, int], Ints] = {}
        for each in self._in_order():
            group = each.group
            shape = group.request.tobytes(), id(group.nodes)
            needed = max(each.minimum, 1)
            if needed >= failed.get((*shape, group.queue), needed + 1):
                continue
            if (room := rooms.get(shape)) is None:
                room = rooms[shape] = self._room(group)
            count = min(int(room.sum()), each.pods, self._allowed(group))
            if count < needed:
                failed[(*shape, group.queue)] = needed
                continue
            rows = _spread(room, count)
            np.subtract.at(self._free.T, rows, group.request)
            if group.queue in self._allocated:
                self._allocated[group.queue] += group.request * count
            rooms.clear()
            self._push(now + each.seconds, rows, group.request, group.queue)
            each.pods -= count
            each.minimum = 0
            if each.at >= 0 and not np.isfinite(self._found[each.at]):
                self._found[each.at] = now
                self._unknown -= 1
        self._waiting = [each for each in self._waiting if each.pods]

    def _in_order(self) -> Iterator[_Pending]:
        """Iterate over the groups: always the first of the queue with the smallest share."""
        lines: dict[str, list[_Pending]] = {}
        for each in sorted(self._waiting, key=lambda each: each.order, reverse=True):
            lines.setdefault(each.group.queue, []).append(each)
        while lines:
            queue = next(iter(lines)) if len(lines) == 1 else min(lines, key=lambda name: (self._share(name), name))
            yield lines[queue].pop()
            if not lines[queue]:
                del lines[queue]

    def _share(self, queue: str) -> float:
        if (known := self._queues.get(queue)) is None:
            return 0.0
        deserved = known.deserved
        wanted = deserved > 0
        return float((self._allocated[queue][wanted] / deserved[wanted]).max(initial=0.0))

    def _allowed(self, group: WaitingGroup) -> int:
        """Return how many pods of a group its queue may have more."""
        if (known := self._queues.get(group.queue)) is None:
            return group.pods
        wanted = group.request > 0
        left = (known.capability[wanted] - self._allocated[group.queue][wanted]) / group.request[wanted]
        return int(min(left.min(initial=np.inf), group.pods)) if left.size else group.pods

    def _room(self, group: WaitingGroup) -> Ints:
        """Return how many pods of a group each node has room for, at most all of them."""
        room = _vacancies(self._free, group.request, group.pods)
        if group.nodes is not None:
            room[~group.nodes] = 0
        return room


def _vacancies(free: Floats, request: Floats, most: int) -> Ints:
    """Return how many pods of a request each node has room for, `most` at most."""
    wanted = request > 0
    if not wanted.any():
        return np.full(free.shape[1], most, np.intp)
    room = np.floor(free[wanted] / request[wanted].reshape(-1, 1) + 1e-9).min(axis=0)
    vacant: Ints = np.minimum(np.maximum(room, 0), most).astype(np.intp)
    return vacant


def _at(seconds: Floats, rank: float) -> float:
    return float(seconds[min(int(rank * len(seconds)), len(seconds) - 1)])


def _spread(room: Ints, count: int) -> Ints:
    """Return the rows for so many pods, one after the other on the nodes with most room."""
    given = np.zeros_like(room)
    rows = list[Ints]()
    while count > 0:
        left = room - given
        most = np.flatnonzero(left == left.max())[:count]
        given[most] += 1
        count -= len(most)
        rows.append(most)
    return np.concatenate(rows)
