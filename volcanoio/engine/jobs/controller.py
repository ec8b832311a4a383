"""The Job controller: its inputs and permissions, and the reduction of one event.

An event is folded into the state, then writes are planned, policies asked, and timers set. Source of the behaviour:
Volcano, pkg/controllers/job.
"""

import msgspec

from volcanoio.engine.jobs.decide import policy_answers
from volcanoio.engine.jobs.decide.lifecycle_events import TICK_TIMER, raise_timed_events
from volcanoio.engine.jobs.decide.observations import fold, start_raising_events, write_failed, write_succeeded
from volcanoio.engine.jobs.decide.planning import plan
from volcanoio.engine.jobs.decide.policy_answers import APPROVAL_TIMER, policies_answered
from volcanoio.engine.jobs.pods.observed import command_keys, job_keys, owned_keys, pod_keys
from volcanoio.engine.jobs.pods.plugins import SUPPORT_KINDS, PluginCache
from volcanoio.engine.jobs.state.job_state import CountDelay, JobState, Reduction
from volcanoio.engine.jobs.state.stored_state import has_stored_times, read_stored
from volcanoio.engine.jobs.status.writes import (
    can_change_plan,
    fold_irrelevant_change,
    is_count_update,
    is_queue_count_update,
    remaining_delay,
)
from volcanoio.framework.controller import ControllerContext, Input, Reference, Rule, Step, View
from volcanoio.framework.decisions import Wake
from volcanoio.framework.effects import StartTimer, StopTimer
from volcanoio.framework.events import (
    Answered,
    Change,
    ControllerEvent,
    EffectFailed,
    EffectSucceeded,
    Notified,
    Observed,
    TimerFired,
)
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind

POD, JOB = kinds.POD.resource, kinds.JOB.resource
RETRY, RECREATE, DELAYED, HOLD_END, COUNT_DELAY, CONFLICT = "retry", "remake", "delayed", "held", "counts", "conflict"
"""Timers: end of a back-off, of the delay after early deletions, of a delayed action, of a policy's hold, of a count
delay, and of the wait for a newer version after a conflict. Journals contain the names, so they are not changed."""


def reduce_job(state: JobState, event: ControllerEvent, view: View, plugin_cache: PluginCache) -> Step[JobState]:
    """Fold one event of one job and return what to do."""
    is_ready = view.synced and state.is_started
    if is_ready and isinstance(event, Observed) and (after := fold_irrelevant_change(state, event)) is not None:
        return Step(after, ())
    reduction = Reduction(state=state, now=view.now, policies=view.policies)
    if (step := _fold_event(reduction, event, view)) is not None:
        return step
    if view.synced and not reduction.state.is_started:
        start_raising_events(reduction)
    if reduction.state.count_delay is not None:
        reduction.update(count_delay=None, has_uncounted_changes=False)
    plan(reduction, view, plugin_cache)
    if view.synced:
        raise_timed_events(reduction, view.policies)
        reduction.ask_policies()
        _set_timers(reduction)
    stages = reduction.finish()
    return Step(None if reduction.state.is_empty else reduction.state, stages)


def _fold_event(reduction: Reduction, event: ControllerEvent, view: View) -> Step[JobState] | None:
    """Fold an event into the state; a step when nothing has to be planned."""
    match event:
        case Observed():
            return _fold_observation(reduction, event, view)
        case EffectSucceeded():
            before = reduction.state
            write_succeeded(reduction, event, view)
            delay = reduction.state.count_delay
            if delay is not None and view.now < delay.until and is_count_update(before.job, reduction.state.job):
                stages = reduction.finish()
                return Step(reduction.state, stages)
        case EffectFailed():
            write_failed(reduction, event, view)
        case Answered():
            policies_answered(reduction, event)
        case Notified():
            policy_answers.webhook_notified(reduction, event)
        case TimerFired():
            _timer_fired(reduction, event.name)
    return None


def _fold_observation(reduction: Reduction, event: Observed, view: View) -> Step[JobState] | None:
    before = reduction.state
    if before.is_started and view.synced and is_queue_count_update(event):
        return Step(before, ())
    fold(reduction, event.resource, event.obj, is_gone=event.change is Change.GONE)
    after, uid = reduction.state, event.obj.metadata.uid
    if event.resource == POD and view.synced:
        if not can_change_plan(before, after, uid):
            return Step(after, ())
        if (delay := remaining_delay(before, after, uid, view.now)) is not None:
            return _continue_count_delay(reduction, delay)
    is_own_write = before.count_delay is not None and before.has_writes_in_flight and event.resource == JOB
    return Step(after, ()) if is_own_write and is_count_update(before.job, after.job) else None


def _timer_fired(reduction: Reduction, name: str) -> None:
    timers, approval = reduction.state.timers, reduction.state.creation_approval
    reduction.update(timers={other: due for other, due in timers.items() if other != name})
    if name == COUNT_DELAY:
        reduction.update(counts_due=reduction.now)
    if name == APPROVAL_TIMER and approval is not None:
        reduction.update(creation_approval=msgspec.structs.replace(approval, due=reduction.now))


