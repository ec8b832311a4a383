"""Plugin gang-reservation: big gangs start although small jobs keep coming (EASY backfill). Ours; Volcano has none.

A gang that waits longer than `gang-reservation.after` gets a reservation, one gang at a time: by priority, then age.
The plugin chooses the nodes where enough room for it becomes free first and computes when that is, the shadow time.
Until the gang runs, other pods may use these nodes only if they end before the shadow time, or if the room that they
take is not needed at that time. Pods end by their `activeDeadlineSeconds`; a running pod without one is expected to run
on for as long as it has run, a new one without end. Such gangs are also admitted (enqueue) whatever later tiers vote.
Jobs of higher priority ignore the reservation, as do gangs of the same priority, minMember and requests as its gang.

Bound: a gang starts within `after`, plus the time it spends behind earlier reservations, plus the longest remaining run
time on the chosen nodes. Source of the rule: Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995.
"""

from __future__ import annotations

import math
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
STEP = math.sqrt(2)
"""Run times are rounded up to powers of it: pods of alike run times share what is cached."""
NODES_PER_STEP = 256
PATIENCE = 60.0
"""Seconds after which a gang loses its reservation if all its room is free and something else keeps it waiting."""


class GangReservationArguments(msgspec.Struct, frozen=True):
    """How long a gang waits before it gets a reservation, and the smallest minMember of such gangs."""

    after: GoDuration = msgspec.field(default=GoDuration(600.0), name="gang-reservation.after")
    min_members: Annotated[int, msgspec.Meta(ge=1)] = msgspec.field(default=2, name="gang-reservation.minMembers")


