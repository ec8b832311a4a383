"""The close of a session: writes PodGroup phases and conditions, Kubernetes Events, and the status of queues.

Only jobs are reviewed that changed, or whose reason for waiting may have changed.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import merge
from itertools import islice
from math import inf
from typing import Any, TypeAlias

import msgspec

from volcanoio.engine.scheduling.cluster.attempts import QUEUE_NOT_FOUND, Precision, Reason
from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.cluster.native_groups import condition_patch
from volcanoio.engine.scheduling.cluster.queues import QueueInfo
from volcanoio.engine.scheduling.diagnosis.diagnosis import sentence
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.engine.scheduling.status.explanation import UNSETTLED, amount_details, group_text, unschedulable_message
from volcanoio.engine.scheduling.status.pod_conditions import report_pods, report_pods_without_group
from volcanoio.framework.backoff import jittered
from volcanoio.framework.effects import Patch, merge_diff, record_event
from volcanoio.framework.scheduling.hypernodes import CLUSTER
from volcanoio.framework.scheduling.sessionview import Text
from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, Amounts, TaskStatus
from volcanoio.framework.statuses import with_details, without_details
from volcanoio.model import kinds
from volcanoio.model.names import ALLOCATED_HYPER_NODE, QUEUE_NAME_ANNOTATION, ROOT_QUEUE
from volcanoio.model.resources import CPU, MEMORY, add_nonzero, resource_list
from volcanoio.model.scheduling import PodGroupCondition, PodGroupPhase, PodGroupStatus


def write_queues(session: CycleSession) -> None:
    """Write allocated amounts that changed, at most once per period and queue."""
    queues = session.state.ledger.existing_queues
    for name, allocated in sorted(_allocated_with_descendants(queues, session.rules.queue_usage).items()):
        queue = queues[name]
        last = queue.status_allocated if queue.allocated_in_flight is None else queue.allocated_in_flight
        if allocated == last or session.now < queue.allocated_written_at + session.period:
            continue
        queue.allocated_in_flight, queue.allocated_written_at = allocated, session.now
        listed: dict[str, str | None] = dict.fromkeys(queue.object.status.allocated)
        listed.update(dict.fromkeys(last))
        listed.update(resource_list({CPU: 0, MEMORY: 0, **allocated}))
        session.outbox.put(
            Patch(
                resource=kinds.QUEUE.resource,
                namespace="",
                name=name,
                uid=queue.object.metadata.uid,
                subresource="status",
                patch={"status": {"allocated": listed}},
            )
        )


def _allocated_with_descendants(
    queues: Mapping[str, QueueInfo], usage: Sequence[Callable[[QueueInfo], Amounts]]
) -> dict[str, dict[str, int]]:
    """Return what is allocated to each queue and its descendants; a missing or circular parent ends the chain.

    `usage` are functions that return further amounts of a queue.
    """
    total: dict[str, dict[str, int]] = {name: {} for name in queues}
    for name, queue in queues.items():
        more = [amounts for ask in usage if (amounts := ask(queue))]
        seen: set[str] = set()
        at = name
        while at in queues and at not in seen:
            seen.add(at)
            for amounts in (queue.allocated, *more):
                add_nonzero(total[at], amounts, 1)
            at = queues[at].object.spec.parent or (ROOT_QUEUE if at != ROOT_QUEUE else "")
    return total


KEYS_PER_STEP, STEP_EFFORT = 2048, 1.0
"""Number of keys selected and sorted in one step, and its effort in evaluations of all nodes."""
Source: TypeAlias = tuple[Iterable[Any], Callable[[list[Any]], set[str]]]
"""Entries of jobs, and a function that returns the keys of the selected jobs among some of these entries."""


def changed_or_due(session: CycleSession) -> list[Source]:
    """Return the jobs that changed since their last review or are due for another one; keys may repeat."""
    ledger, now, listed = session.state.ledger, session.now, session.state.ledger.schedulable_jobs
    dirty, put_off, revisit, backlog = ledger.dirty, ledger.deferred, session.state.revisit_at, ledger.pending_jobs

    def schedulable(keys: list[str]) -> set[str]:
        return {key for key in keys if key in listed}

    if not session.is_cut_short:
        due: Source = revisit.items(), lambda some: {key for key, at in some if at <= now and key in listed}
        return [due, (dirty, schedulable), (put_off, schedulable)]
    tried, unfinished = session.attempted_jobs, session.partly_placed_jobs

    def due_or_new(keys: list[str]) -> set[str]:
        return {
            key
            for key in keys
            if key in listed
            and (((key in dirty or key in put_off) and key not in unfinished) or revisit.get(key, inf) <= now)
        }

    # a cycle that was cut short has no new result for jobs that it did not try or has not finished
    sources: list[Source] = [
        (tried, due_or_new),
        (dirty, lambda keys: {key for key in keys if key not in backlog and key in listed}),
    ]
    if now >= session.state.last_full_pass + session.period:
        due_waiting: Source = (
            revisit.items(),
            lambda some: {key for key, at in some if at <= now and key not in backlog and key in listed},
        )
        sources.append(due_waiting)
    return sources


def orphaned(session: CycleSession) -> list[Source]:
    """Return the jobs without an existing queue that changed or are due for a review."""
    revisit, now, dirty = session.state.revisit_at, session.now, session.state.ledger.dirty
    orphans = session.state.ledger.jobs_without_queue
    return [(orphans, lambda keys: {key for key in keys if key in dirty or revisit.get(key, now) <= now})]


def in_order(session: CycleSession, sources: Iterable[Source]) -> Generator[None, None, Iterator[str]]:
    """Return the selected keys, sorted, each once."""
    parts: list[list[str]] = []
    seen: set[str] = set()
    for every, select in sources:
        entries = iter(every)
        while some := list(islice(entries, KEYS_PER_STEP)):
            if new := select(some):
                new -= seen
                seen |= new
                parts.append(sorted(new))
            if len(some) == KEYS_PER_STEP:
                session.state.placer.add_effort(STEP_EFFORT)
                yield
    return merge(*parts) if len(parts) != 1 else iter(parts[0])


JOBS_PER_CLOSE = 64
"""Number of jobs passed to plugins per call at the close."""
UNSCHEDULABLE, SCHEDULED = "Unschedulable", "Scheduled"
*_, _BINDING, _BOUND, _RUNNING, _RELEASING, _SUCCEEDED, _FAILED, _UNKNOWN = range(len(TaskStatus))
_INQUEUE = PodGroupPhase.INQUEUE.value
_NOT_ADMITTED = ("", PodGroupPhase.PENDING)
_SHORT: dict[str, str] = {PodGroupPhase.INQUEUE: PodGroupPhase.INQUEUE, PodGroupPhase.UNKNOWN: PodGroupPhase.UNKNOWN}
"""Phase of a gang that was started and has fewer pods than its minimum, by its phase before; otherwise Running."""
_NOT_ENOUGH = "NotEnoughResources"
"""Volcano's reason of condition Unschedulable (plugin gang): it is kept until a condition of another type is newer."""
REPEAT_SECONDS = 60.0
"""Least seconds until an unchanged Unschedulable event is repeated; at most twice as many."""
STARTING_PERIODS = 10.0
"""Periods after which counts are written although bound pods are still starting."""
INCOMPLETE_PERIODS = 5.0
"""Periods without a new pod after which a new gang with fewer pods than its minimum is reported as unschedulable."""
UNFINISHED_SECONDS = 5.0
"""Seconds between reviews of a job of which each cycle places some tasks before it is cut short."""


