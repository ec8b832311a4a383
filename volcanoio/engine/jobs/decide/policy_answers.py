"""Answers of the lifecycle policies: recorded at once, executed when no write is in flight.

Alerts are stored on the job before Events and metrics report them, each key once; a webhook is called until it has
answered. Overrides change what the job needs, and are kept for the next job of the same name.
"""

import msgspec

from volcanoio.engine.jobs.state import creation_approval
from volcanoio.engine.jobs.state.job_state import Answer, JobState, PendingAlert, Question, Reduction, WriteEffect
from volcanoio.engine.jobs.state.stored_state import StoredAlert, StoredState, read_stored
from volcanoio.framework.controller import View
from volcanoio.framework.decisions import Abstain, Act, Alert, Annotate, Decision, Hold, Override
from volcanoio.framework.effects import Create, Measure, Measurement, Notify, Patch
from volcanoio.framework.events import Answered, Notified
from volcanoio.framework.lifecycle import LifecycleEvent, PolicyEvent
from volcanoio.framework.overrides import (
    LEARNED_SUFFIX,
    TaskOverride,
    add_override,
    overridden_template,
    stored_overrides,
)
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, JobAction, TaskSpec
from volcanoio.model.times import rfc3339

MAX_POD_OVERRIDES = 64
"""Overrides of single pods that a job keeps, so that it stays small."""
_CONFLICT, _NOT_FOUND = 409, 404


def is_new_override(job: Job, decision: Override) -> bool:
    """Return whether an override differs from what is stored on the job."""
    known = stored_overrides(job)
    return add_override(known, _task_override(decision)) is not known


def with_override(stored: StoredState, decision: Override) -> StoredState:
    """Return the stored state with an override; the same state when it changes nothing.

    With too many overrides of single pods the last one applies to its whole task, replacing all of them.
    """
    known, new = stored.overrides, _task_override(decision)
    if (overrides := add_override(known, new)) is known:
        return stored
    if new.index is not None and sum(1 for override in overrides if override.index is not None) > MAX_POD_OVERRIDES:
        others = tuple(override for override in known if override.task != new.task or override.index is None)
        overrides = add_override(others, msgspec.structs.replace(new, index=None))
    return msgspec.structs.replace(stored, overrides=overrides)


def task_of_pod(task: TaskSpec, index: int, overrides: tuple[TaskOverride, ...]) -> TaskSpec:
    """Return the task with the overrides of one of its pods."""
    own = tuple(override for override in overrides if override.task == task.name and override.index == index)
    return msgspec.structs.replace(task, template=overridden_template(task, own, index)) if own else task


def learned_overrides(job: Job, stored: StoredState, state: JobState) -> tuple[dict[str, str], WriteEffect] | None:
    """Return the overrides to keep for the next job of this name, and their write; None when they are written.

    A new process writes them once more, which changes nothing.
    """
    data = {
        override.task: msgspec.json.encode(override.resources).decode()
        for override in stored.overrides
        if override.keep and override.index is None
    }
    if data == state.saved_overrides:
        return None
    name, namespace = job.metadata.name + LEARNED_SUFFIX, job.metadata.namespace
    resource = kinds.CONFIG_MAP.resource
    if f"{resource}/{name}" in state.created:
        return data, Patch(resource=resource, namespace=namespace, name=name, patch={"data": data})
    manifest = {
        "apiVersion": kinds.CONFIG_MAP.api_version,
        "kind": kinds.CONFIG_MAP.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": {names.JOB_NAME: job.metadata.name}},
        "data": data,
    }
    return data, Create(resource=resource, manifest=manifest)


def created_after_refusal(created: frozenset[str], effect: WriteEffect, code: int) -> frozenset[str] | None:
    """Return the existing objects after a write of learned overrides was refused; None for another write."""
    key = f"{kinds.CONFIG_MAP.resource}/"
    if isinstance(effect, Create):
        name = str(effect.manifest["metadata"]["name"])
        ours = effect.resource == kinds.CONFIG_MAP.resource and "ownerReferences" not in effect.manifest["metadata"]
        return created | {key + name} if ours and code == _CONFLICT else (created if ours else None)
    if isinstance(effect, Patch) and effect.resource == kinds.CONFIG_MAP.resource and not effect.uid:
        return created - {key + effect.name} if code == _NOT_FOUND else created
    return None


