"""allocate: places pending tasks, gang by gang, and commits a job's statement once the job is ready.

Source: Volcano pkg/scheduler/actions/allocate. The first attempt at a job places as many tasks as make it ready; each
later attempt in the session places one task, so that queues and jobs alternate.

A job with a network topology is placed in one HyperNode, and each of its sub-jobs with one in a HyperNode inside that.
HyperNodes are tried level by level, the best of a level first; what does not suffice is undone. As a HyperNode's score
does not depend on where the tasks would go, the first one that suffices is the one that Volcano finds by trying all.
With sub-jobs, the score of a job's HyperNode is the sum of those chosen for the sub-jobs: all of a level are tried,
and the best is then placed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.heap import Heap
from volcanoio.framework.scheduling.hypernodes import CLUSTER
from volcanoio.framework.scheduling.session import Backlog, Run, Session, Statement
from volcanoio.framework.scheduling.views import Job, SubJob, TaskStatus

SKIPPED_PER_STEP = 8
"""Unschedulable jobs skipped in one step."""
PLACED_PER_STEP = 32
"""Tasks placed in one step where a search found their nodes."""


class PendingRuns:
    """Runs of tasks, and the position of the next task."""

    __slots__ = ("_at", "_run", "runs")

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs
        self._run = 0
        self._at = 0

    def __bool__(self) -> bool:
        return self._run < len(self.runs)

    @property
    def position(self) -> tuple[Run, int, int]:
        """The current run, the index of its next task, and how many it has left."""
        run = self.runs[self._run]
        return run, self._at, len(run.tasks) - self._at

    def savepoint(self) -> Any:
        """Return the position for `rollback`."""
        return self._run, self._at

    def rollback(self, savepoint: Any) -> None:
        """Return to an earlier position."""
        self._run, self._at = savepoint

    def clear(self) -> None:
        """Skip all tasks."""
        self._run = len(self.runs)

    @property
    def runs_by_sub_job(self) -> Mapping[str, list[Run]]:
        """Its runs, as those of a job without sub-jobs."""
        return {"": self.runs}

    def drop_placed(self) -> None:
        """Start again with the tasks that are still pending."""
        self.runs = pending_of(self.runs)
        self._run = self._at = 0

    def advance(self, count: int) -> None:
        """Move on by `count` tasks of the current run."""
        self._at += count
        if self._at >= len(self.runs[self._run].tasks):
            self._run += 1
            self._at = 0


def pending_of(runs: Sequence[Run]) -> list[Run]:
    """Return the runs without the tasks that are no longer pending."""
    left = [run._replace(tasks=[task for task in run.tasks if task.status is TaskStatus.PENDING]) for run in runs]
    return [run for run in left if run.tasks]


class PendingSubJobs:
    """The sub-jobs of a job that have tasks to place: first those needed to reach each policy's minimum.

    Volcano: organizeJobWorksheet. The needed sub-jobs are determined once; a sort key is computed at every push.
    """

    __slots__ = ("_heap", "_needed", "_session", "_sub_jobs", "tasks_by_sub_job")

    def __init__(self, session: Session, job: Job) -> None:
        self._session = session
        self._needed = needed_sub_jobs(session, job)
        self.tasks_by_sub_job: dict[str, PendingRuns] = {}
        """Pending tasks by the sub-job's key."""
        for sub_job in job.sub_jobs:
            if runs := session.runs(job, best_effort=False, sub_job=sub_job):
                self.tasks_by_sub_job[sub_job.key] = PendingRuns(runs)
        self._sub_jobs = [sub_job for sub_job in job.sub_jobs if sub_job.key in self.tasks_by_sub_job]
        self._heap = self._ordered(self._sub_jobs)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def savepoint(self) -> Any:
        """Return what is left for `rollback`."""
        left = []
        while self._heap:
            left.append(self._heap.pop())
        self._heap = self._ordered(left)
        return left, {key: pending.savepoint() for key, pending in self.tasks_by_sub_job.items()}

    def rollback(self, savepoint: Any) -> None:
        """Return to what was left earlier."""
        left, positions = savepoint
        self._heap = self._ordered(left)
        for key, position in positions.items():
            self.tasks_by_sub_job[key].rollback(position)

    def clear(self) -> None:
        """Skip all sub-jobs."""
        self._heap = self._ordered(())

    def _ordered(self, sub_jobs: Sequence[SubJob]) -> Heap[SubJob]:
        """Return a queue of sub-jobs: those needed to reach a minimum first."""
        return Heap(lambda one: (one.key not in self._needed, self._session.sub_job_key(one)), sub_jobs)

    @property
    def runs_by_sub_job(self) -> Mapping[str, list[Run]]:
        """The runs of each sub-job, by its key."""
        return {key: pending.runs for key, pending in self.tasks_by_sub_job.items()}

    def drop_placed(self) -> None:
        """Start again with the tasks that are still pending."""
        for pending in self.tasks_by_sub_job.values():
            pending.drop_placed()
        self._heap = self._ordered([sub_job for sub_job in self._sub_jobs if self.tasks_by_sub_job[sub_job.key]])

    @property
    def runs(self) -> list[Run]:
        """All runs of all sub-jobs."""
        return [run for pending in self.tasks_by_sub_job.values() for run in pending.runs]

    def pop(self) -> tuple[SubJob, PendingRuns]:
        """Return the first sub-job and its tasks."""
        sub_job = self._heap.pop()
        return sub_job, self.tasks_by_sub_job[sub_job.key]

    def push(self, sub_job: SubJob) -> None:
        """Put a sub-job with remaining tasks back."""
        self._heap.push(sub_job)

    def __iter__(self) -> Iterator[tuple[SubJob, PendingRuns]]:
        """Yield the sub-jobs in their current order, consuming them."""
        while self._heap:
            yield self.pop()


