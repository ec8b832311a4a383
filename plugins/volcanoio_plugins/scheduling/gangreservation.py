"""Plugin gang-reservation: big gangs start although small jobs keep coming (EASY backfill). Ours; Volcano has none.

A gang that waits longer than `gang-reservation.after` gets a reservation, one gang at a time: by priority, then age.
The plugin chooses room that becomes free by the shadow time: at most twice as far in the future as the earliest
possible time, and of that what would be idle least until then. Until the gang runs, a pod may use the reserved nodes
only if it ends before the shadow time, if the room that it takes is not needed then, or if its job comes first: with a
higher priority, or older at the same one. Where that takes room from the gang, its room is chosen again. Pods end by
their `activeDeadlineSeconds`; a running pod without one is expected to run on for as long as it has run, a new one
without end. Gangs that waited so long are also admitted (enqueue), whatever later tiers vote.

Reserved room that is idle is lost to others. It is summed up as a part of the cluster; while the sum is more than
`gang-reservation.maxIdlePercent` of the time, no reservation is made.

Bound: a gang starts within `after`, plus the time it spends behind earlier jobs and reservations, plus the longest
remaining run time on the chosen nodes. Source of the rule: Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Annotated, Any

import msgspec
import numpy as np

from volcanoio.framework.arguments import GoDuration, convert
from volcanoio.framework.scheduling.points import Checkpoints
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import ABSTAIN, PERMIT, Depends, Feasibility, Verdict
from volcanoio.framework.scheduling.views import Job, Nodes, Shape, Task, TaskStatus
from volcanoio.model.core import Pod
from volcanoio.model.resources import Amounts, add
from volcanoio.model.scheduling import PodGroupPhase
from volcanoio.model.times import epoch_or_none
from volcanoio_plugins.scheduling.kubernetes.nodeaffinity import NodeFilter
from volcanoio_plugins.scheduling.kubernetes.nodeindex import NodeIndex

RESERVED = "node(s) were reserved for a gang that waits"
EXEMPT = "exempt"
"""The trait of tasks that need not respect the reservation."""
NODES_PER_STEP = 256
TOLERANCE_SECONDS = 60.0
"""Seconds after which a gang loses its reservation if all its room is free and something else keeps it waiting.