@dataclass(slots=True)
class Reservation:
    """The reserved nodes of a gang and the amounts needed on each; enough is free at the time `shadow`.

    `requests` are those of the gang's pods. `spare` is what is not needed on each node at that time, with the amounts
    used there when it was computed.
    """

    job: str
    priority: int
    members: int
    requests: list[Amounts]
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
        self._index = NodeIndex()
        self._hosts = NodeFilter(self._index, affinity=True, taints=True)
        self._session: SessionView
        self._rows: dict[str, int] = {}
        self._excluded: dict[str, float] = {}
        """By job the time until which it gets no reservation."""
        self.reservation: Reservation | None = None
        self.has_traits = False
        self.moment = 0
        """Changes with every answer of the filter."""

    def open(self, session: SessionView) -> Checkpoints:
        """Keep the reservation while its gang waits, else look for the next gang."""
        self._session = session
        self._index.open(session)
        had = self.reservation
        if had is not None and not self._is_valid(had):
            self.reservation = None
        head = self._head()
        if head is not None and (self.reservation is None or head.priority > self.reservation.priority):
            self.reservation = yield from self._plan(head)
        if (reservation := self.reservation) is not None:
            self._rows = {name: row for row, name in enumerate(session.nodes.names) if name in reservation.needed}
            self._compute_spare(reservation)
        self.has_traits = self.reservation is not None
        if had is not None or self.reservation is not None:
            self.moment += 1

    def job_enqueueable(self, job: Job) -> Verdict:
        """Permit a gang that has waited long enough for a reservation."""
        return PERMIT if self._is_aged(job) else ABSTAIN

    def trait(self, task: Task, job: Job) -> str:
        """Return the priority and size of the task's gang, and its run time, rounded up."""
        members = job.min_available if job.min_available >= self._min_members else 0
        seconds = run_time(task.pod)
        steps = "" if seconds == math.inf else str(math.ceil(math.log(max(seconds, 1.0), STEP) - 1e-9))
        return f"{job.priority}/{members}/{steps}"

    def feasible_depends(self, shape: Shape) -> Depends:
        """Depend on the node's amounts and the time while there is a reservation that the shape must respect."""
        return Depends.NODE_USAGE | Depends.NOW if self._respects(shape) else Depends.SKIP

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return the nodes that are not reserved, or where a task does not delay the gang."""
        ok = np.ones(len(nodes), np.bool_)
        if not self._respects(shape) or self._ends_in_time(shape):
            return Feasibility(ok)
        if len(nodes) == len(self._session.nodes):
            at = self._rows.items()
        else:
            at = {name: row for row, name in enumerate(nodes.names) if name in self._rows}.items()
        for name, row in at:
            ok[row] = self._fits_spare(shape, name, nodes, row)
        return Feasibility(ok, ((RESERVED, ~ok),))

    def _respects(self, shape: Shape) -> bool:
        """Return whether the reservation is for another gang, of the same or higher priority."""
        reservation = self.reservation
        if reservation is None:
            return False
        priority, members, _ = shape.traits.get(self.name, "0/0/").split("/")
        if int(priority) != reservation.priority:
            return int(priority) < reservation.priority
        return int(members) != reservation.members or shape.requests not in reservation.requests

    def _ends_in_time(self, shape: Shape) -> bool:
        """Return whether a task that starts now ends before the shadow time."""
        steps = shape.traits.get(self.name, "//").rpartition("/")[2]
        assert self.reservation is not None
        return bool(steps) and self._session.now + STEP ** int(steps) <= self.reservation.shadow

    def _fits_spare(self, shape: Shape, name: str, nodes: Nodes, row: int) -> bool:
        """Return whether a task fits what the gang does not need, less what was placed since the session opened."""
        assert self.reservation is not None
        spare, used = self.reservation.spare[name]
        return all(
            resource not in spare or amount <= spare[resource] - (nodes.used(resource).item(row) - used[resource])
            for resource, amount in shape.requests.items()
        )

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

        A gang whose room is all free for `PATIENCE` seconds is excluded for a while: something else keeps it waiting.
        """
        session = self._session
        job = session.jobs.get(reservation.job)
        if job is None or job.is_ready() or not _missing(job):
            return False
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
        elif session.now - reservation.free_since > PATIENCE:
            self._excluded[reservation.job] = session.now + max(self._after, PATIENCE)
            return False
        return True

    def _plan(self, job: Job) -> Generator[None, None, Reservation | None]:
        """Choose the nodes where room for the gang becomes free first; None where it never does."""
        needed: dict[str, Amounts] = {}
        shadow = self._session.now
        for shape, count in _missing(job):
            releases: list[tuple[float, str, int]] = []
            feasible = self._hosts.feasible(shape, self._session.nodes).ok
            for number, row in enumerate(np.flatnonzero(feasible).tolist()):
                if number % NODES_PER_STEP == NODES_PER_STEP - 1:
                    yield
                name = self._session.nodes.names[row]
                releases += self._releases(name, row, shape, needed.get(name, {}))
            at, chosen = _first_room(releases, count)
            if at == math.inf:
                return None
            shadow = max(shadow, at)
            for name, taken in chosen.items():
                for _ in range(taken):
                    add(needed.setdefault(name, {}), shape.requests)
        requests = [shape.requests for shape in {task.shape.id: task.shape for task in job.tasks}.values()]
        return Reservation(job.key, job.priority, job.min_available, requests, shadow, needed)

    def _releases(self, name: str, row: int, shape: Shape, taken: Amounts) -> Iterator[tuple[float, str, int]]:
        """Yield from which time on how many tasks of a shape fit on a node, growing."""
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
                fitting = fits
                yield end, name, fitting

    def _compute_spare(self, reservation: Reservation) -> None:
        """Compute what is not needed on each reserved node at the shadow time."""
        nodes, now = self._session.nodes, self._session.now
        for name, row in self._rows.items():
            staying: Amounts = {}
            used: Amounts = {}
            for task in self._session.tasks_on(name):
                add(used, task.shape.requests)
                if expected_end(task, now) > reservation.shadow:
                    add(staying, task.shape.requests)
            needed = reservation.needed[name]
            spare = {
                resource: nodes.allocatable(resource).item(row) - staying.get(resource, 0) - needed.get(resource, 0)
                for resource in {*needed, *staying, *used}
            }
            reservation.spare[name] = spare, {resource: nodes.used(resource).item(row) for resource in spare}


def _first_room(releases: Iterable[tuple[float, str, int]], count: int) -> tuple[float, dict[str, int]]:
    """Return from when on so many tasks fit and how many to put on which node, on as few nodes as possible.

    `releases` are times from which on so many tasks fit on a node. The time is infinite if there is never enough room.
    """
    total, shadow, fits = 0, math.inf, dict[str, int]()
    for at, name, fitting in sorted(releases):
        if at > shadow:
            break
        total += fitting - fits.get(name, 0)
        fits[name] = fitting
        if total >= count:
            shadow = at
    chosen: dict[str, int] = {}
    for name in sorted(fits, key=lambda name: (-fits[name], name)):
        if count > 0:
            chosen[name] = min(fits[name], count)
            count -= chosen[name]
    return shadow, chosen


def _missing(job: Job) -> list[tuple[Shape, int]]:
    """Return the missing tasks of a gang by shape, those with the largest requests first and of these no more."""
    missing = job.min_available - job.ready_count - job.pending_best_effort
    pending = [task for task in job.tasks if task.status is TaskStatus.PENDING and not task.shape.best_effort]
    pending.sort(key=lambda task: (-sum(task.shape.requests.values()), task.shape.id))
    alike = groupby(pending[: max(missing, 0)], key=lambda task: task.shape.id)
    groups = [list(tasks) for _, tasks in alike]
    return [(tasks[0].shape, len(tasks)) for tasks in groups]