def close(session: CycleSession) -> Iterator[None]:
    """Let plugins close, then write what changed, a few jobs at a time; kept statements are still in place."""
    state = session.state
    if session.stats.placed:
        state.write_limits.last_placement = session.now
    reviewed = yield from _review_changed(session)
    yield from _review_orphans(session)
    if state.ledger.jobs_without_group:
        yield from report_pods_without_group(session)
    if session.is_cut_short:
        for key in session.partly_placed_jobs:
            state.revisit_at.setdefault(key, session.now + UNFINISHED_SECONDS)
    if not session.is_cut_short or session.now >= state.last_full_pass + session.period:
        state.last_full_pass = session.now
    state.ledger.mark_examined(reviewed, all_known=not session.is_cut_short)
    write_queues(session)
    if state.shards is not None and (patch := state.shards.status_patch(session.timestamp)) is not None:
        session.outbox.put(patch)


def _review_changed(session: CycleSession) -> Generator[None, None, list[JobInfo]]:
    """Review the jobs that changed or are due, in slices that plugins close first; return all of them."""
    ledger, times = session.state.ledger, session.state.close_times
    keys = yield from in_order(session, changed_or_due(session))
    reviewed: list[JobInfo] = []
    while True:
        session.jobs_to_review = [ledger.schedulable_jobs[key] for key in islice(keys, JOBS_PER_CLOSE)]
        if reviewed and not session.jobs_to_review:
            break
        for plugin, closes in session.rules.closes:
            if times is not None:
                times.begin()
            closes(session)
            if times is not None:
                times.end(plugin)
        for job in session.jobs_to_review:
            _review(session, job, session.period)
            yield
        reviewed += session.jobs_to_review
        if len(session.jobs_to_review) < JOBS_PER_CLOSE:
            break
    session.jobs_to_review = ()
    return reviewed


