"""What actions that evict have in common, and how preempt and reclaim make room for a job's tasks, node by node.

A set of victims is taken only if the task then passes every filter and its queue's limits, no queue falls below its
guarantee by it, and the evicted could not at once evict back. Room that is there without evictions is used first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Sequence

from volcanoio.framework.scheduling.heap import Turns
from volcanoio.framework.scheduling.points import Purpose
from volcanoio.framework.scheduling.session import Run, Session, Statement
from volcanoio.framework.scheduling.victims import Eligible, Hunt
from volcanoio.framework.scheduling.views import Job, Task
from volcanoio.model.scheduling import PodGroupPhase


def takers(session: Session) -> Iterator[Job]:
    """Jobs that may have others evicted: admitted, valid, starving, and no room is being made for them yet."""
    victims = session.victims
    for job in session.pending():
        if (
            job.phase != PodGroupPhase.PENDING
            and not victims.rests(job)
            and not victims.awaits(job)
            and victims.starving(job)
            and session.job_valid(job)
        ):
            yield job


def runs_of(session: Session, job: Job) -> list[Run]:
    """The pending tasks for which others may be evicted, in task order."""
    runs = [*session.runs(job, best_effort=False), *session.runs(job, best_effort=True)]
    chosen = [Run(run.shape, run.role, [task for task in run.tasks if task.may_evict], run.nominated) for run in runs]
    return [run for run in chosen if run.tasks]


def in_queues(session: Session, jobs: Iterable[Job]) -> Generator[None, None, dict[str, Turns[Job]]]:
    """The jobs in the order of their turns, by queue."""
    found: dict[str, Turns[Job]] = {}
    for job in jobs:
        if job.queue not in found:
            found[job.queue] = session.job_turns()
        found[job.queue].push(job)
        yield
    return found


def worth_keeping(session: Session, job: Job, placed: Iterable[Task]) -> bool:
    """Whether a job's reservations are of use: to it, and to each sub-job that has some of them."""
    if not session.job_pipelined(job):
        return False
    parts = {part.key: part for task in placed if (part := job.sub_job_of(task)) is not None} if job.sub_jobs else {}
    return all(session.sub_job_ready(part) or session.sub_job_pipelined(part) for part in parts.values())


def conclude(session: Session, statement: Statement, job: Job, purpose: Purpose, *, without: bool) -> bool:
    """Commit what a job has if that is worth keeping, else take it back; whether it was committed.

    `without`: also where nothing had to be evicted.
    """
    evicted = statement.evicted
    worth = worth_keeping(session, job, statement.pipelined) and (bool(evicted) or without)
    if worth and evicted and session.victims.would_return(purpose, evicted, statement.pipelined):
        worth = False
    if worth:
        statement.commit()
    else:
        statement.discard()
    return worth


