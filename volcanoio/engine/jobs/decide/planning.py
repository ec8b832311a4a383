"""Planning: what to do next for a job, as a function of its state alone.

Nothing is planned while writes are in flight, policies are being asked, or a back-off lasts. Decisions come before
reconciliation, and a decision is executed by one status write.
"""

from collections.abc import Callable

import msgspec

from volcanoio.engine.jobs.decide import delayed_actions, execution, policy_answers, reconciliation
from volcanoio.engine.jobs.decide.execution import write_decisions
from volcanoio.engine.jobs.decide.observations import raise_from_storage
from volcanoio.engine.jobs.pods.desired import WaitReason, desired_objects
from volcanoio.engine.jobs.pods.plugins import PluginCache
from volcanoio.engine.jobs.pods.summary import CACHE_THRESHOLD, summarize
from volcanoio.engine.jobs.state.job_state import Reduction, awaits_newer_job
from volcanoio.engine.jobs.state.reconcile_context import ReconcileContext
from volcanoio.engine.jobs.state.stored_state import StoredState, read_stored
from volcanoio.engine.jobs.state.transitions import RECONCILE_MODES, ReconcileMode
from volcanoio.engine.jobs.status import phases
from volcanoio.engine.jobs.status.writes import (
    counted_status,
    differ_in_counts_only,
    new_count_delay,
    starting_count_delay,
    status_entering_phase,
    without_expected_pods,
    write_annotations,
    write_status,
)
from volcanoio.framework.controller import View
from volcanoio.framework.effects import Create, Delete
from volcanoio.framework.lifecycle import PolicyEvent
from volcanoio.framework.overrides import with_overrides
from volcanoio.model.batch import Job, JobPhase, JobStatus

_RECONCILERS: dict[ReconcileMode, Callable[[ReconcileContext], reconciliation.DueWrites]] = {
    ReconcileMode.SYNC: reconciliation.sync_writes,
    ReconcileMode.RESTART: reconciliation.restart_writes,
    ReconcileMode.STOP: reconciliation.stop_writes,
}


def plan(reduction: Reduction, view: View, plugin_cache: PluginCache) -> None:
    """Stage the writes that are due."""
    state = reduction.state
    if not view.synced or state.has_writes_in_flight:
        return
    if (job := state.job) is None or job.metadata.deletion_timestamp is not None:
        execution.refuse_commands(reduction)
        return
    if awaits_newer_job(state, reduction.now) or reduction.now < state.retry_at or state.questions:
        return
    if state.pending_annotations:
        write_annotations(reduction, job)
        return
    stored = read_stored(job.status)
    if stored.hold is not None and stored.hold.until <= reduction.now and state.resumed_hold != stored.hold.until:
        raise_from_storage(reduction)
        if reduction.state.questions:
            return
    if reduction.state.pending_alerts or stored.alerts:
        policy_answers.report_alerts(reduction, job, stored)
        policy_answers.call_webhooks(reduction, job, stored, view)
    context = _reconcile_context(reduction, job, view, stored, plugin_cache)
    next_stored = policy_answers.with_alerts(_next_stored(context, stored), reduction.state, reduction.now)
    if not write_decisions(reduction, context, stored, next_stored):
        _reconcile(reduction, context, next_stored)


def _reconcile_context(
    reduction: Reduction, job: Job, view: View, stored: StoredState, plugin_cache: PluginCache
) -> ReconcileContext:
    job = with_overrides(job, stored.overrides)
    before = reduction.state.desired
    desired = desired_objects(job, before, view.lookup, plugin_cache, stored.overrides)
    if RECONCILE_MODES[phases.current_phase(job)] is ReconcileMode.SYNC and (
        before is None or before.ignored_arguments != desired.ignored_arguments
    ):
        for text in desired.ignored_arguments:
            reduction.record_event("Warning", "PluginError", text)
    job = msgspec.structs.replace(job, spec=desired.spec)  # the object that the plugin cache compares by identity
    summary = summarize(job, reduction.state.pods, reduction.state.deleting, reduction.state.pod_summary)
    reduction.update(desired=desired, pod_summary=summary if len(summary.pods) >= CACHE_THRESHOLD else None)
    return ReconcileContext(
        job=job,
        state=reduction.state,
        pod_summary=summary,
        targets=stored.restart_targets,
        desired=desired,
        lookup=view.lookup,
        plugin_cache=plugin_cache,
        now=reduction.now,
        overrides=stored.overrides,
        needs_approval=view.policies.wants(job, PolicyEvent.PODS_DUE),
    )