def needed_sub_jobs(session: Session, job: Job) -> set[str]:
    """Return the sub-jobs that must become ready so that each policy reaches its minimum."""
    minimums = job.sub_job_minimums
    ready: Counter[str] = Counter()
    others = []
    for sub_job in job.sub_jobs:
        if session.sub_job_ready(sub_job):
            ready[sub_job.group] += 1
        else:
            others.append(sub_job)
    chosen = set()
    for sub_job in sorted(others, key=session.sub_job_key):
        if ready[sub_job.group] < minimums.get(sub_job.group, 0):
            ready[sub_job.group] += 1
            chosen.add(sub_job.key)
    return chosen


PendingTasks: TypeAlias = PendingRuns | PendingSubJobs
"""The tasks of a job that are left to place; by sub-job if it has sub-group policies."""


class AllocateArguments(msgspec.Struct, frozen=True):
    """Volcano's `predicateErrorCacheEnable` has no effect: tasks of one shape always share their results."""

    predicate_error_cache: bool = msgspec.field(default=True, name="predicateErrorCacheEnable")


class Allocate:
    """The loop over queues and jobs; their order is updated after every attempt."""

    name = "allocate"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, AllocateArguments, "action allocate")

    def run(self, session: Session) -> Iterator[None]:
        """Place tasks until no queue has a job left, or the cycle's budget is used up."""
        pending_by_job: dict[str, PendingTasks] = {}
        if not session.is_action_configured("enqueue"):
            for unadmitted in session.jobs_to_enqueue():  # the controller creates pods of admitted jobs only
                session.enqueue_without_vote(unadmitted)
        backlogs = yield from session.backlogs(admitted=True)
        queues = session.ordered_queues(backlogs)
        while queues:
            if session.is_budget_exhausted():
                return
            queue = queues.pop()
            backlog = backlogs[queue.name]
            if session.overused(queue):
                yield from self._pass_over(session, backlog, pending_by_job)
                continue
            if (job := backlog.pop()) is not None and job.key not in pending_by_job and session.is_unschedulable(job):
                job = yield from self._next_schedulable(session, backlog, pending_by_job)
            if job is None:
                continue
            if (yield from self._allocate(session, job, pending_by_job)):
                backlog.push(job)
            queues.push(queue)
            yield

    def _allocate(
        self, session: Session, job: Job, pending_by_job: dict[str, PendingTasks]
    ) -> Generator[None, None, bool]:
        """Make one attempt at a job; return whether another one follows: it was committed and has tasks left."""
        if (pending := pending_by_job.get(job.key)) is None:
            is_resumed = session.pipeline_nominated(job)
            pending = pending_by_job[job.key] = PendingRuns([]) if is_resumed else self._collect_pending(session, job)
            yield
            yield from session.open_queue_gates(job)
        if not pending:
            return False
        done = self._try_one_task(session, job, pending) or (yield from self._try_with_statement(session, job, pending))
        return done and bool(pending)

    def _next_schedulable(
        self, session: Session, backlog: Backlog, pending_by_job: Mapping[str, PendingTasks]
    ) -> Generator[None, None, Job | None]:
        """Return the next job that is not known to be unschedulable; None if there is none."""
        skipped = 0
        while (job := backlog.pop()) is not None and job.key not in pending_by_job and session.is_unschedulable(job):
            skipped += 1
            if not skipped % SKIPPED_PER_STEP:
                yield
        return job

    def _pass_over(self, session: Session, backlog: Backlog, pending_by_job: dict[str, PendingTasks]) -> Iterator[None]:
        """Update the recorded reasons why changed jobs of a queue wait that may allocate nothing more."""
        for job in backlog.changed_jobs():
            if job.key not in pending_by_job and not session.is_unschedulable(job):
                yield
                pending_by_job[job.key] = self._collect_pending(session, job)
            yield  # collecting tasks takes two or three times as long as a check

    def _collect_pending(self, session: Session, job: Job) -> PendingTasks:
        """Return the job's tasks to place; empty if there are none, or the job is not valid."""
        if not session.job_valid(job) or (job.has_network_topology and not session.domains.are_known(job)):
            return PendingRuns([])
        pending = PendingSubJobs(session, job) if job.sub_jobs else PendingRuns(session.runs(job, best_effort=False))
        if pending:
            session.begin_attempt(job)
        return pending

    def _try_one_task(self, session: Session, job: Job, pending: PendingTasks) -> bool:
        """Place one task without a statement if that makes the job ready; False, with nothing done, otherwise."""
        if job.min_available - job.ready_count > 1 or isinstance(pending, PendingSubJobs) or job.has_network_topology:
            return False
        run, start, _ = pending.position
        if not session.allocate_and_bind(job, run, start):
            return False
        pending.advance(1)
        return True

    def _try_with_statement(self, session: Session, job: Job, pending: PendingTasks) -> Generator[None, None, bool]:
        """Make one attempt at a job with a statement; return whether it was committed."""
        statement = session.statement(job)
        number, ready = yield from self._place_in_best_domain(session, job, pending, statement)
        ready = ready or session.job_ready(job)
        if ready:
            statement.commit()
        elif session.job_pipelined(job):
            statement.keep_until_close()
            return False
        else:
            statement.discard()
        if not ready or not number:
            session.mark_unschedulable(job, pending.runs)
        return ready

    def _place_in_best_domain(
        self, session: Session, job: Job, pending: PendingTasks, statement: Statement
    ) -> Generator[None, None, tuple[int, bool]]:
        """Place tasks in the best HyperNode of the first level that suffices; return as `_place`.

        Where none suffices, the room of the roomiest one says why.
        """
        if not job.has_network_topology:
            number, ready, _ = yield from self._place_all(session, job, pending, statement, CLUSTER)
            return number, ready
        runs, end = pending.runs, None
        levels = session.domains.levels(job, evicting=False)
        for level in levels:
            solutions: list[tuple[float, str]] = []
            for name in session.domains.promising(job, level, runs):
                mark, start = statement.savepoint(), pending.savepoint()
                session.begin_attempt(job)
                number, ready, places = yield from self._place_all(session, job, pending, statement, name)
                if number and (ready or session.job_ready(job) or session.job_pipelined(job)):
                    if isinstance(pending, PendingRuns) or len(level) == 1:
                        return number, ready
                    score = sum(session.domains.score(sub_job, place) for sub_job, place in places)
                    solutions.append((score, name))
                statement.rollback(mark, record_attempts=True)
                end = pending.savepoint()
                pending.rollback(start)
            if solutions:
                best = max(solutions, key=lambda solution: solution[0])
                session.begin_attempt(job)
                number, ready, _ = yield from self._place_all(session, job, pending, statement, best[1])
                return number, ready
        if levels and (number := (yield from self._search(session, job, pending, statement, levels))):
            return number, session.job_ready(job)
        if end is not None:
            pending.rollback(end)
        elif levels:
            name = session.domains.roomiest(levels[-1], runs)
            number, ready, _ = yield from self._place_all(session, job, pending, statement, name)
            return number, ready
        else:
            pending.clear()
        return 0, False

    def _search(
        self,
        session: Session,
        job: Job,
        pending: PendingTasks,
        statement: Statement,
        levels: Sequence[Sequence[str]],
    ) -> Generator[None, None, int]:
        """Place what a gang of different tasks needs where a search finds nodes for it; return the number of tasks."""
        found = yield from session.domains.search(job, statement, levels, pending.runs_by_sub_job)
        if found is None:
            return 0
        mark, number, beyond_quota, is_free = statement.savepoint(), 0, None, True
        for task, node in found.nodes:
            run = Run(task.shape, task.role, [task], node)
            if session.allocatable(job, run.shape, 1) <= 0:
                beyond_quota = run.shape
                break
            statement.allocate(run, 0, 1, until_ready=False)
            if not (is_free := task.node == node):  # the node was taken meanwhile: the task has another one, or none
                break
            number += 1
            if not number % PLACED_PER_STEP:
                yield
        if is_free and (session.job_ready(job) or session.job_pipelined(job)):
            session.begin_attempt(job)
            pending.drop_placed()
            return number
        if beyond_quota is None:
            statement.rollback(mark)
            session.domains.refuse_found(job, found)
            return 0
        session.begin_attempt(job)
        session.allocatable(job, beyond_quota, 1)  # records that the quota is the reason, not the nodes
        statement.rollback(mark)
        return 0

    def _place_all(
        self, session: Session, job: Job, pending: PendingTasks, statement: Statement, within: str
    ) -> Generator[None, None, tuple[int, bool, list[tuple[SubJob, str]]]]:
        """Place tasks of a job in a HyperNode; return as `_place`, with its sub-jobs and their HyperNodes."""
        if isinstance(pending, PendingSubJobs):
            return (yield from self._place_sub_jobs(session, job, pending, statement, within))
        number, ready = yield from self._place(session, job, pending, statement, within)
        return number, ready, []

    def _place_sub_jobs(
        self, session: Session, job: Job, pending: PendingSubJobs, statement: Statement, within: str
    ) -> Generator[None, None, tuple[int, bool, list[tuple[SubJob, str]]]]:
        """Place sub-jobs until the job is ready; a sub-job that does not become ready is undone.

        Returns how many tasks were placed, whether the job is known to be ready, and the HyperNode of each placed
        sub-job. A sub-job that was undone is not tried again in this session (Volcano: allocateForJob).
        """
        number = 0
        places: list[tuple[SubJob, str]] = []
        while pending:
            sub_job, own = pending.pop()
            session.begin_attempt(job, sub_job)
            placed, name = yield from self._place_sub_job(session, job, sub_job, own, statement, within)
            if not placed:
                continue
            number += placed
            places.append((sub_job, name))
            if own:
                pending.push(sub_job)
            if session.job_ready(job):
                return number, True, places
        return number, False, places

    def _place_sub_job(  # noqa: PLR0913 - one step of the loop above
        self, session: Session, job: Job, sub_job: SubJob, own: PendingRuns, statement: Statement, within: str
    ) -> Generator[None, None, tuple[int, str]]:
        """Place one sub-job in the best HyperNode that suffices; return how many tasks, and the HyperNode."""
        for level in (
            session.domains.levels(sub_job, within, evicting=False) if job.has_network_topology else [[within]]
        ):
            candidates = session.domains.promising(sub_job, level, own.runs) if len(level) > 1 else level
            for name in candidates:
                mark, start = statement.savepoint(), own.savepoint()
                placed, _ = yield from self._place(session, job, own, statement, name, sub_job)
                if placed and (session.sub_job_ready(sub_job) or session.sub_job_pipelined(sub_job)):
                    return placed, name
                statement.rollback(mark, record_attempts=True)
                own.rollback(start)
        return 0, within

    def _place(  # noqa: PLR0913 - the innermost step, called for a job or a sub-job of it
        self,
        session: Session,
        job: Job,
        pending: PendingRuns,
        statement: Statement,
        within: str,
        sub_job: SubJob | None = None,
    ) -> Generator[None, None, tuple[int, bool]]:
        """Place tasks until the job or sub-job is ready, or can no longer become ready.

        Returns how many were placed, and whether that is known to be enough.
        """
        number = 0
        while pending:
            run, start, left = pending.position
            if session.has_role_failed(job, run.role):
                pending.advance(left)
                continue
            if (allowed := session.allocatable(job, run.shape, session.batch_size(run.shape, left))) <= 0:
                pending.advance(left)
                continue
            placed, ready = statement.allocate(run, start, allowed, sub_job=sub_job, within=within)
            number += placed
            if ready:
                pending.advance(placed)
                return number, True
            if placed < allowed:
                pending.advance(left)
                if not session.can_become_ready(job, sub_job):
                    return number, False
            else:
                pending.advance(placed)
            yield
        return number, False