def _task_override(decision: Override) -> TaskOverride:
    return TaskOverride(
        task=decision.task,
        resources=decision.resources,
        index=decision.index,
        attempts=decision.attempts,
        keep=decision.keep,
    )


MAX_ALERTS, MAX_ALERT_MESSAGE = 32, 1024
"""Alerts that a job keeps (older ones are dropped), and the stored length of a message."""
WEBHOOK_DEADLINE = 86_400.0
"""Seconds within which a webhook is called for an alert."""
ALERTS_METRIC = "volcanoio_policy_alerts_total"


def add_alert(reduction: Reduction, job: Job, policy: str, alert: Alert) -> None:
    """Add an alert to be stored and then reported, unless it was raised before."""
    pending = PendingAlert(policy, alert)
    known = {raised.key for raised in read_stored(job.status).alerts} | {
        alert_key(other) for other in reduction.state.pending_alerts
    }
    if alert_key(pending) not in known:
        reduction.update(pending_alerts=(*reduction.state.pending_alerts, pending))


def with_alerts(stored: StoredState, state: JobState, now: float) -> StoredState:
    """Return the stored state with the pending alerts, and without webhooks that need no more calls."""
    known = {raised.key for raised in stored.alerts}
    new_alerts = tuple(
        StoredAlert(
            key=alert_key(pending),
            reason=pending.alert.reason,
            message=pending.alert.message[:MAX_ALERT_MESSAGE],
            at=now,
            webhook=pending.alert.webhook,
        )
        for pending in state.pending_alerts
        if alert_key(pending) not in known
    )
    called_alerts = [raised for raised in stored.alerts if raised.webhook and raised.key in state.notified_alerts]
    if not new_alerts and not called_alerts:
        return stored
    kept = (
        msgspec.structs.replace(raised, webhook="") if raised in called_alerts else raised for raised in stored.alerts
    )
    return msgspec.structs.replace(stored, alerts=(*kept, *new_alerts)[-MAX_ALERTS:])


def report_alerts(reduction: Reduction, job: Job, stored: StoredState) -> None:
    """Record Events and metrics of alerts that are now stored."""
    known = {raised.key for raised in stored.alerts}
    for pending in reduction.state.pending_alerts:
        if alert_key(pending) in known:
            reduction.record_event("Warning", pending.alert.reason, pending.alert.message)
            labels = {"policy": pending.policy, "reason": pending.alert.reason, "namespace": job.metadata.namespace}
            reduction.immediate.append(Measure(measurement=Measurement.COUNT, name=ALERTS_METRIC, labels=labels))
    reduction.update(
        pending_alerts=tuple(pending for pending in reduction.state.pending_alerts if alert_key(pending) not in known)
    )


def call_webhooks(reduction: Reduction, job: Job, stored: StoredState, view: View) -> None:
    """Call the webhooks of stored alerts that are neither called nor being called."""
    if not (waiting := [raised for raised in stored.alerts if raised.webhook]):
        return
    called = {effect.notice for effect in view.in_flight.values() if isinstance(effect, Notify)}
    called |= reduction.state.notified_alerts
    reduction.immediate += [
        Notify(
            notice=raised.key, url=raised.webhook, body=_webhook_body(job, raised), until=raised.at + WEBHOOK_DEADLINE
        )
        for raised in waiting
        if raised.key not in called
    ]


def webhook_notified(reduction: Reduction, event: Notified) -> None:
    """Fold the end of a webhook's calls, which is then stored."""
    if not event.delivered:
        reduction.record_event(
            "Warning", "AlertUndelivered", f"alert {event.notice} could not be sent to its webhook: {event.problem}"
        )
    reduction.update(notified_alerts=reduction.state.notified_alerts | {event.notice})