class Taking:
    """Makes room for tasks of one job in one statement.

    `reason` is the action's name; `own` says that victims are the job's own tasks.
    """

    def __init__(
        self,
        session: Session,
        job: Job,
        purpose: Purpose,
        eligible: Eligible,
        reason: str,
        *,
        own: bool = False,
    ) -> None:
        self._session = session
        self._victims = session.victims
        self._statement: Statement = session.statement(job)
        self._job = job
        self._purpose = purpose
        self._eligible = eligible
        self._reason = reason
        self._own = own
        self._hindered = False
        """Whether a node was given up that evictions elsewhere can bring back: where a limit or a filter stood against
        the task, or those of whom plugins let nobody go may be given by others then.
        """
        self._limited = False
        """Whether room that is there was not to be had when it was last asked for, because of the queue's limit."""
        self._vain: list[tuple[Task, str, bool]] = []
        """Tasks and nodes where nothing was found, and whether the statement had changed nothing by then."""

    def seat(self, run: Run, *, starving: bool = True) -> Generator[None, None, int]:
        """Place tasks of a run, while the job starves unless that does not matter; how many were placed."""
        victims, statement = self._victims, self._statement
        number = yield from self._reserve(run, starving=starving)
        hunt: Hunt | None = None
        at = ""
        alone: bool | None = None
        while number < len(run.tasks) and (not starving or victims.starving(self._job)):
            task = run.tasks[number]
            if not self._wants(task):
                break
            if at and self._fits(task, at):
                statement.pipeline(task, at, evicted=True)
                if hunt is not None:
                    hunt.changed(at)
                number += 1
                continue
            if (self._limited or not alone) and at and self._elsewhere(run, number):
                if hunt is not None:
                    hunt.changed(task.node)
                number += 1
                continue
            hunt = hunt or victims.hunt(task, self._purpose, own=self._own)
            at = yield from self.search(task, hunt)
            if not at:
                break
            if alone is None:
                alone = victims.row_by_row(task)
            if self._hindered:
                hunt, self._hindered = None, False
            else:
                hunt.changed(at)
            number += 1
            yield  # a placement with evictions takes as long as two looks in vain
        return number

    def _elsewhere(self, run: Run, number: int) -> bool:
        """Whether a task has room now where it had none, because who kept it away from there is evicted elsewhere, or
        the queue is below its limit again: then it is placed.
        """
        return self._within(run, 1) > 0 and self._statement.reserve(run, number, 1) > 0

    def search(self, task: Task, hunt: Hunt) -> Generator[None, None, str]:
        """Make room for a task on the best node where that can be done, and place it; "" when there is none."""
        while node := hunt.best():
            yield
            if self.take(task, node):
                return node
            self.spent(task, node, hunt)
        return ""

    def spent(self, task: Task, node: str, hunt: Hunt) -> None:
        """Nothing is to be found on a node."""
        hunt.spent(node)
        statement = self._statement
        self._vain.append((task, node, not statement.evicted and not statement.pipelined))

    def take(self, task: Task, node: str) -> bool:
        """Evict on a node, lowest first, until the task fits there, and place it; else leave all as it was."""
        victims, statement = self._victims, self._statement
        chosen = self.candidates(task, node)
        victims.attempted(len(chosen))
        fits = self._fits(task, node)
        if not chosen and not fits:
            self._hindered = self._hindered or victims.widens(self._purpose)
            return False
        mark = statement.mark()
        evicted: list[Task] = []
        for victim in chosen:
            if fits:
                break
            if self._purpose is Purpose.RECLAIM and not victims.keeps_guarantee(victim):
                continue
            statement.evict(victim, self._reason)
            evicted.append(victim)
            fits = self._fits(task, node)
        self._hindered = self._hindered or not fits
        if fits and self.settle(task, node, evicted):
            return True
        statement.rollback(mark)
        return False

    def candidates(self, task: Task, node: str) -> list[Task]:
        """Those who may be evicted on a node for a task, in the order in which they go; none where all are too few."""
        victims = self._victims
        permitted = victims.permitted(self._purpose, task, node, self._eligible)
        return permitted if permitted and victims.suffice(node, task.shape, permitted) else []

    def settle(self, task: Task, node: str, evicted: list[Task]) -> bool:
        """Place a task on a node that it fits by now; False when its victims could evict it at once."""
        self._statement.pipeline(task, node, evicted=bool(evicted))
        return not evicted or not self._victims.would_return(self._purpose, evicted, [task])

    def give_up(self) -> None:
        """Take all back."""
        self._statement.discard()

    def end(self) -> bool:
        """Commit what the job has if that is worth keeping, else take it back; whether it was committed.

        Without evictions it is left to allocate, if that is still to come: the room is there.
        """
        session = self._session
        worth = conclude(session, self._statement, self._job, self._purpose, without=not session.to_come("allocate"))
        if not self._own:
            for task, node, pure in self._vain:
                if worth or pure:
                    session.victims.vain(self._purpose, task, node)
        return worth

    def _reserve(self, run: Run, *, starving: bool) -> Generator[None, None, int]:
        """Place what has room without evictions, some at a time; how many had."""
        victims, number = self._victims, 0
        while number < len(run.tasks) and (not starving or victims.starving(self._job)):
            if not self._wants(run.tasks[number]):
                break
            some = self._session.at_once(run.shape, len(run.tasks) - number)
            allowed = self._wanted(run.tasks[number : number + self._within(run, some)])
            placed = self._statement.reserve(run, number, allowed) if allowed > 0 else 0
            number += placed
            if placed < some:
                break
            yield
        return number

    def _within(self, run: Run, count: int) -> int:
        """How many the queue may have of so many more."""
        allowed = self._victims.within_limits(self._job, run.shape, count)
        self._limited = allowed < count
        return allowed

    def _wants(self, task: Task) -> bool:
        """Whether the queue may have room made for the task at all."""
        return self._purpose is Purpose.PREEMPT or self._victims.preemptive(self._job, [task])

    def _wanted(self, tasks: Sequence[Task]) -> int:
        """For how many of alike tasks, from the first on, the queue may have room made together."""
        if self._purpose is Purpose.PREEMPT:
            return len(tasks)
        preemptive, job = self._victims.preemptive, self._job
        return bisect_left(range(1, len(tasks) + 1), x=True, key=lambda count: not preemptive(job, tasks[:count]))

    def _fits(self, task: Task, node: str) -> bool:
        """Whether the task passes limits and filters there now."""
        return self._victims.fits(task, node) and self._victims.within_limits(self._job, task.shape, 1) > 0
