"""allocate: places pending tasks, gang by gang, and commits a job's statement once the job is ready.

Source: Volcano pkg/scheduler/actions/allocate. The first turn of a job places what makes it ready; each later turn
places one task, so that queues and jobs interleave.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.session import Backlog, Session, Statement
from volcanoio.framework.scheduling.subjobs import SubJob
from volcanoio.framework.scheduling.views import Job
from volcanoio_plugins.actions.worksheets import SubJobSheets, Worksheet

Sheet: TypeAlias = Worksheet | SubJobSheets
"""What is left to place of a job; of one with sub-group policies sub-job by sub-job."""


PASSED = 8
"""Jobs passed in one step."""


class AllocateArguments(msgspec.Struct, frozen=True):
    """`predicateErrorCacheEnable` is Volcano's; here every task of one shape shares its answers anyway."""

    predicate_error_cache: bool = msgspec.field(default=True, name="predicateErrorCacheEnable")


class Allocate:
    """The loop over queues and jobs, re-sorted at every turn."""

    name = "allocate"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, AllocateArguments, "action allocate")

    def run(self, session: Session) -> Iterator[None]:
        """Place tasks until no queue has a job left, or the cycle's budget is used up."""
        sheets: dict[str, Sheet] = {}
        if not session.configured("enqueue"):
            for job in session.waiting():  # a job that has no pods yet gets them only then
                session.promote(job)
        backlogs = yield from session.backlogs(admitted=True)
        queues = session.queue_turns(backlogs)
        while queues:
            if session.exhausted():
                return
            queue = queues.pop()
            backlog = backlogs[queue.name]
            if session.overused(queue):
                yield from self._pass_over(session, backlog, sheets)
                continue
            first = backlog.pop()
            if first is not None and first.key not in sheets and session.hopeless(first):
                first = yield from self._hopeful(session, backlog, sheets)
            if first is None:
                continue
            sheet = sheets.get(first.key)
            if sheet is None:
                resumed = session.resume(first)
                sheet = sheets[first.key] = Worksheet([]) if resumed else self._worksheet(session, first)
                yield
                yield from session.let_in(first)
            if sheet:
                done = self._short_turn(session, first, sheet) or (yield from self._turn(session, first, sheet))
                if done and sheet:
                    backlog.push(first)
            queues.push(queue)
            yield

    def _hopeful(
        self, session: Session, backlog: Backlog, sheets: Mapping[str, Sheet]
    ) -> Generator[None, None, Job | None]:
        """The next job of which an attempt may be of use."""
        passed = 0
        while (job := backlog.pop()) is not None and job.key not in sheets and session.hopeless(job):
            passed += 1
            if not passed % PASSED:
                yield
        return job

    def _pass_over(self, session: Session, backlog: Backlog, sheets: dict[str, Sheet]) -> Iterator[None]:
        """Jobs of a queue that gets nothing more: what an earlier cycle said of them holds no longer."""
        for job in backlog.news():
            if job.key not in sheets and not session.hopeless(job):
                yield
                sheets[job.key] = self._worksheet(session, job)
            yield  # a worksheet takes as long as two or three looks

    def _worksheet(self, session: Session, job: Job) -> Sheet:
        """The job's tasks to place; empty when there is none, or the job is not valid."""
        if not session.job_valid(job):
            return Worksheet([])
        sheet = SubJobSheets(session, job) if job.sub_jobs else Worksheet(session.runs(job, best_effort=False))
        if sheet:
            session.start(job)
        return sheet

    def _short_turn(self, session: Session, job: Job, sheet: Sheet) -> bool:
        """Place one task of a job that is ready with it, as most turns do; False, with nothing done, for all others."""
        if job.min_available - job.ready_count > 1 or isinstance(sheet, SubJobSheets):
            return False
        run, start, _ = sheet.position
        if not session.place_next(job, run, start):
            return False
        sheet.advance(1)
        return True

    def _turn(self, session: Session, job: Job, sheet: Sheet) -> Generator[None, None, bool]:
        """One turn of a job; returns whether its statement was committed."""
        statement = session.statement(job)
        if isinstance(sheet, SubJobSheets):
            number, ready = yield from self._place_parts(session, job, sheet, statement)
        else:
            number, ready = yield from self._place(session, job, sheet, statement)
        ready = ready or session.job_ready(job)
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

    def _place_parts(
        self, session: Session, job: Job, sheet: SubJobSheets, statement: Statement
    ) -> Generator[None, None, tuple[int, bool]]:
        """Place sub-jobs, each as far as it becomes ready or not at all, until the job is.

        How many tasks were placed, and whether that makes the job ready: False where it was not asked.
        One that is not placed is left out from then on (Volcano: allocateForJob).
        """
        number = 0
        while sheet:
            part, own = sheet.pop()
            session.start(job, part)
            mark = statement.mark()
            placed, _ = yield from self._place(session, job, own, statement, part)
            if not placed or not (session.sub_job_ready(part) or session.sub_job_pipelined(part)):
                statement.rollback(mark, told=True)
                continue
            number += placed
            if own:
                sheet.push(part)
            if session.job_ready(job):
                return number, True
        return number, False

    def _place(
        self, session: Session, job: Job, sheet: Worksheet, statement: Statement, part: SubJob | None = None
    ) -> Generator[None, None, tuple[int, bool]]:
        """Place tasks until the job, or that part of it, is ready or cannot become so.

        How many were placed, and whether that was enough: False where it was not asked.
        """
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
            placed, ready = statement.place(run, start, allowed, part=part)
            number += placed
            if ready:
                sheet.advance(placed)
                return number, True
            if placed < allowed:
                sheet.advance(left)
                if not session.need_continue(job, part):
                    return number, False
            else:
                sheet.advance(placed)
            yield
        return number, False