def _review_orphans(session: CycleSession) -> Iterator[None]:
    """Review jobs whose queue does not exist."""
    orphans = session.state.ledger.jobs_without_queue
    for key in (yield from in_order(session, orphaned(session))):
        _orphan(session, orphans[key])
        _review(session, orphans[key], 0.0)
        session.state.revisit_at.setdefault(key, session.now + REPEAT_SECONDS)
        yield


def _orphan(session: CycleSession, job: JobInfo) -> None:
    """Set the condition of a job that waits in a queue that does not exist; with all pods placed it does not wait."""
    if not job.pending and (job.members or job.phase not in UNSETTLED):
        return
    name = job.group.spec.queue or session.state.default_queue
    where = "spec.queue" if job.native is None else f"the annotation {QUEUE_NAME_ANNOTATION}"
    text = f'queue "{name}" does not exist; create it, or name another in {where}'
    job.attempts.explain(Reason(QUEUE_NOT_FOUND, text, Precision.NODES))
    session.conditions[job.key] = {UNSCHEDULABLE: (QUEUE_NOT_FOUND, text)}


def _review(session: CycleSession, job: JobInfo, period: float) -> None:
    """Write the status, conditions and Kubernetes Events of one job, and set when its next review is due."""
    conditions = session.conditions.pop(job.key, {})
    if (refusal := session.enqueue_rejections.get(job.key)) is not None and not _is_placed(job):
        conditions.pop(SCHEDULED, None)
        conditions.setdefault(UNSCHEDULABLE, (refusal.code, refusal.message))
    short = UNSCHEDULABLE in conditions or (job.phase in UNSETTLED and not session.rules.job_ready(job))
    growing = job.members_at_close < len(job.members) < job.min_available
    job.members_at_close = len(job.members)
    job.not_ready_since = _since(None if growing else job.not_ready_since, short, session.now)
    job.pending_since = _since(job.pending_since, bool(job.pending), session.now)
    patience = period * (INCOMPLETE_PERIODS if _is_being_created(job) else 1.0)
    lasting = job.not_ready_since is not None and session.now - job.not_ready_since >= patience
    waited = job.pending_since is not None and session.now - job.pending_since >= patience
    before, count_before = job.status, session.outbox.non_bind_count
    postponed = not _write_status(session, job, conditions, lasting, period)
    if lasting:
        _report_group(session, job, period)
    after = job.status
    is_changed = (after.phase, after.conditions) != (before.phase, before.conditions)
    if not short and is_changed and job.phase not in UNSETTLED:
        session.outbox.put(record_event(job.group_kind, job.group, SCHEDULED, "pod group is ready"))
    unfinished = session.is_cut_short and job.key in session.partly_placed_jobs
    if job.pending or job.counts[TaskStatus.ALLOCATED] or job.counts[TaskStatus.PIPELINED]:
        has_lasted = (lasting or (waited and not short)) and not unfinished
        postponed = not report_pods(session, job, lasting=has_lasted, period=period) or postponed
    if session.outbox.non_bind_count != count_before:
        job.reported_at = session.now
    if short or job.pending or postponed:
        reported = (lasting or not short) and (waited or not job.pending) and session.now >= job.reported_at + period
        delay = _repeat(job) if reported and not postponed else period
        if unfinished:
            delay = UNFINISHED_SECONDS
        session.state.revisit_at[job.key] = session.now + delay
    else:
        session.state.revisit_at.pop(job.key, None)


def _is_being_created(job: JobInfo) -> bool:
    """Return whether an admitted gang has some of its pods, none of them placed: a busy server creates them slowly."""
    return job.phase == _INQUEUE and len(job.pending) == len(job.members) < job.min_available and bool(job.members)