Also by how much pods may end later than expected before the room is chosen again.
"""
MAX_DELAY = 2.0
"""The shadow time is at most so many times as far in the future as the earliest possible time."""
MAX_SAVED_SECONDS = 86_400.0
"""The allowance of idle room is saved for later reservations up to that of so many seconds."""


class GangReservationArguments(msgspec.Struct, frozen=True):
    """How long a gang waits before it gets a reservation, the smallest minMember of such gangs, and the cost."""

    after: GoDuration = msgspec.field(default=GoDuration(600.0), name="gang-reservation.after")
    min_members: Annotated[int, msgspec.Meta(ge=1)] = msgspec.field(default=2, name="gang-reservation.minMembers")
    max_idle_percent: Annotated[float, msgspec.Meta(ge=0, le=100)] = msgspec.field(
        default=2.0, name="gang-reservation.maxIdlePercent"
    )


@dataclass(slots=True)
class Reservation:
    """The reserved nodes of a gang and the amounts needed on each; enough is free at the time `shadow`.

    It was made at the time `made`. `spare` is what is not needed on each node at `shadow`, with the amounts used there
    when it was computed. `free_since` is the time since when all of the room is free.
    """

    job: Job
    priority: int
    members: int
    made: float
    shadow: float
    needed: dict[str, Amounts]
    spare: dict[str, tuple[Amounts, Amounts]] = field(default_factory=dict)
    free_since: float | None = None


def run_time(pod: Pod) -> float:
    """Return how long a pod may run; infinite without activeDeadlineSeconds."""
    seconds = pod.spec.active_deadline_seconds
    return float(seconds) if seconds else math.inf


def expected_end(task: Task, now: float) -> float:
    """Return when a task on a node is expected to end (epoch seconds)."""
    if task.status is TaskStatus.RELEASING:
        return now
    start = epoch_or_none(task.pod.status.start_time or "")
    limit = run_time(task.pod)
    if start is None:
        return now + limit
    return max(start + limit, now) if limit < math.inf else now + (now - start)


class GangReservation:
    """Reserves nodes for the gang that has waited longest, and lets others use them as far as they do not delay it."""

    name = "gang-reservation"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        given = convert(arguments, GangReservationArguments, self.name)
        self._after = float(given.after)
        self._min_members = given.min_members
        self._max_idle = given.max_idle_percent / 100
        self._index = NodeIndex()
        self._hosts = NodeFilter(self._index, affinity=True, taints=True)
        self._session: SessionView
        self._rows: dict[str, int] = {}
        self._excluded: dict[str, float] = {}
        """By job the time until which it gets no reservation."""
        self._idle_allowance = 0.0
        """Seconds for which the whole cluster may still be kept idle."""
        self._idle = 0.0
        """Part of the cluster that was idle and reserved when the last session opened."""
        self._opened: float | None = None
        self.reservation: Reservation | None = None
        self.has_traits = False
        self.moment = 0
        """Changes with every answer of the filter."""

    def open(self, session: SessionView) -> Checkpoints:
        """Keep the reservation while its gang waits, else look for the next gang."""
        self._session = session
        self._index.open(session)
        had = self.reservation
        self._charge()
        if had is not None and not self._is_valid(had):
            self.reservation = None
        head = self._head() if self._idle_allowance >= 0 else None
        if head is not None and (self.reservation is None or head.priority > self.reservation.priority):
            self.reservation = yield from self._plan(head)
        if self.reservation is not None and self._compute_spare(self.reservation):
            self.reservation = yield from self._plan(self.reservation.job)
            if self.reservation is not None:
                self._compute_spare(self.reservation)
        self._idle = self._idle_part()
        self.has_traits = self.reservation is not None
        if had is not None or self.reservation is not None:
            self.moment += 1

    def job_enqueueable(self, job: Job) -> Verdict:
        """Permit a gang that has waited long enough for a reservation."""
        return PERMIT if self._is_aged(job) else ABSTAIN

    def trait(self, task: Task, job: Job) -> str:
        """Return whether the task is exempt from the reservation of this session."""
        reservation = self.reservation
        if reservation is None or job.key == reservation.job.key or job.priority > reservation.priority:
            return EXEMPT
        if self._session.now + run_time(task.pod) <= reservation.shadow:
            return EXEMPT
        first = reservation.job.created
        # a running job may gain pods without end: of these only the older ones are exempt
        is_older = job.created < first and (not job.is_ready() or task.created < first)
        return EXEMPT if job.priority == reservation.priority and is_older else ""

    def feasible_depends(self, shape: Shape) -> Depends:
        """Depend on the node's amounts and the time if the shape must respect the reservation."""
        return Depends.NODE_USAGE | Depends.NOW if self._respects(shape) else Depends.SKIP

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return the nodes that are not reserved, or where a task does not delay the gang."""
        ok = np.ones(len(nodes), np.bool_)
        if not self._respects(shape):
            return Feasibility(ok)
        if len(nodes) == len(self._session.nodes):
            at = self._rows.items()
        else:
            at = {name: row for row, name in enumerate(nodes.names) if name in self._rows}.items()
        for name, row in at:
            ok[row] = self._fits_spare(shape, name, nodes, row)
        return Feasibility(ok, ((RESERVED, ~ok),))

    def _respects(self, shape: Shape) -> bool:
        return self.reservation is not None and shape.traits.get(self.name) != EXEMPT

    def _fits_spare(self, shape: Shape, name: str, nodes: Nodes, row: int) -> bool:
        """Return whether a task fits what the gang does not need, less what was placed since the session opened."""
        assert self.reservation is not None
        spare, used = self.reservation.spare[name]
        return all(
            resource not in spare or amount <= spare[resource] - (nodes.used(resource).item(row) - used[resource])
            for resource, amount in shape.requests.items()
        )

    def _charge(self) -> None:
        """Add the allowance for the time since the last session, less what was idle and reserved all the time."""
        now, before = self._session.now, self._opened
        self._opened = now
        if before is not None:
            idle = min(self._idle, self._idle_part())
            allowance = self._idle_allowance + (now - before) * (self._max_idle - idle)
            self._idle_allowance = min(allowance, self._max_idle * MAX_SAVED_SECONDS)

    def _idle_part(self) -> float:
        """Return the part of the cluster that is reserved and idle, of the resource that has the largest part."""
        if self.reservation is None:
            return 0.0
        session, index, idle = self._session, self._index.update(), Amounts()
        for name, needed in self.reservation.needed.items():
            if (row := index.row_of(name)) is not None:
                for resource, amount in needed.items():
                    free = max(session.nodes.idle(resource).item(row), 0)
                    idle[resource] = idle.get(resource, 0) + min(free, amount)
        parts = (amount / session.total[resource] for resource, amount in idle.items() if session.total.get(resource))
        return max(parts, default=0.0)

    def _is_aged(self, job: Job) -> bool:
        created = epoch_or_none(job.created)
        waited = created is not None and self._session.now - created >= self._after
        return waited and job.min_available >= self._min_members

    def _head(self) -> Job | None:
        """Return the gang that is next: of the highest priority, the one that has waited longest."""
        now = self._session.now
        self._excluded = {key: until for key, until in self._excluded.items() if until > now}
        waiting = (
            job
            for job in self._session.jobs_in(PodGroupPhase.INQUEUE)
            if self._is_aged(job) and not job.is_ready() and _missing(job) and job.key not in self._excluded
        )
        return min(waiting, key=lambda job: (-job.priority, job.created, job.key), default=None)

    def _is_valid(self, reservation: Reservation) -> bool:
        """Return whether the gang still waits for exactly this room.

        A gang whose room is all free for `TOLERANCE_SECONDS` is excluded for a while: something else keeps it waiting.
        """
        session = self._session
        job = session.jobs.get(reservation.job.key)
        if job is None or job.is_ready() or not _missing(job):
            return False
        reservation.job = job
        if (job.priority, job.min_available) != (reservation.priority, reservation.members):
            return False
        index = self._index.update()
        rows = [row for name in reservation.needed if (row := index.row_of(name)) is not None]
        if len(rows) < len(reservation.needed) or any(session.nodes.objects[row].spec.unschedulable for row in rows):
            return False
        free = all(
            session.nodes.idle(resource).item(row) >= amount
            for name, row in zip(reservation.needed, rows, strict=True)
            for resource, amount in reservation.needed[name].items()
        )
        if not free:
            reservation.free_since = None
        elif reservation.free_since is None:
            reservation.free_since = session.now
        elif session.now - reservation.free_since > TOLERANCE_SECONDS:
            self._excluded[job.key] = session.now + max(self._after, TOLERANCE_SECONDS)
            return False
        return True

    def _plan(self, job: Job) -> Generator[None, None, Reservation | None]:
        """Choose room for the gang that becomes free soon; None where it never does."""
        needed: dict[str, Amounts] = {}
        shadow = now = self._session.now
        for shape, count in _missing(job):
            releases: list[tuple[float, str, int]] = []
            feasible = self._hosts.feasible(shape, self._session.nodes).ok
            for number, row in enumerate(np.flatnonzero(feasible).tolist()):
                if number % NODES_PER_STEP == NODES_PER_STEP - 1:
                    yield
                name = self._session.nodes.names[row]
                releases += self._releases(name, row, shape, needed.get(name, {}))
            at, chosen = choose_room(releases, count, now)
            if at == math.inf:
                return None
            shadow = max(shadow, at)
            for name, taken in chosen.items():
                for _ in range(taken):
                    add(needed.setdefault(name, {}), shape.requests)
        return Reservation(job, job.priority, job.min_available, now, shadow, needed)

    def _releases(self, name: str, row: int, shape: Shape, taken: Amounts) -> Iterator[tuple[float, str, int]]:
        """Yield from which time on how many more tasks of a shape fit on a node."""
        session, now = self._session, self._session.now
        nodes = session.nodes
        free = {resource: nodes.idle(resource).item(row) - taken.get(resource, 0) for resource in shape.requests}
        ends = sorted(
            ((expected_end(task, now), task.uid, task.shape.requests) for task in session.tasks_on(name)),
            key=lambda entry: entry[:2],
        )
        fitting = 0
        for end, _, requests in ((now, "", {}), *ends):
            for resource in free:
                free[resource] += requests.get(resource, 0)
            fits = min((free[resource] // amount for resource, amount in shape.requests.items() if amount), default=0)
            if fits > fitting and end < math.inf:
                yield end, name, fits - fitting
                fitting = fits

    def _compute_spare(self, reservation: Reservation) -> bool:
        """Compute what is not needed on each reserved node at the shadow time.

        Returns whether tasks that started since the reservation was made will still take room that is needed then.
        """
        nodes, now, is_taken = self._session.nodes, self._session.now, False
        self._rows = {name: row for row, name in enumerate(nodes.names) if name in reservation.needed}
        for name, row in self._rows.items():
            staying: Amounts = {}
            used: Amounts = {}
            has_new = False
            for task in self._session.tasks_on(name):
                add(used, task.shape.requests)
                if (end := expected_end(task, now)) > reservation.shadow:
                    add(staying, task.shape.requests)
                    started = epoch_or_none(task.pod.status.start_time or "")
                    is_new = started is None or started >= reservation.made
                    has_new |= is_new and end > reservation.shadow + TOLERANCE_SECONDS
            needed = reservation.needed[name]
            spare = {
                resource: nodes.allocatable(resource).item(row) - staying.get(resource, 0) - needed.get(resource, 0)
                for resource in {*needed, *staying, *used}
            }
            reservation.spare[name] = spare, {resource: nodes.used(resource).item(row) for resource in spare}
            is_taken |= has_new and any(spare[resource] < 0 for resource in needed)
        return is_taken


def choose_room(releases: Iterable[tuple[float, str, int]], count: int, now: float) -> tuple[float, dict[str, int]]:
    """Return from when on so many tasks fit, and how many on which node; the time is infinite if they never do.

    `releases` are times from which on so many more tasks fit on a node. Of the times at most `MAX_DELAY` times as far
    in the future as the earliest one, the result is the one for which the last `count` places before it are idle least
    until then.
    """
    ordered = sorted(releases, key=lambda release: (release[0], -release[2], release[1]))
    places = [(at, name) for at, name, more in ordered for _ in range(more)]
    if not 0 < count <= len(places):
        return (now if count <= 0 else math.inf), {}
    latest = now + MAX_DELAY * (places[count - 1][0] - now)
    idle = sum(places[count - 1][0] - at for at, _ in places[:count])
    least, last = idle, count
    for end in range(count, len(places)):
        at, before = places[end][0], places[end - 1][0]
        if at > latest:
            break
        idle += (count - 1) * (at - before) - (before - places[end - count][0])
        if idle < least:
            least, last = idle, end + 1
    return places[last - 1][0], Counter(name for _, name in places[last - count : last])


def _missing(job: Job) -> list[tuple[Shape, int]]:
    """Return the missing tasks of a gang by shape, those with the largest requests first and of these no more."""
    missing = job.min_available - job.ready_count - job.pending_best_effort
    pending = [task for task in job.tasks if task.status is TaskStatus.PENDING and not task.shape.best_effort]
    pending.sort(key=lambda task: (-sum(task.shape.requests.values()), task.shape.id))
    alike = groupby(pending[: max(missing, 0)], key=lambda task: task.shape.id)
    groups = [list(tasks) for _, tasks in alike]
    return [(tasks[0].shape, len(tasks)) for tasks in groups]