def _reconcile(reduction: Reduction, context: ReconcileContext, next_stored: StoredState) -> None:
    """Stage the writes that the phase requires; without any, the status that follows from what exists."""
    job = context.job
    if next_stored.hold is not None:
        if reduction.now < next_stored.hold.until:
            reduction.warn_once("Hold", next_stored.hold.reason)
            status = counted_status(context, next_stored)
            write_status(reduction, context, phases.with_reason(status, "Hold", next_stored.hold.reason))
            return
        next_stored = msgspec.structs.replace(next_stored, hold=None)
    due_writes = _RECONCILERS[RECONCILE_MODES[phases.current_phase(job)]](context)
    failure = reduction.state.creation_failure
    if failure is not None and _write_failure_reason(reduction, context, next_stored, due_writes, failure):
        return
    _record_wait(reduction, job, due_writes)
    _update_approval(reduction, due_writes)
    if not job.status.state.phase:
        status = counted_status(context, next_stored)
        write_status(reduction, context, phases.enter_phase(job, status, JobPhase.PENDING, reduction.now))
    if (saved := policy_answers.learned_overrides(job, next_stored, reduction.state)) is not None:
        reduction.update(saved_overrides=saved[0])
        reduction.add_stage([saved[1]])
    _stage_due_writes(reduction, due_writes)
    if not reduction.write_stages:
        _write_next_status(reduction, context, next_stored, due_writes)


def _update_approval(reduction: Reduction, due_writes: reconciliation.DueWrites) -> None:
    if due_writes.approval is not None:
        reduction.update(creation_approval=due_writes.approval)
    if due_writes.question is not None:
        reduction.enqueue_questions([due_writes.question.event])
        approval = msgspec.structs.replace(due_writes.question, number=reduction.state.last_question)
        reduction.update(creation_approval=approval)


def _stage_due_writes(reduction: Reduction, due_writes: reconciliation.DueWrites) -> None:
    """Stage writes, without creations while these are delayed; the first stage joins the one staged before."""
    can_create = reduction.now >= reduction.state.recreate_at
    for number, stage in enumerate(due_writes.stages):
        due = [effect for effect in stage if can_create or not isinstance(effect, Create)]
        if number == 0 and reduction.write_stages:
            reduction.write_stages[0].extend(due)
        else:
            reduction.add_stage(due)


def _write_next_status(
    reduction: Reduction, context: ReconcileContext, next_stored: StoredState, due_writes: reconciliation.DueWrites
) -> None:
    phase = phases.current_phase(context.job)
    status = _next_status(context, next_stored, phase, reduction.now)
    wait = due_writes.problem or due_writes.scheduling_wait
    if wait is not None:
        status = phases.with_reason(status, wait.reason, wait.message)
    if due_writes.problem is None and status.state.phase == phase:
        reduction.update(count_delay=new_count_delay(context, next_stored, phase, reduction.now))
        if wait is None and phase is JobPhase.PENDING and _delay_counts(reduction, context, status):
            return
    reduction.update(counts_due=0.0)
    write_status(reduction, context, status)


