"""allocate: places pending tasks, gang by gang, and commits a job's statement once the job is ready.

Source: Volcano pkg/scheduler/actions/allocate. The first turn of a job places what makes it ready; each later turn
places one task, so that queues and jobs interleave.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.heap import Turns
from volcanoio.framework.scheduling.session import Run, Session, Statement
from volcanoio.framework.scheduling.views import Job
from volcanoio.model.scheduling import PodGroupPhase


class AllocateArguments(msgspec.Struct, frozen=True):
    """`predicateErrorCacheEnable` is Volcano's; here every task of one shape shares its answers anyway."""

    predicate_error_cache: bool = msgspec.field(default=True, name="predicateErrorCacheEnable")


class Worksheet:
    """What is left to place of a job: its runs, and how far they are used up."""

    __slots__ = ("_at", "_run", "runs")

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs
        self._run = 0
        self._at = 0

    def __bool__(self) -> bool:
        return self._run < len(self.runs)

    @property
    def position(self) -> tuple[Run, int, int]:
        """The run at hand, the index of its next task, and how many it has left."""
        run = self.runs[self._run]
        return run, self._at, len(run.tasks) - self._at

    def advance(self, count: int) -> None:
        """`count` tasks of the run at hand are dealt with."""
        self._at += count
        if self._at >= len(self.runs[self._run].tasks):
            self._run += 1
            self._at = 0


class Allocate:
    """The loop over queues and jobs, re-sorted at every turn."""

    name = "allocate"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, AllocateArguments, "action allocate")

    def run(self, session: Session) -> Iterator[None]:
        """Place tasks until no queue has a job left, or the cycle's budget is used up."""
        sheets: dict[str, Worksheet] = {}
        members: dict[str, list[Job]] = {}
        jobs: dict[str, Turns[Job]] = {}
        hopeless = session.hopeless
        if not session.configured("enqueue"):
            for job in session.waiting():  # a job that has no pods yet gets them only then
                session.promote(job)
        for job in session.pending():
            if job.phase == PodGroupPhase.PENDING or hopeless(job):
                continue
            name = job.queue
            heap = jobs.get(name)
            if heap is None:
                heap, members[name] = jobs.setdefault(name, session.job_turns()), []
            heap.push(job)
            members[name].append(job)
            yield
        queues = session.queue_turns(jobs)
        while queues:
            if session.exhausted():
                return
            queue = queues.pop()
            if session.overused(queue):
                yield from self._pass_over(session, members[queue.name], sheets)
                continue
            if not jobs[queue.name]:
                continue
            job = jobs[queue.name].pop()
            if job.key not in sheets:
                sheets[job.key] = self._worksheet(session, job)
            if (sheet := sheets[job.key]) and (yield from self._turn(session, job, sheet)) and sheet:
                jobs[queue.name].push(job)
            queues.push(queue)
            yield

    def _pass_over(self, session: Session, members: list[Job], sheets: dict[str, Worksheet]) -> Iterator[None]:
        """Jobs of a queue that gets nothing more: what an earlier cycle said of them holds no longer."""
        for job in members:
            if job.key not in sheets:
                sheets[job.key] = self._worksheet(session, job)
                yield

    def _worksheet(self, session: Session, job: Job) -> Worksheet:
        """The job's tasks to place; empty when there is none, or the job is not valid."""
        if not session.job_valid(job):
            return Worksheet([])
        runs = session.runs(job, best_effort=False)
        if runs:
            session.start(job)
        return Worksheet(runs)

    def _turn(self, session: Session, job: Job, sheet: Worksheet) -> Generator[None, None, bool]:
        """One turn of a job; returns whether its statement was committed."""
        statement = session.statement(job)
        number = yield from self._place(session, job, sheet, statement)
        ready = session.job_ready(job)
        if ready:
            statement.commit()
        elif session.job_pipelined(job):
            statement.keep()
            return False
        else:
            statement.discard()
        if not ready or not number:
            session.give_up(job, sheet.runs)
        return ready

    def _place(self, session: Session, job: Job, sheet: Worksheet, statement: Statement) -> Generator[None, None, int]:
        """Place tasks until the job is ready or cannot become so; how many were placed."""
        number = 0
        while sheet:
            run, start, left = sheet.position
            if session.role_failed(job, run.role):
                sheet.advance(left)
                continue
            allowed = session.allocatable(job, run.shape, session.at_once(run.shape, left))
            if allowed <= 0:
                sheet.advance(left)
                continue
            placed, ready = statement.place(run, start, allowed)
            number += placed
            if ready:
                sheet.advance(placed)
                return number
            if placed < allowed:
                sheet.advance(left)
                if not session.need_continue(job):
                    return number
            else:
                sheet.advance(placed)
            yield
        return number