def _continue_count_delay(reduction: Reduction, delay: CountDelay) -> Step[JobState]:
    """Continue to delay count writes; the first change during a delay starts the timer that ends it."""
    first = not reduction.state.has_uncounted_changes
    reduction.update(count_delay=delay, has_uncounted_changes=True)
    if first:
        _set_timers(reduction)
    return Step(reduction.state, reduction.finish())


def _set_timers(reduction: Reduction) -> None:
    """Start and stop timers so that exactly the required ones run."""
    required = {name: due for name, due in _due_times(reduction.state).items() if due > reduction.now}
    running = reduction.state.timers
    if required == running:
        return
    reduction.immediate += [StopTimer(name=name) for name in sorted(running) if name not in required]
    reduction.immediate += [
        StartTimer(name=name, due=due, wake=_wake_conditions(reduction.state) if name == APPROVAL_TIMER else ())
        for name, due in required.items()
        if running.get(name) != due
    ]
    reduction.update(timers=required)


def _wake_conditions(state: JobState) -> tuple[Wake, ...]:
    return (
        state.creation_approval.hold.wake
        if state.creation_approval is not None and state.creation_approval.hold is not None
        else ()
    )


def _due_times(state: JobState) -> dict[str, float]:
    """Return when to look at the job again; delayed actions and holds count only once they are stored."""
    if state.job is None:
        return {}
    times = {RETRY: state.retry_at, RECREATE: state.recreate_at, TICK_TIMER: state.next_tick}
    if (
        state.creation_approval is not None
        and state.creation_approval.hold is not None
        and not state.creation_approval.number
    ):
        times[APPROVAL_TIMER] = state.creation_approval.due
    if state.count_delay is not None and state.has_uncounted_changes:
        times[COUNT_DELAY] = state.count_delay.until
    elif state.counts_due:
        times[COUNT_DELAY] = state.counts_due
    if state.job.metadata.revision <= state.stale_revision:
        times[CONFLICT] = state.stale_until
    if not has_stored_times(state.job.status):
        return times
    stored = read_stored(state.job.status)
    if stored.delayed:
        times[DELAYED] = min(item.due for item in stored.delayed)
    if stored.hold is not None:
        times[HOLD_END] = stored.hold.until
    return times


NAME = "job-controller"


def _metadata_only_kind(kind: Kind) -> Kind:
    return Kind(kind.group, kind.version, kind.kind, kind.plural, ApiObject, kind.namespaced, kind.status_subresource)


_INPUTS = (
    Input(kinds.JOB, job_keys),
    Input(kinds.POD, pod_keys, label_selector=names.JOB_NAME),
    Input(kinds.POD_GROUP, owned_keys),
    Input(kinds.COMMAND, command_keys),
    *(
        Input(_metadata_only_kind(kind) if kind is kinds.SECRET else kind, owned_keys, label_selector=names.JOB_NAME)
        for kind in SUPPORT_KINDS
    ),
)
_REFERENCES = (
    Reference(kinds.QUEUE),
    Reference(kinds.PRIORITY_CLASS),
    Reference(kinds.PVC),
    Reference(kinds.RESOURCE_QUOTA),
)
_RULES = (
    Rule(kinds.JOB.group, ("jobs",), ("get", "list", "watch", "patch")),
    Rule(kinds.JOB.group, ("jobs/status",), ("patch",)),
    Rule(kinds.JOB.group, ("jobs/finalizers",), ("update",)),
    Rule(kinds.COMMAND.group, ("commands",), ("get", "list", "watch", "delete")),
    Rule(kinds.POD_GROUP.group, ("podgroups",), ("get", "list", "watch", "create", "patch", "delete")),
    Rule(kinds.QUEUE.group, ("queues",), ("get", "list", "watch")),
    Rule("", ("pods",), ("get", "list", "watch", "create", "patch", "delete")),
    Rule("", ("persistentvolumeclaims",), ("get", "list", "watch", "create")),
    Rule("", ("resourcequotas",), ("get", "list", "watch")),
    Rule("", ("configmaps",), ("get", "list", "watch", "create", "patch", "delete")),
    Rule("", ("services", "secrets"), ("get", "list", "watch", "create", "patch", "delete")),
    Rule("", ("events",), ("create", "patch")),
    Rule(kinds.NETWORK_POLICY.group, ("networkpolicies",), ("get", "list", "watch", "create", "patch", "delete")),
    Rule(kinds.PRIORITY_CLASS.group, ("priorityclasses",), ("get", "list", "watch")),
)


class JobController:
    """Volcano's job controller as a pure reducer."""

    name = NAME
    inputs = _INPUTS
    references = _REFERENCES
    rules = _RULES

    def __init__(self, context: ControllerContext) -> None:
        self._plugins = PluginCache(dict(context.job_plugins), context.scheduler_names)

    def start(self, key: str) -> JobState:  # noqa: ARG002 - the same for every key
        """Return the state of an unknown key."""
        return JobState()

    def reduce(self, state: JobState, event: ControllerEvent, view: View) -> Step[JobState]:
        """Fold one event of one job; see `reduce_job`."""
        return reduce_job(state, event, view, self._plugins)