def _delay_counts(reduction: Reduction, context: ReconcileContext, status: JobStatus) -> bool:
    """Return whether the write of a status that differs in counts only is delayed; a timer ends the delay."""
    if not differ_in_counts_only(context.job.status, status):
        return False
    now, known = reduction.now, reduction.state.counts_due
    due = min(known, now + starting_count_delay(context)) if known else now + starting_count_delay(context)
    if due <= now:
        return False
    delay = reduction.state.count_delay if context.counts.running or context.counts.ended else None
    reduction.update(
        counts_due=due,
        count_delay=None if delay is None else msgspec.structs.replace(delay, until=due),
        has_uncounted_changes=delay is not None,
    )
    return True


def _record_wait(reduction: Reduction, job: Job, due_writes: reconciliation.DueWrites) -> None:
    """Record one Event about what the job waits for; PodGroupPending (Volcano) when it waits to be scheduled."""
    problem, waits = due_writes.problem, due_writes.scheduling_wait
    if problem is not None or waits is None:
        problem = problem or WaitReason("", "")
        reduction.warn_once(problem.reason, problem.message, problem.topic)
        return
    group = f"PodGroup {job.metadata.namespace}:{job.metadata.name}"
    reduction.warn_once("PodGroupPending", f"{group} unschedulable, reason: {waits.message}", waits.topic)


def _write_failure_reason(
    reduction: Reduction,
    context: ReconcileContext,
    next_stored: StoredState,
    due_writes: reconciliation.DueWrites,
    failure: WaitReason,
) -> bool:
    """Before a refused creation is tried again, write why the job waits, with fresh counts.

    Returns False when that is written already, or nothing is tried again.
    """
    phase = phases.current_phase(context.job)
    due = [effect for stage in due_writes.stages for effect in stage]
    if RECONCILE_MODES[phase] is ReconcileMode.SYNC and due and not any(isinstance(effect, Delete) for effect in due):
        status = _next_status(context, next_stored, phase, reduction.now)
        write_status(reduction, context, phases.with_reason(status, failure.reason, failure.message))
    if not reduction.write_stages:
        reduction.update(creation_failure=None)
    return bool(reduction.write_stages)


def _next_status(context: ReconcileContext, next_stored: StoredState, phase: JobPhase, now: float) -> JobStatus:
    """Return the status when the phase requires no more writes."""
    job, counts = context.job, context.counts
    status = phases.with_reason(counted_status(context, next_stored), "", "")
    match RECONCILE_MODES[phase]:
        case ReconcileMode.SYNC:
            pending_ends, delayed_action = delayed_actions.ends_awaiting_an_action(
                next_stored.delayed, job, context.pod_summary.own_pods()
            )
            next_phase = phases.phase_after_sync(job, counts, phase, pending_ends)
            if delayed_action is not None and next_phase is not phases.phase_after_sync(job, counts, phase):
                status = phases.with_reason(
                    status, "DelayedAction", delayed_actions.delayed_action_message(delayed_action)
                )
        case ReconcileMode.RESTART:
            next_phase = phases.phase_after_restart(job, status, counts)
        case _:
            next_phase = phases.phase_after_stop(counts, phase)
    if next_phase is phase:
        return status
    return status_entering_phase(
        context,
        msgspec.structs.replace(next_stored, restart_targets=None),
        phases.enter_phase(job, job.status, next_phase, now),
    )


def _next_stored(context: ReconcileContext, stored: StoredState) -> StoredState:
    """Return the stored state without invalid delayed actions, and with the pods that exist or are leaving."""
    job = context.job
    next_stored = msgspec.structs.replace(
        stored,
        delayed=delayed_actions.valid_actions(stored.delayed, job, context.pod_summary.own_pods()),
        counted_pods=context.pod_summary.present,
        leaving_pods=context.pod_summary.leaving,
        observed_generation=job.metadata.generation,
    )
    if RECONCILE_MODES[phases.current_phase(job)] is not ReconcileMode.STOP:
        return next_stored
    return msgspec.structs.replace(
        without_expected_pods(next_stored),
        observed_generation=stored.observed_generation and next_stored.observed_generation,
    )
