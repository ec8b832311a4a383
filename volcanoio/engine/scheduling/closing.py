"""The close of a session: PodGroup phases, conditions and events, pod conditions, queue amounts, all as decisions.

Only jobs that changed, and those due for another look, are compared. What Volcano does once per session is done once
per period and object, and only of a shortage that has lasted a period in which the gang got no more of the pods it
needs: Unschedulable conditions and events, pods' conditions, and Running to Unknown. Every other change is written at
once. Sources: `framework/job_updater.go`, `framework/session.go` (jobStatus), `cache/cache.go` (RecordJobStatusEvent).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any
from zlib import crc32

import msgspec

from volcanoio.engine.scheduling.explanation import QUEUE_NOT_FOUND, UNSETTLED, Precision, Reason, group_text
from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.podconditions import tell_pods, tell_strays
from volcanoio.engine.scheduling.queuestatus import write_queues
from volcanoio.engine.scheduling.session import CycleSession
from volcanoio.engine.scheduling.touched import in_order, orphaned, touched
from volcanoio.framework.effects import Patch, merge_diff
from volcanoio.framework.operators import event
from volcanoio.framework.scheduling.sessionview import Text
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.model import kinds
from volcanoio.model.scheduling import PodGroupCondition, PodGroupPhase, PodGroupStatus

SLICE = 64
"""How many jobs plugins close at a time."""
UNSCHEDULABLE, SCHEDULED = "Unschedulable", "Scheduled"
*_, _BINDING, _BOUND, _RUNNING, _RELEASING, _SUCCEEDED, _FAILED, _UNKNOWN = range(len(TaskStatus))
_INQUEUE = PodGroupPhase.INQUEUE.value
_SHORT: dict[str, str] = {PodGroupPhase.INQUEUE: PodGroupPhase.INQUEUE, PodGroupPhase.UNKNOWN: PodGroupPhase.UNKNOWN}
"""What a gang that has got somewhere and is short of pods is: as before, or Running."""
REPEAT_SECONDS = 60.0
"""How often an unchanged Unschedulable event is repeated at most; half as often at least."""
UNFINISHED_SECONDS = 5.0
"""How often a job is looked at that gets on in every cycle, each cut before all its tasks had their turn."""


def close(session: CycleSession, period: float) -> Iterator[None]:
    """Let plugins close, then write what changed, a few jobs at a time; the session's leftovers are still in place."""
    ledger, revisit = session.state.ledger, session.state.revisit
    keys = yield from in_order(session, touched(session))
    looked_at: list[JobInfo] = []
    while True:
        session.at_hand = [ledger.listed[key] for key in islice(keys, SLICE)]
        if looked_at and not session.at_hand:
            break
        for closes in session.rules.closes:
            closes(session)
        for job in session.at_hand:
            _look(session, job, period)
            yield
        looked_at += session.at_hand
        if len(session.at_hand) < SLICE:
            break
    session.at_hand = ()
    for key in (yield from in_order(session, orphaned(session))):
        _orphan(session, ledger.orphans[key])
        _look(session, ledger.orphans[key], period)
        yield
    if ledger.strays:
        yield from tell_strays(session, period)
    if session.cut:
        for key in session.unfinished:
            revisit.setdefault(key, session.now + UNFINISHED_SECONDS)
    if not session.cut or session.now >= session.state.gone_through + period:
        session.state.gone_through = session.now
    ledger.looked_at(looked_at, all_known=not session.cut)
    write_queues(session, period)


def _orphan(session: CycleSession, job: JobInfo) -> None:
    """A job whose queue does not exist waits, and says so."""
    name = job.group.spec.queue or session.state.default_queue
    text = f'queue "{name}" does not exist; create it, or name another in spec.queue'
    job.attempts.explain(Reason(QUEUE_NOT_FOUND, text, Precision.NODES))
    session.conditions[job.key] = {UNSCHEDULABLE: (QUEUE_NOT_FOUND, text)}


def _look(session: CycleSession, job: JobInfo, period: float) -> None:
    """Write what is to be said about one job, and note when it is to be looked at again though nothing changes."""
    conditions = session.conditions.pop(job.key, {})
    short = UNSCHEDULABLE in conditions or (job.phase in UNSETTLED and not session.rules.job_ready(job))
    growing = job.shown < len(job.members) < job.min_available
    job.shown = len(job.members)
    job.short_since = _since(None if growing else job.short_since, short, session.now)
    job.waiting_since = _since(job.waiting_since, bool(job.waiting), session.now)
    lasting = job.short_since is not None and session.now - job.short_since >= period
    waited = job.waiting_since is not None and session.now - job.waiting_since >= period
    before, said = job.status, session.outbox.said
    postponed = not _write_status(session, job, conditions, lasting, period)
    if lasting:
        _tell_group(session, job, period)
    after = job.status
    news = (after.phase, after.conditions) != (before.phase, before.conditions)
    if not short and news and job.phase not in UNSETTLED:
        session.outbox.put(event(kinds.POD_GROUP, job.group, SCHEDULED, "pod group is ready"))
    unfinished = session.cut and job.key in session.unfinished
    tell_pods(session, job, lasting=(lasting or (waited and not short)) and not unfinished, period=period)
    if session.outbox.said != said:
        job.said_at = session.now
    if short or job.waiting or postponed:
        told = (lasting or not short) and (waited or not job.waiting) and session.now >= job.said_at + period
        rest = _repeat(job) if told and not postponed else period
        if unfinished:
            rest = UNFINISHED_SECONDS
        session.state.revisit[job.key] = session.now + rest
    else:
        session.state.revisit.pop(job.key, None)


