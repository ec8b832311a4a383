"""Alerts of policies: stored on the job before they are told, each key once; a webhook is called until it has heard."""

from __future__ import annotations

import msgspec

from volcanoio.engine.jobs.draft import Draft
from volcanoio.engine.jobs.ledger import Ledger, Raised, read
from volcanoio.engine.jobs.state import JobState, Pending
from volcanoio.framework.controller import View
from volcanoio.framework.decisions import Alert
from volcanoio.framework.effects import Measure, Measurement, Notify
from volcanoio.framework.events import Notified
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.times import rfc3339

MOST, LONGEST = 32, 1024
"""Alerts that are kept on a job, the oldest go first; characters of a message that are stored of each."""
PATIENCE = 86_400.0
"""Seconds in which a webhook may come to hear of an alert."""
ALERTS = "volcanoio_policy_alerts_total"


def noted(draft: Draft, job: Job, policy: str, alert: Alert) -> None:
    """Take an alert in, to be stored and then told; one that was raised already is nothing new."""
    pending = Pending(policy, alert)
    known = {raised.key for raised in read(job.status).alerts} | {key_of(other) for other in draft.state.alerts}
    if key_of(pending) not in known:
        draft.set(alerts=(*draft.state.alerts, pending))


def entered(ledger: Ledger, state: JobState, now: float) -> Ledger:
    """The bookkeeping with the alerts that wait to be stored, and without the webhooks that need no more calls."""
    known = {raised.key for raised in ledger.alerts}
    fresh = tuple(
        Raised(
            key=key_of(each),
            reason=each.alert.reason,
            message=each.alert.message[:LONGEST],
            at=now,
            webhook=each.alert.webhook,
        )
        for each in state.alerts
        if key_of(each) not in known
    )
    done = [raised for raised in ledger.alerts if raised.webhook and raised.key in state.heard]
    if not fresh and not done:
        return ledger
    kept = (msgspec.structs.replace(raised, webhook="") if raised in done else raised for raised in ledger.alerts)
    return msgspec.structs.replace(ledger, alerts=(*kept, *fresh)[-MOST:])


def tell(draft: Draft, job: Job, ledger: Ledger) -> None:
    """Events and figures of alerts that came to be stored."""
    known = {raised.key for raised in ledger.alerts}
    for each in draft.state.alerts:
        if key_of(each) in known:
            draft.report("Warning", each.alert.reason, each.alert.message)
            labels = {"policy": each.policy, "reason": each.alert.reason, "namespace": job.metadata.namespace}
            draft.beside.append(Measure(measurement=Measurement.COUNT, name=ALERTS, labels=labels))
    draft.set(alerts=tuple(each for each in draft.state.alerts if key_of(each) not in known))


def notify(draft: Draft, job: Job, ledger: Ledger, view: View) -> None:
    """Call the webhooks of stored alerts that have not heard yet and are not being called."""
    waiting = [raised for raised in ledger.alerts if raised.webhook]
    if not waiting:
        return
    called = {effect.notice for effect in view.in_flight.values() if isinstance(effect, Notify)}
    called |= draft.state.heard
    draft.beside += [
        Notify(notice=raised.key, url=raised.webhook, body=_body(job, raised), until=raised.at + PATIENCE)
        for raised in waiting
        if raised.key not in called
    ]


def notified(draft: Draft, event: Notified) -> None:
    """A webhook has heard, or will not any more: that is to be stored."""
    if not event.delivered:
        draft.report(
            "Warning", "AlertUndelivered", f"the webhook of alert {event.notice} was not told: {event.problem}"
        )
    draft.set(heard=draft.state.heard | {event.notice})


def key_of(pending: Pending) -> str:
    """What an alert is known by: the policy and its own key."""
    return f"{pending.policy}/{pending.alert.key or pending.alert.reason}"


def _body(job: Job, raised: Raised) -> Manifest:
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
