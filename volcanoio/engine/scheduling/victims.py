"""A session's answers about victims: who may be evicted for whom, and whether a placement is worth it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.hunting import NodeHunt, Prospects
from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.loads import Quantity
from volcanoio.engine.scheduling.rests import rest
from volcanoio.engine.scheduling.slots import NodeSlots
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.engine.scheduling.victimorder import VictimOrder
from volcanoio.framework.scheduling.points import Purpose
from volcanoio.framework.scheduling.session import Run
from volcanoio.framework.scheduling.victims import Eligible
from volcanoio.framework.scheduling.views import Shape, TaskStatus

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.session import CycleSession

_FUTURE = int(Quantity.FUTURE)
KEPT = 64
"""For how many shapes and queues prospects are kept (80 kB each at 10,000 nodes)."""


class Victims:
    """Implements `victims.Victims`."""

    __slots__ = ("_columns", "_failed", "_ledger", "_order", "_placer", "_prospects", "_rules", "_session", "_vain")

    def __init__(self, session: CycleSession) -> None:
        self._session = session
        self._rules = session.rules
        self._ledger, self._columns, self._placer = session.state.ledger, session.nodes, session.state.placer
        self._failed: set[Hashable] = set()
        """Alike jobs for which not enough was found."""
        self._vain: dict[Hashable, NDArray[np.bool_]] = {}
        """Rows where nothing was found for alike tasks."""
        self._prospects: dict[Hashable, Prospects] = {}
        self._order = VictimOrder(session)

    def prepare(self) -> Iterator[None]:
        """As `victims.Victims`."""
        self._failed.clear()
        self._vain.clear()
        self._prospects.clear()
        self._order.clear()
        return self._session.state.takable.refresh()

    def failed(self, purpose: Purpose, job: JobInfo, runs: Sequence[Run]) -> bool:
        """As `victims.Victims`."""
        if not self._failed or self._kind_of_job(purpose, job, runs) not in self._failed:
            return False
        rest(self._session, job, runs)
        self._session.vain.add(job.key)
        return True

    def fail(self, purpose: Purpose, job: JobInfo, runs: Sequence[Run]) -> None:
        """As `victims.Victims`."""
        self._failed.add(self._kind_of_job(purpose, job, runs))
        rest(self._session, job, runs)

    def rests(self, job: JobInfo) -> bool:
        """As `victims.Victims`."""
        return self._session.state.rests.has(self._session.action, job.key, self._session.now)

    def vain(self, purpose: Purpose, task: TaskInfo, node: str) -> None:
        """As `victims.Victims`."""
        kind, columns = self._kind(purpose, task), self._session.nodes
        rows = self._vain.get(kind)
        if rows is None:
            rows = self._vain[kind] = np.zeros(columns.capacity, np.bool_)
        rows[columns.rows[node]] = True

    def starving(self, job: JobInfo) -> bool:
        """As `victims.Victims`."""
        return self._rules.job_starving(job)

    def awaits(self, job: JobInfo) -> bool:
        """As `victims.Victims`."""
        return job.key in self._session.state.claims.jobs

    def preemptive(self, job: JobInfo, tasks: Sequence[TaskInfo]) -> bool:
        """As `victims.Victims`."""
        assert job.queue_info is not None
        return self._rules.preemptive(job.queue_info, tasks)

    def within_limits(self, job: JobInfo, shape: Shape, count: int) -> int:
        """As `victims.Victims`."""
        assert job.queue_info is not None
        return self._rules.allocatable(job.queue_info, shape, count)

    def hunt(self, task: TaskInfo, purpose: Purpose, *, own: bool = False) -> NodeHunt:
        """As `victims.Victims`."""
        for _ in self._session.state.takable.refresh():  # what the action itself has changed: a few nodes
            pass
        session = self._session
        if own:
            return NodeHunt(session, task, Prospects(session, task, purpose, own=True), None)
        assert task.owner is not None
        key = (purpose, task.owner.queue, task.shape.id)
        prospects = self._prospects.get(key)
        if prospects is None or not prospects.renew(task):
            if len(self._prospects) >= KEPT:
                self._prospects.clear()
            prospects = self._prospects[key] = Prospects(session, task, purpose)
        return NodeHunt(session, task, prospects, self._vain.get(self._kind(purpose, task)) if self._vain else None)

    def widens(self, purpose: Purpose) -> bool:
        """As `victims.Victims`."""
        return self._rules.asks_in_turn(purpose)

    def row_by_row(self, task: TaskInfo) -> bool:
        """As `victims.Victims`."""
        return self._placer.judges_rows_alone(task)

    def running(self) -> Sequence[TaskInfo]:
        """As `victims.Victims`."""
        found: list[TaskInfo] = []
        for key in sorted(self._ledger.listed):
            job = self._ledger.listed[key]
            if job.counts[TaskStatus.RUNNING]:
                found += sorted(
                    (task for task in job.members.values() if task.status is TaskStatus.RUNNING),
                    key=lambda task: task.key,
                )
        return found

    def suffice(self, node: str, shape: Shape, victims: Iterable[TaskInfo]) -> bool:
        """As `victims.Victims`."""
        columns = self._columns
        row, left, item, index = columns.rows[node], {}, columns.block.item, columns.resources
        for name, amount in shape.requests.items():
            room = item(_FUTURE, index[name], row)
            if room < amount:
                left[name] = amount - room
        if not left:
            return True
        for victim in victims:
            requests, enough = victim.shape.requests, True
            for name, amount in left.items():
                left[name] = amount = amount - requests.get(name, 0)
                enough &= amount <= 0
            if enough:
                return True
        return False

    def permitted(self, purpose: Purpose, taker: TaskInfo, node: str, eligible: Eligible) -> list[TaskInfo]:
        """As `victims.Victims`."""
        assert taker.owner is not None
        ordered = cast("list[TaskInfo]", eligible(self._order.on(node), taker))
        if not ordered:
            return ordered
        if purpose is Purpose.PREEMPT:
            return cast("list[TaskInfo]", self._rules.preemptable(taker, ordered))
        ordered = self._order.by_queue(node, ordered, taker.owner.queue)
        return cast("list[TaskInfo]", self._rules.reclaimable(taker, ordered))

    def slots(self, task: TaskInfo, purpose: Purpose) -> NodeSlots:
        """As `victims.Victims`."""
        for _ in self._session.state.takable.refresh():  # what the action itself has changed: a few nodes
            pass
        return NodeSlots(self._session, task, purpose)

    def evictable(
        self, job: JobInfo, purpose: Purpose, candidates: Sequence[TaskInfo], *, partial: bool = False
    ) -> list[TaskInfo]:
        """As `victims.Victims`."""
        return cast("list[TaskInfo]", self._rules.evictable(job, purpose, candidates, partial=partial))

    def queue_ranks(self, queues: Iterable[str], taker: str) -> dict[str, int]:
        """As `victims.Victims`."""
        known = self._session.queues
        return self._rules.victim_ranks([known[name] for name in queues], known[taker])

    def shuffled(self, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """As `victims.Victims`."""
        return cast("list[TaskInfo]", self._rules.victim_tasks(candidates))

    def fits(self, task: TaskInfo, node: str) -> bool:
        """As `victims.Victims`."""
        return self._placer.passes(task, self._columns.rows[node])

    def keeps_guarantee(self, victim: TaskInfo) -> bool:
        """As `victims.Victims`."""
        queue = victim.owner.queue_info if victim.owner is not None else None
        if queue is None or not queue.guarantee:
            return True
        held, guarantee = queue.held, queue.guarantee
        return all(
            held.get(name, 0) - amount >= guarantee.get(name, 0)
            for name, amount in victim.shape.requests.items()
            if guarantee.get(name)
        )

    def would_return(self, purpose: Purpose, evicted: Sequence[TaskInfo], placed: Sequence[TaskInfo]) -> bool:
        """As `victims.Victims`; asked as if what was placed ran already."""
        starves = self._rules.job_starving
        starving: set[str] = set()
        looked_at: set[str] = set()
        for task in evicted:  # asked after every placement that evictions pay for
            if task.job not in looked_at:
                looked_at.add(task.job)
                if task.owner is not None and starves(task.owner):
                    starving.add(task.job)
        if not starving:  # the usual case: they had more than they need
            return False
        targets = [task for task in placed if task.preemptable]
        takers: dict[tuple[str, int, int], TaskInfo] = {}
        for task in evicted:
            if task.job in starving and task.may_evict:
                takers.setdefault((task.job, task.shape.id, task.priority), task)
        if not targets or not any(self._may_take(purpose, taker) for taker in takers.values()):
            return False
        if purpose is Purpose.RECLAIM and all(_fixed(task) for task in targets):
            return False
        ledger = self._ledger
        dirty = {task.job: task.job in ledger.dirty for task in targets}
        for task in targets:
            ledger.unseat(task, TaskStatus.RUNNING, task.node)
        back = any(
            self._would_take(purpose, taker, targets) for taker in takers.values() if self._may_take(purpose, taker)
        )
        for task in targets:
            ledger.unseat(task, TaskStatus.PIPELINED, task.node)
        for key, was in dirty.items():
            if not was:
                ledger.dirty.pop(key, None)
        return back

    def attempted(self, victims: int) -> None:
        """As `victims.Victims`."""
        self._session.stats.attempts += 1
        self._session.stats.victims = victims

    def _kind(self, purpose: Purpose, task: TaskInfo) -> Hashable:
        """Tasks for which answers about victims are alike."""
        job = task.owner
        assert job is not None
        return purpose, job.queue, job.priority, self._rules.taker_key(job, purpose), task.shape.id, task.priority

    def _kind_of_job(self, purpose: Purpose, job: JobInfo, runs: Sequence[Run]) -> Hashable:
        """Jobs that want the same for tasks that are alike."""
        return (
            job.min_available,
            job.parts and job.key,
            *job.role_minimums.items(),
            *job.counts,
            *[
                (self._kind(purpose, cast("TaskInfo", run.tasks[0])), run.role, run.nominated, len(run.tasks))
                for run in runs
            ],
        )

    def _would_take(self, purpose: Purpose, taker: TaskInfo, targets: Sequence[TaskInfo]) -> bool:
        """Whether any action that runs here lets a task have any of the targets evicted."""
        session, job = self._session, taker.owner
        assert job is not None
        if session.configured(purpose):
            ask = self._rules.preemptable if purpose is Purpose.PREEMPT else self._rules.reclaimable
            if ask(taker, [task for task in targets if task.shape.best_effort or not taker.shape.best_effort]):
                return True
        if not session.configured(f"gang{purpose}"):
            return False
        low = purpose is Purpose.RECLAIM
        open_to_it = [
            task
            for task in targets
            if task.owner is not None and task.owner.expendable and (low or task.owner.priority < job.priority)
        ]
        return bool(open_to_it) and bool(self._rules.evictable(job, purpose, open_to_it))

    def _may_take(self, purpose: Purpose, taker: TaskInfo) -> bool:
        """Whether a task that was evicted could at once have others evicted, if it found any it may take."""
        job = taker.owner
        if job is None or job.queue_info is None or not taker.may_evict or not self._rules.job_starving(job):
            return False
        if purpose is Purpose.PREEMPT:
            return True
        return not self._rules.overused(job.queue_info) and self._rules.preemptive(job.queue_info, [taker])


def _fixed(task: TaskInfo) -> bool:
    """Whether nobody may reclaim from the task's queue."""
    queue = task.owner.queue_info if task.owner is not None else None
    return queue is None or queue.object.spec.reclaimable is False