def _repeat(job: JobInfo) -> float:
    """How often what is said of a job is repeated where nothing changes: the many do not all speak at the same time."""
    return REPEAT_SECONDS * (1 + crc32(job.key.encode()) % 64 / 64)


def _since(known: float | None, holds: bool, now: float) -> float | None:
    """Since when something holds without a break."""
    if not holds:
        return None
    return now if known is None else known


def _write_status(
    session: CycleSession, job: JobInfo, set_now: Mapping[str, tuple[str, Text]], lasting: bool, period: float
) -> bool:
    """Compare the status as it should be with the one written last, and write it when it differs.

    Where only counts differ they are written once a period; False when something waits for that.
    """
    old, counts = job.status, job.counts
    unschedulable = UNSCHEDULABLE in set_now
    phase = _phase(job, unschedulable=unschedulable, lasting=lasting)
    if counts[_BINDING] and not unschedulable and phase == old.phase == _INQUEUE:
        session.state.ledger.set_phase(job, phase)
        return True  # once its binds are seen it is looked at: that it runs and that it is scheduled are one write
    conditions = _conditions(session, job, set_now, lasting, period) if set_now else old.conditions
    session.state.ledger.set_phase(job, phase)
    running, succeeded, failed = counts[_RUNNING], counts[_SUCCEEDED], counts[_FAILED]
    if phase == old.phase and conditions == old.conditions:
        if running == old.running and succeeded == old.succeeded and failed == old.failed:
            return True
        if session.now < job.written_at + period:
            return False
    new = PodGroupStatus(phase=phase, conditions=conditions, running=running, succeeded=succeeded, failed=failed)
    job.in_flight, job.written_at = new, session.now
    job.writing += 1
    meta = job.group.metadata
    session.outbox.put(
        Patch(
            resource=kinds.POD_GROUP.resource,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            patch={"status": dict(_difference(job.group.status, new))},
        )
    )
    return True


@lru_cache(maxsize=64)
def _difference(old: PodGroupStatus, new: PodGroupStatus) -> Mapping[str, Any]:
    """The merge patch from one status to another; most jobs of a cycle go the same way."""
    return merge_diff(msgspec.to_builtins(old), msgspec.to_builtins(new))


def _phase(job: JobInfo, *, unschedulable: bool, lasting: bool) -> str:
    """The phase of a PodGroup (Volcano: jobStatus), except that a shortage must last to make it Unknown.

    And one that has got somewhere does not fall back to Pending, and is not left there when its gang runs: it would
    have to be enqueued once more, for all its minResources. Its own use of a full cluster would refuse that, and the
    controller makes no pod meanwhile.
    """
    counts, phase = job.counts, job.phase
    placed = counts[_RUNNING] + counts[_BOUND]
    if not job.schedulable or (phase == PodGroupPhase.PENDING and not placed >= job.min_available > 0):
        return phase
    if counts[_RUNNING] and unschedulable and (lasting or phase != _INQUEUE):
        return PodGroupPhase.UNKNOWN if lasting else phase
    completed = counts[_SUCCEEDED] + counts[_FAILED]
    scheduled = completed + placed
    if counts[_RELEASING]:
        scheduled += sum(1 for task in job.members.values() if task.status is TaskStatus.RELEASING and task.node)
    if scheduled >= job.min_available:
        return PodGroupPhase.COMPLETED if scheduled == completed else PodGroupPhase.RUNNING
    got_on = phase == _INQUEUE or placed or counts[_BINDING] or counts[_SUCCEEDED]
    return _SHORT.get(phase, PodGroupPhase.RUNNING) if got_on else PodGroupPhase.PENDING


def _conditions(
    session: CycleSession, job: JobInfo, set_now: Mapping[str, tuple[str, Text]], lasting: bool, period: float
) -> tuple[PodGroupCondition, ...]:
    """One entry a type, the one that changed last at the end."""
    if not lasting and len(set_now) == 1 and UNSCHEDULABLE in set_now:
        return job.status.conditions
    result = list(job.status.conditions)
    for kind, (reason, text) in set_now.items():
        if kind == UNSCHEDULABLE and (not lasting or session.now < job.condition_at + period):
            continue
        message = text if isinstance(text, str) else text()
        known = next((entry for entry in result if entry.type == kind), None)
        newest = bool(result) and result[-1] is known
        if known is not None and newest and (known.status, known.reason, known.message) == ("True", reason, message):
            continue
        if kind == UNSCHEDULABLE:
            job.condition_at = session.now
        if known is not None:
            result.remove(known)
        result.append(
            PodGroupCondition(
                type=kind,
                status="True",
                transition_id=session.uid,
                last_transition_time=session.timestamp,
                reason=reason,
                message=message,
            )
        )
    return tuple(result)


def _tell_group(session: CycleSession, job: JobInfo, period: float) -> None:
    """Say on the PodGroup why it waits."""
    refusal = session.refusals.get(job.key, "")
    if job.phase not in UNSETTLED or (not job.members and not refusal) or session.now < job.event_at + period:
        return
    text = group_text(job, ready=session.rules.job_ready(job))
    told = f"{text}\n{refusal}"
    if told == job.event_text and session.now < job.event_at + REPEAT_SECONDS:
        return
    job.event_at, job.event_text = session.now, told
    if refusal:
        session.outbox.put(event(kinds.POD_GROUP, job.group, UNSCHEDULABLE, refusal))
    if job.members:
        session.outbox.put(event(kinds.POD_GROUP, job.group, UNSCHEDULABLE, text, type_="Warning"))