def _is_placed(job: JobInfo) -> bool:
    """Return whether the minimum of a job runs or is bound."""
    return job.counts[_RUNNING] + job.counts[_BOUND] >= job.min_available > 0


def _repeat(job: JobInfo) -> float:
    """Return seconds until a job's unchanged message is repeated; jittered, so that not all jobs are due at once."""
    return jittered(REPEAT_SECONDS, job.uid or job.key)


def _since(since: float | None, holds: bool, now: float) -> float | None:
    """Return since when a condition holds without interruption; None if it does not hold."""
    if not holds:
        return None
    return now if since is None else since


def _write_status(
    session: CycleSession, job: JobInfo, set_now: Mapping[str, tuple[str, Text]], lasting: bool, period: float
) -> bool:
    """Compute the job's status and write it if it differs from the one written last.

    If only counts differ, they are written later; False if a write is postponed for that.
    """
    old, counts = job.status, job.counts
    unschedulable = UNSCHEDULABLE in set_now
    phase = _phase(job, unschedulable=unschedulable, lasting=lasting)
    if counts[_BINDING] and not unschedulable and phase == old.phase == _INQUEUE:
        session.state.ledger.set_phase(job, phase)
        return True  # reviewed again once its binds are observed: then one write contains Running and Scheduled
    conditions = _conditions(session, job, set_now, lasting, period) if set_now else old.conditions
    if conditions and not unschedulable:
        conditions = _without_outdated(conditions, admitted=old.phase in _NOT_ADMITTED and phase not in _NOT_ADMITTED)
    session.state.ledger.set_phase(job, phase)
    running, succeeded, failed = counts[_RUNNING], counts[_SUCCEEDED], counts[_FAILED]
    if job.native is not None:
        new = PodGroupStatus(phase=phase, conditions=conditions, running=running, succeeded=succeeded, failed=failed)
        job.group = msgspec.structs.replace(job.group, status=new)
        if (condition := condition_patch(job, session.timestamp)) is not None:
            session.outbox.put(condition)
        return True
    if phase == old.phase and conditions == old.conditions:
        if running == old.running and succeeded == old.succeeded and failed == old.failed:
            return True
        if not _may_write_counts(session, job, period):
            return False
    new = PodGroupStatus(phase=phase, conditions=conditions, running=running, succeeded=succeeded, failed=failed)
    job.status_in_flight, job.status_written_at = new, session.now
    job.status_writes_in_flight += 1
    meta = job.group.metadata
    patch: dict[str, Any] = {"status": dict(_difference(job.group.status, new))}
    if job.has_network_topology and (placed := _placed_in(session, job)) != meta.annotations.get(ALLOCATED_HYPER_NODE):
        patch["metadata"] = {"annotations": {ALLOCATED_HYPER_NODE: placed}}
    session.outbox.put(
        Patch(resource=kinds.POD_GROUP.resource, namespace=meta.namespace, name=meta.name, uid=meta.uid, patch=patch)
    )
    return True


def _placed_in(session: CycleSession, job: JobInfo) -> str | None:
    """Return the HyperNode that contains the job's pods; None if no single one does."""
    tasks = [task for task in job.members.values() if task.status in ALLOCATED_STATUSES]
    placed = session.hyper_nodes.enclosing(task.node for task in tasks)
    return placed if placed not in ("", CLUSTER) else None


def _may_write_counts(session: CycleSession, job: JobInfo, period: float) -> bool:
    """Return whether a write of mere counts is sent now.

    At most once per period, later while bound pods are starting, and for all jobs together at a limited rate.
    """
    is_starting = job.counts[_BOUND] or job.counts[_BINDING]
    if session.now < job.status_written_at + period * (STARTING_PERIODS if is_starting else 1.0):
        return False
    return session.state.write_limits.take_count(session.now, period)


@lru_cache(maxsize=64)
def _difference(old: PodGroupStatus, new: PodGroupStatus) -> Mapping[str, Any]:
    """Return the merge patch from one status to another; cached, as most jobs of a cycle change alike."""
    return merge_diff(msgspec.to_builtins(old), msgspec.to_builtins(new))


