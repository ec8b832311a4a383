"""Who has a turn in a session: queues, and jobs in them, in their order as of now."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence

from volcanoio.engine.scheduling.backlogs import FreshBacklog, fresh
from volcanoio.engine.scheduling.budget import Budget
from volcanoio.engine.scheduling.cyclestats import CycleStats
from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.queuebacklog import QueueBacklog
from volcanoio.engine.scheduling.queues import QueueInfo
from volcanoio.engine.scheduling.sessionsight import SessionSight
from volcanoio.framework.scheduling.heap import GroupedHeap, Heap, MovingHeap, Turns
from volcanoio.framework.scheduling.points import SortKey
from volcanoio.model.scheduling import PodGroupPhase

SOME_JOBS = 0.25
"""How long putting jobs in order takes in one step, as a part of asking plugins about all nodes."""


class SessionTurns(SessionSight):
    """What `session.Session` says of budget, order and turns."""

    stats: CycleStats
    action: str
    coming: frozenset[str]
    asks_waiting: bool
    _actions: frozenset[str]
    _budget: Budget
    _rulings: int
    _urgent: Mapping[str, JobInfo]
    _urgent_queues: set[str]

    def configured(self, action: str) -> bool:
        """As `session.Session`."""
        return action in self._actions

    def to_come(self, action: str) -> bool:
        """As `session.Session`."""
        return action in self.coming

    def exhausted(self) -> bool:
        """As `session.Session`."""
        self.stats.boundaries += 1
        self.cut = self.cut or self._budget.exhausted()
        return self.cut

    def waiting(self) -> Sequence[JobInfo]:
        """As `session.Session`; where a cycle was cut meanwhile, without those that it refused."""
        self.asks_waiting = True
        jobs, refused = self.state.ledger.in_phase(PodGroupPhase.PENDING), self.state.refused
        return [job for job in jobs if job.key not in refused] if refused else jobs

    def pending(self) -> Sequence[JobInfo]:
        """As `session.Session`; where the action was cut before, without those that it tried in vain."""
        listed, vain = self.state.ledger.listed, self.state.vain.get(self.action, ())
        jobs = [job for key, job in self.state.ledger.backlog.items() if key in listed]
        return [job for job in jobs if job.key not in vain or job.key in self._urgent] if vain else jobs

    def queue_key(self, queue: QueueInfo) -> SortKey:
        """As `session.Session`; a queue with a gang whose bind was refused goes first."""
        return queue.name not in self._urgent_queues, self.rules.queue_key(queue)

    def job_key(self, job: JobInfo) -> SortKey:
        """As `session.Session`; a gang whose bind was refused goes first."""
        key = self._member_key(job)
        return (key[0], *self.rules.with_namespace(key[1:], job)) if self.rules.orders_namespaces else key

    def _member_key(self, job: JobInfo) -> tuple[SortKey, ...]:
        """Where a job stands among those of its namespace in its queue."""
        known = job.standing
        if known is None or known[0] != self._rulings:
            known = self._rulings, (True, *self.rules.job_key(job))
            if self.rules.keeps_job_keys:
                job.standing = known
        return (False, *known[1][1:]) if self._urgent and job.key in self._urgent else known[1]

    @property
    def steady_job_keys(self) -> bool:
        """As `session.Session`."""
        return self.rules.keeps_job_keys and not self.rules.orders_namespaces

    def queue_turns(self, names: Iterable[str]) -> Turns[QueueInfo]:
        """As `session.Session`."""
        queues = [self.queues[name] for name in names]
        if self.rules.queue_epoch():
            return MovingHeap(self.queue_key, self.rules.queue_epoch, queues)
        return Heap(self.queue_key, queues)

    def job_turns(self) -> Turns[JobInfo]:
        """As `session.Session`."""
        if self.rules.orders_namespaces:
            return GroupedHeap(_namespace, self._member_key, self.job_key, self.rules.namespace_epoch)
        return Heap(self._member_key)

    def backlogs(self, *, admitted: bool) -> Generator[None, None, Mapping[str, QueueBacklog | FreshBacklog]]:
        """As `session.Session`; jobs that an action tried or refused in vain before it was cut have no turn."""
        kept = self.state.backlogs
        if not self.steady_job_keys:
            jobs = [job for job in self.pending() if job.phase != PodGroupPhase.PENDING] if admitted else self.waiting()
            return (yield from fresh(jobs, self.job_turns))
        for _ in kept.follow(self._member_key, self._rulings, self._urgent, admitted=admitted):
            self.state.placer.overall += SOME_JOBS
            yield
        if not admitted:
            self.asks_waiting = True
            return kept.begin(self._member_key, self.state.refused, admitted=False)
        vain = self.state.vain.get(self.action, ())
        return kept.begin(self._member_key, vain and vain - self._urgent.keys(), admitted=True)


def _namespace(job: JobInfo) -> str:
    return job.namespace
