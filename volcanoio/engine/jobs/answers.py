"""What the lifecycle policies answered: taken in at once, carried out when nothing is in flight."""

from __future__ import annotations

import msgspec

from volcanoio.engine.jobs import alerts, gate, overriding
from volcanoio.engine.jobs.draft import Draft
from volcanoio.engine.jobs.state import Answer, Question
from volcanoio.framework.decisions import Abstain, Act, Alert, Annotate, Decision, Hold, Override
from volcanoio.framework.events import Answered
from volcanoio.framework.lifecycle import LifecycleEvent, Occasion
from volcanoio.model.batch import Job, JobAction

GATE = "gate"
"""The timer, and what wakes it, after which a held job's policies are asked again."""


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
    for policy, aside in event.asides:
        _note(draft, job, policy, aside)
    _follow(draft, job, question, event.decision, event.policy)


def is_current(event: LifecycleEvent, job: Job) -> bool:
    """Whether an event is about this very job and its version."""
    return event.job_uid == job.metadata.uid and event.version >= job.status.version


def _take(draft: Draft, number: int) -> Question | None:
    state = draft.state
    aside: Question | None = state.asides.get(number)
    if aside is not None:
        draft.set(asides=state.asides.without((number,)))
        return aside
    for place, question in enumerate(state.questions):
        if question.number == number:
            draft.set(questions=(*state.questions[:place], *state.questions[place + 1 :]))
            return question
    return None


def _note(draft: Draft, job: Job, policy: str, aside: Annotate | Alert) -> None:
    match aside:
        case Annotate(annotations=annotations):
            draft.set(annotations={**draft.state.annotations, **annotations})
        case Alert():
            alerts.noted(draft, job, policy, aside)


def _follow(draft: Draft, job: Job, question: Question, decision: Decision, policy: str) -> None:
    state, event = draft.state, question.event
    if event.name == Occasion.PODS_DUE and _is_about_gate(draft, job, question, decision):
        return
    match decision:
        case Act(action=JobAction.SYNC_JOB) | Abstain():
            pass
        case Act(after=after) if after > 0:
            due = Answer(event, msgspec.structs.replace(decision, after=draft.now + after))
            draft.report("Normal", "ExecuteAction", f"Execute action {decision.action} after {after:g}s")
            draft.set(answers=(*state.answers, due))
        case Act() | Hold() | Override():
            draft.set(answers=(*state.answers, Answer(event, decision)), retry_at=0.0)
        case Annotate() | Alert():
            _note(draft, job, policy, decision)


def _is_about_gate(draft: Draft, job: Job, question: Question, decision: Decision) -> bool:
    """Open the gate or keep it closed; True when that is all. An Override that says something new is asked about again
    once it is stored; whatever else is decided is carried out and holds nothing back.
    """
    hold = decision if isinstance(decision, Hold) else None
    draft.set(gate=gate.answered(draft.state.gate, question.number, hold, draft.now))
    if isinstance(decision, Override) and overriding.is_new(job, decision):
        draft.set(gate=None)
    if hold is not None:  # its timer may differ in what wakes it alone
        draft.set(timers={name: due for name, due in draft.state.timers.items() if name != GATE})
    return hold is not None