def _phase(job: JobInfo, *, unschedulable: bool, lasting: bool) -> str:
    """Return the phase of a PodGroup as Volcano's jobStatus does, with two differences.

    A shortage of pods must last to make the phase Unknown. And a PodGroup with placed pods never returns to Pending,
    nor stays Pending when its gang runs: it would have to be enqueued again for all its minResources, which its own
    usage of a full cluster would prevent, and until then the controller would create no pods.
    """
    counts, phase = job.counts, job.phase
    placed = counts[_RUNNING] + counts[_BOUND]
    if not job.schedulable or (phase == PodGroupPhase.PENDING and not _is_placed(job)):
        return phase
    if counts[_RUNNING] and unschedulable and (lasting or phase != _INQUEUE):
        return PodGroupPhase.UNKNOWN if lasting else phase
    completed = counts[_SUCCEEDED] + counts[_FAILED]
    if (scheduled := completed + placed + job.terminating_count) >= job.min_available:
        return PodGroupPhase.COMPLETED if scheduled == completed else PodGroupPhase.RUNNING
    got_on = phase == _INQUEUE or placed or counts[_BINDING] or counts[_SUCCEEDED]
    return _SHORT.get(phase, PodGroupPhase.RUNNING) if got_on else PodGroupPhase.PENDING


def _conditions(
    session: CycleSession, job: JobInfo, set_now: Mapping[str, tuple[str, Text]], lasting: bool, period: float
) -> tuple[PodGroupCondition, ...]:
    """Return the conditions: one per type, the most recently changed last."""
    if not lasting and len(set_now) == 1 and UNSCHEDULABLE in set_now:
        return job.status.conditions
    result = list(job.status.conditions)
    for kind, (reason, text) in set_now.items():
        if kind == UNSCHEDULABLE and (not lasting or session.now < job.condition_at + period):
            continue
        message = text if isinstance(text, str) else text()
        old = next((entry for entry in result if entry.type == kind), None)
        newest = bool(result) and result[-1] is old
        same = old is not None and newest and (old.status, old.reason) == ("True", reason)
        if kind == UNSCHEDULABLE:
            if same and old is not None and not _is_dated(session, job, old.message, message):
                continue
            message = with_details(message, lambda: _details(session, job))
        if same and old is not None and old.message == message:
            continue
        if kind == UNSCHEDULABLE:
            job.condition_at = session.now
        if old is not None:
            result.remove(old)
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


def _details(session: CycleSession, job: JobInfo) -> str:
    """Return what follows Volcano's text: the amounts that the job waits for, or else our sentence."""
    amounts = amount_details(job, session.enqueue_rejections, session.rules)
    return (amounts() if amounts is not None else "") or sentence(session, job)


def _is_dated(session: CycleSession, job: JobInfo, message: str, words: str) -> bool:
    """Return whether the text of a condition changed, or its amounts are old enough to be computed again."""
    if without_details(message) != without_details(words):
        return True
    if job.condition_at < 0:  # written by an earlier process: do not write all conditions again at once
        job.condition_at = session.now
    return session.now >= job.condition_at + _repeat(job)


def _without_outdated(conditions: tuple[PodGroupCondition, ...], *, admitted: bool) -> tuple[PodGroupCondition, ...]:
    """Drop conditions that no longer hold: QueueNotFound, and once a job is admitted why it was not."""
    over = [
        entry
        for entry in conditions
        if entry.type == UNSCHEDULABLE
        and (entry.reason == QUEUE_NOT_FOUND or (admitted and entry.reason != _NOT_ENOUGH))
    ]
    return tuple(entry for entry in conditions if entry not in over) if over else conditions


def _report_group(session: CycleSession, job: JobInfo, period: float) -> None:
    """Record on the PodGroup why it waits."""
    refusal, gone = session.enqueue_rejections.get(job.key), job.attempts.reason.code == QUEUE_NOT_FOUND
    waits = gone or (job.phase in UNSETTLED and (job.members or refusal is not None))
    if not waits or session.now < job.event_at + period:
        return
    text = group_text(job, ready=session.rules.job_ready(job))
    reported = f"{without_details(text)}\n{refusal.message if refusal is not None else ''}"
    if reported == job.event_text and session.now < job.event_at + REPEAT_SECONDS:
        return
    job.event_at, job.event_text = session.now, reported
    if refusal is not None:
        written = unschedulable_message(job) or ""
        if without_details(written) != refusal.message:
            written = with_details(refusal.message, refusal.details)
        session.outbox.put(record_event(job.group_kind, job.group, UNSCHEDULABLE, written))
    if job.members or gone:
        session.outbox.put(record_event(job.group_kind, job.group, UNSCHEDULABLE, text, type_="Warning"))
