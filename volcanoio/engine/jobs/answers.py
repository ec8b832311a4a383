"""What the lifecycle policies answered: taken in at once, carried out when nothing is in flight."""

from __future__ import annotations

import msgspec

from volcanoio.engine.jobs.draft import Draft
from volcanoio.engine.jobs.state import Answer, Question
from volcanoio.framework.decisions import Abstain, Act, Alert, Annotate, Decision, Hold, Override
from volcanoio.framework.events import Answered
from volcanoio.framework.lifecycle import LifecycleEvent
from volcanoio.model.batch import Job, JobAction


def answered(draft: Draft, event: Answered) -> None:
    """Take an answer in. One to a question of an older job or version is dropped."""
    question = _take(draft, event.question)
    if question is None:
        return
    for policy, fault in event.faults:
        draft.report("Warning", "PolicyFailed", f'lifecycle policy "{policy}" abstained: {fault}')
    job = draft.state.job
    if job is None or not is_current(question.event, job):
        return
    for _, aside in event.asides:
        _note(draft, aside)
    _follow(draft, question.event, event.decision, event.policy)


def is_current(event: LifecycleEvent, job: Job) -> bool:
    """Whether an event is about this very job and its version."""
    return event.job_uid == job.metadata.uid and event.version >= job.status.version


def _take(draft: Draft, number: int) -> Question | None:
    for line in ("questions", "asides"):
        questions: tuple[Question, ...] = getattr(draft.state, line)
        for question in questions:
            if question.number == number:
                draft.set(**{line: tuple(other for other in questions if other.number != number)})
                return question
    return None


def _note(draft: Draft, aside: Annotate | Alert) -> None:
    match aside:
        case Annotate(annotations=annotations):
            draft.set(annotations={**draft.state.annotations, **annotations})
        case Alert(reason=reason, message=message):
            draft.report("Warning", reason, message)


def _follow(draft: Draft, event: LifecycleEvent, decision: Decision, policy: str) -> None:
    state = draft.state
    match decision:
        case Act(action=JobAction.SYNC_JOB) | Abstain():
            pass
        case Act(after=after) if after > 0:
            due = Answer(event, msgspec.structs.replace(decision, after=draft.now + after))
            draft.report("Normal", "ExecuteAction", f"Execute action {decision.action} after {after:g}s")
            draft.set(answers=(*state.answers, due))
        case Act() | Hold():
            draft.set(answers=(*state.answers, Answer(event, decision)), retry_at=0.0)
        case Annotate() | Alert():
            _note(draft, decision)
        case Override():
            message = f'lifecycle policy "{policy}" answered Override, which the job controller cannot carry out yet'
            draft.report("Warning", "PolicyFailed", message)