def alert_key(pending: PendingAlert) -> str:
    """Return the key of an alert: the policy and its own key."""
    return f"{pending.policy}/{pending.alert.key or pending.alert.reason}"


def _webhook_body(job: Job, raised: StoredAlert) -> Manifest:
    meta = job.metadata
    return {
        "id": f"{meta.uid}/{raised.key}",
        "alert": raised.reason,
        "message": raised.message,
        "policy": raised.key.partition("/")[0],
        "at": rfc3339(raised.at),
        "job": {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
        "queue": job.spec.queue,
        "phase": job.status.state.phase,
    }


APPROVAL_TIMER = "gate"
"""Timer after which a held job's policies are asked again, and for which wake-ups are registered."""


def policies_answered(reduction: Reduction, event: Answered) -> None:
    """Fold an answer; one about an older job or version is dropped."""
    if (question := _take_question(reduction, event.question)) is None:
        return
    for policy, fault in event.faults:
        reduction.record_event("Warning", "PolicyFailed", f'lifecycle policy "{policy}" abstained: {fault}')
    if (job := reduction.state.job) is None or not is_current(question.event, job):
        return
    for policy, side_decision in event.asides:
        _apply_side_decision(reduction, job, policy, side_decision)
    _apply_decision(reduction, job, question, event.decision, event.policy)


def is_current(event: LifecycleEvent, job: Job) -> bool:
    """Return whether an event is about this very job and its version."""
    return event.job_uid == job.metadata.uid and event.version >= job.status.version


def _take_question(reduction: Reduction, number: int) -> Question | None:
    state = reduction.state
    side_question: Question | None = state.side_questions.get(number)
    if side_question is not None:
        reduction.update(side_questions=state.side_questions.without((number,)))
        return side_question
    for place, question in enumerate(state.questions):
        if question.number == number:
            reduction.update(questions=(*state.questions[:place], *state.questions[place + 1 :]))
            return question
    return None


def _apply_side_decision(reduction: Reduction, job: Job, policy: str, side_decision: Annotate | Alert) -> None:
    match side_decision:
        case Annotate(annotations=annotations):
            reduction.update(pending_annotations={**reduction.state.pending_annotations, **annotations})
        case Alert():
            add_alert(reduction, job, policy, side_decision)


def _apply_decision(reduction: Reduction, job: Job, question: Question, decision: Decision, policy: str) -> None:
    state, event = reduction.state, question.event
    if event.name == PolicyEvent.PODS_DUE and _answer_approval(reduction, job, question, decision):
        return
    match decision:
        case Act(action=JobAction.SYNC_JOB) | Abstain():
            pass
        case Act(after=after) if after > 0:
            answer = Answer(event, decision, due=reduction.now + after)
            reduction.record_event("Normal", "ExecuteAction", f"Execute action {decision.action} after {after:g}s")
            reduction.update(pending_answers=(*state.pending_answers, answer))
        case Act() | Hold() | Override():
            reduction.update(pending_answers=(*state.pending_answers, Answer(event, decision)), retry_at=0.0)
        case Annotate() | Alert():
            _apply_side_decision(reduction, job, policy, decision)


def _answer_approval(reduction: Reduction, job: Job, question: Question, decision: Decision) -> bool:
    """Fold an answer to PodsDue; True when it only holds the pods back.

    A new Override is followed by another question once it is stored; any other decision is executed and holds nothing.
    """
    hold = decision if isinstance(decision, Hold) else None
    reduction.update(
        creation_approval=creation_approval.approval_answered(
            reduction.state.creation_approval, question.number, hold, reduction.now
        )
    )
    if isinstance(decision, Override) and is_new_override(job, decision):
        reduction.update(creation_approval=None)
    if hold is not None:  # the new timer may differ only in its wake-ups
        reduction.update(timers={name: due for name, due in reduction.state.timers.items() if name != APPROVAL_TIMER})
    return hold is not None
