"""What was decided, carried out: answers of policies, Commands, delayed actions whose time has come.

However many answers there are, each acts on the job as those before it left it, and all are one status write.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from volcanoio.engine.jobs import commands, delayed, overriding
from volcanoio.engine.jobs.actions import Cause, cause_of, cause_of_delayed, intent
from volcanoio.engine.jobs.converge import Scene
from volcanoio.engine.jobs.draft import Draft
from volcanoio.engine.jobs.ledger import Hold, Ledger
from volcanoio.engine.jobs.state import Answer, WriteEffect
from volcanoio.engine.jobs.writing import counted, write_status
from volcanoio.framework import decisions
from volcanoio.model.batch import Job, JobAction, JobEvent, JobStatus
from volcanoio.model.core import Pod

_DECIDED = ("delayed", "hold", "overrides", "alerts")
"""Entries of the bookkeeping that hold what was decided: they are written before anything follows from them."""


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """Where decisions lead: the status and the bookkeeping so far, and the actions carried out on the way."""

    job: Job
    status: JobStatus
    ledger: Ledger
    now: float
    done: tuple[JobAction, ...] = ()

    def act(self, action: JobAction, cause: Cause) -> Course:
        """Carry out an action; the same course when it changes nothing in this phase."""
        after = intent(self.job, self.status, self.ledger, action, cause, self.now)
        if after is None:
            return self
        status, ledger = after
        return msgspec.structs.replace(self, status=status, ledger=ledger, done=(*self.done, action))

    def noting(self, **entries: object) -> Course:
        """With other bookkeeping."""
        return msgspec.structs.replace(self, ledger=msgspec.structs.replace(self.ledger, **entries))


def decided(draft: Draft, scene: Scene, stored: Ledger, ledger: Ledger) -> bool:
    """Write down what was decided; False when nothing was. Answers come before Commands, and these before what is due.

    `stored` is the bookkeeping that the job has, `ledger` what has become of it since.
    """
    start = Course(job=scene.job, status=scene.job.status, ledger=ledger, now=draft.now)
    answers = draft.state.answers
    course = _followed(draft, scene, start, answers)
    draft.set(answers=())
    changed = any(getattr(course.ledger, entry) != getattr(stored, entry) for entry in _DECIDED)
    if (course.done or changed) and _write(draft, scene, course):
        draft.set(carried=answers)
        return True
    return _command(draft, scene, start) or _due(draft, scene, start)


def _followed(draft: Draft, scene: Scene, course: Course, answers: tuple[Answer, ...]) -> Course:
    """The course after all answers, in their order; one about an older version of the job is dropped."""
    held: Mapping[str, Pod] = draft.state.pods
    waits: list[delayed.Wait] = []
    uid = scene.job.metadata.uid
    for answer in answers:
        event, decision = answer.event, answer.decision
        if event.job_uid != uid or event.version < course.status.version:
            continue
        match decision:
            case decisions.Hold(reason=reason, until=until):
                course = course.noting(hold=Hold(reason, until))
            case decisions.Act(action=action, after=due) if due > 0:
                if (wait := delayed.waiting(event, action, due, held)) is not None:
                    waits.append(wait)
            case decisions.Act(action=action):
                course = _with_waits(course, waits).act(action, cause_of(event, held))
            case decisions.Override(action=action, reason=reason):
                ledger = overriding.entered(course.ledger, decision)
                if ledger is not course.ledger and reason:
                    draft.report("Normal", "Override", reason)
                course = msgspec.structs.replace(course, ledger=ledger)
                course = _with_waits(course, waits).act(action, cause_of(event, held, free=True))
    course = _with_waits(course, waits)
    job = msgspec.structs.replace(scene.job, status=course.status)
    return course.noting(delayed=delayed.standing(course.ledger.delayed, job, scene.roll.own()))


def _with_waits(course: Course, waits: list[delayed.Wait]) -> Course:
    """The course with what was decided for later so far."""
    if not waits:
        return course
    entries = delayed.added(course.ledger.delayed, waits)
    waits.clear()
    return course.noting(delayed=entries)


def _write(draft: Draft, scene: Scene, course: Course, then: WriteEffect | None = None) -> bool:
    """Write where decisions lead; False when that is where the job is."""
    if not write_status(draft, scene, counted(scene, course.ledger, course.status)):
        return False
    if then is not None:
        draft.stage([then])
    for action in dict.fromkeys(course.done):
        draft.report("Normal", "ExecuteAction", f"Start to execute action {action} ")
    return True


def _command(draft: Draft, scene: Scene, course: Course) -> bool:
    """The oldest Command: its intent names it in the same write, and only then it is deleted."""
    job = scene.job
    for command in commands.waiting(draft):
        uid = command.metadata.uid
        removal = commands.removal(command)
        if uid == course.ledger.command:
            draft.stage([removal])
            return True
        if problem := commands.unfit(command, job):
            draft.report("Warning", "CommandIssued", problem)
            draft.stage([removal])
            return True
        action = JobAction(command.action)
        text = f"Start to execute command {action}, and clean it up to make sure executed not more than once."
        draft.report("Normal", "CommandIssued", text)
        cause = Cause(event=JobEvent.COMMAND_ISSUED, version=job.status.version)
        return _write(draft, scene, course.noting(command=uid).act(action, cause), removal)
    return False


def _due(draft: Draft, scene: Scene, course: Course) -> bool:
    """Delayed actions whose time has come, each once however long it is overdue."""
    began = course
    late: list[JobAction] = []
    while (entry := next((one for one in course.ledger.delayed if one.due <= draft.now), None)) is not None:
        rest = course.noting(delayed=tuple(other for other in course.ledger.delayed if other != entry))
        course = rest.act(entry.action, cause_of_delayed(entry))
        late += [entry.action] if course is rest else []
    if course is began or not _write(draft, scene, course):
        return False
    for action in dict.fromkeys(late):
        told = f"action {action} was due, and changes nothing: the job is {course.status.state.phase} by now"
        draft.report("Normal", "ExecuteAction", told)
    return True
