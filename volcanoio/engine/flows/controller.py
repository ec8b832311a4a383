"""`JobFlowController`: creates jobs in the order of their dependencies (Volcano: pkg/controllers/jobflow).

Everything is computed from the existing jobs and the stored status, so that a new process continues where another
ended; checks are repeated then. Unlike Volcano: probes and patches have their effect; a JobTemplate that is created
later wakes the flow; a completed job that is deleted stays completed; no job is created again once the flow has
succeeded.
"""

from collections.abc import Mapping
from itertools import islice
from typing import TypeAlias

from msgspec.structs import replace

from volcanoio.engine.flows.dependencies import CheckResults, graph_problems, unknown_tasks, unmet_dependencies
from volcanoio.engine.flows.jobs import build_job, flow_keys, job_name
from volcanoio.engine.flows.state import (
    NORMAL,
    STATUS_WRITE,
    WARNING,
    JobFlowState,
    desired_status,
    effect_key,
    flow_event,
    flow_warning_once,
    fold,
    job_phases,
    remove_finished_effects,
)
from volcanoio.framework.backoff import CONFLICT, WriteBackoff
from volcanoio.framework.controller import ControllerContext, Input, Reference, Rule, Step, View
from volcanoio.framework.effects import (
    CheckEndpoint,
    Create,
    Delete,
    Effect,
    Measure,
    Measurement,
    Record,
    Stages,
    StartTimer,
)
from volcanoio.framework.events import ControllerEvent, EffectFailed, EffectSucceeded, Observed, TimerFired
from volcanoio.framework.statuses import status_patch
from volcanoio.model import kinds
from volcanoio.model.flow import Flow, FlowPhase, JobFlow, JobFlowStatus, JobTemplate, RetainPolicy

CHECK_TIMER, RETRY_TIMER = "check", "retry"
CHECK_PERIOD = 5.0
"""Seconds from the end of a round of checks to the next."""
MAX_PARALLEL_CHECKS = 16
"""Checks that are sent at once."""
_REPORTED = 5
"""Problems with the graph that are recorded as Events; the flow waits for all to be fixed."""
STARTING_PHASES = ("", FlowPhase.PENDING, FlowPhase.RUNNING)
"""Phases in which jobs are created."""
PHASE_COUNTERS: Mapping[str, str] = {
    FlowPhase.SUCCEED: "volcano_jobflow_succeed_phase_count",
    FlowPhase.FAILED: "volcano_jobflow_failed_phase_count",
}
"""Counters of finished flows, under Volcano's names."""
Plan: TypeAlias = tuple[JobFlowState, list[Effect]]


def plan(state: JobFlowState, view: View) -> tuple[JobFlowState, Stages]:
    """Return the writes and checks that are due, all at once, as they are independent."""
    if (flow := state.flow) is None or flow.metadata.deletion_timestamp is not None:
        return state, ()
    metrics: tuple[Measure, ...] = ()
    if flow.status.state.phase == FlowPhase.SUCCEED and flow.spec.job_retain_policy == RetainPolicy.DELETE:
        state, effects = _delete_jobs(state, view)
    else:
        desired = desired_status(flow, state.own_jobs, view.now)
        effects = []
        if desired.state.phase in STARTING_PHASES:
            state, effects = _start_jobs(state, flow, view)
        else:
            state = replace(state, passed_checks=frozenset(), checked=frozenset())
        if (
            desired != flow.status
            and _can_send(state, STATUS_WRITE, view.now)
            and not _waits_for_templates(state, flow, view)
        ):
            effects.append(status_patch(kinds.JOB_FLOW, flow, flow.status, desired))
            metrics = _phase_metrics(flow, desired)
    state, timers = _retry_timer(state, view.now)
    sent = {name for effect in effects if (name := effect_key(effect))}
    return replace(state, in_flight=state.in_flight | sent), ((*effects, *timers), metrics)


def _waits_for_templates(state: JobFlowState, flow: JobFlow, view: View) -> bool:
    """Return whether the flow has no job yet and a JobTemplate is missing.

    As in Volcano it has no status until then, so that a client may create it and update it at once.
    """
    if flow.status.state.phase or state.own_jobs:
        return False
    namespace = flow.metadata.namespace
    return any(view.lookup.get(kinds.JOB_TEMPLATE, part.name, namespace) is None for part in flow.spec.flows)


def _can_send(state: JobFlowState, key: str, now: float) -> bool:
    return key not in state.in_flight and not state.is_backing_off(key, now)


def _start_jobs(state: JobFlowState, flow: JobFlow, view: View) -> Plan:
    effects: list[Effect] = []
    if problems := list(islice(graph_problems(flow.spec.flows), _REPORTED)):
        for field, rule in problems:
            state, records = flow_warning_once(
                state, flow, "InvalidJobFlow", field, f"{field}: {rule}; nothing starts before"
            )
            effects += records
        return state, effects
    phases = job_phases(flow, state.own_jobs)
    can_check = not _has_running_checks(state) and (state.has_new_results or view.now >= state.check_at)
    results = CheckResults(state.passed_checks, can_check, view.lookup)
    checks: list[CheckEndpoint] = []
    awaits_results = False
    for part in flow.spec.flows:
        if job_name(flow, part.name) in phases:
            continue
        if (wait := unmet_dependencies(flow, part, phases, state.own_jobs, results)) is None:
            state, more = _create_job(state, flow, part, view)
            effects += more
            continue
        checks += wait.checks
        awaits_results = awaits_results or wait.awaits_results
        for task in unknown_tasks(flow, part, state.own_jobs):
            message = f"flow {part.name}: its probe names task {task}, which none of its targets has; fix the JobFlow"
            state, records = flow_warning_once(state, flow, "UnknownTask", f"{part.name}/{task}", message)
            effects += records
    if can_check and awaits_results:
        state, more = _send_checks(state, checks, view.now)
        effects += more
    return state, effects


def _create_job(state: JobFlowState, flow: JobFlow, part: Flow, view: View) -> Plan:
    """Create a flow's job, unless its template is missing or its name is used."""
    name = job_name(flow, part.name)
    if not _can_send(state, f"create {name}", view.now):
        return state, []
    namespace = flow.metadata.namespace
    template = view.lookup.get(kinds.JOB_TEMPLATE, part.name, namespace)
    records: list[Record]
    if not isinstance(template, JobTemplate):
        message = f"JobTemplate {part.name} does not exist in {namespace}; job {name} starts once it is created"
        state, records = flow_warning_once(state, flow, "JobTemplateNotFound", part.name, message)
        return state, [*records]
    if name in state.name_conflicts and view.lookup.get(kinds.JOB, name, namespace) is not None:
        message = f"Job {name} exists and is not controlled by this JobFlow; delete or rename it"
        state, records = flow_warning_once(state, flow, "ForeignJob", name, message)
        return state, [*records]
    return state, [Create(resource=kinds.JOB.resource, manifest=build_job(flow, part, template))]


def _has_running_checks(state: JobFlowState) -> bool:
    return any(key != STATUS_WRITE and not key.startswith(("create ", "delete ")) for key in state.in_flight)


def _send_checks(state: JobFlowState, checks: list[CheckEndpoint], now: float) -> Plan:
    """Send the next batch of a round of checks; the next round waits for its time."""
    unique = {check.check: check for check in checks}
    rest = [check for name, check in unique.items() if name not in state.checked]
    if not state.checked and now < state.check_at:  # only changes since the last round count
        rest = []
    portion = rest[:MAX_PARALLEL_CHECKS]
    asked = state.checked | {check.check for check in portion} if len(rest) > MAX_PARALLEL_CHECKS else frozenset()
    if now >= state.check_at:
        state = replace(state, check_at=now + CHECK_PERIOD)
    state, timers = _with_timer(state, CHECK_TIMER, state.check_at, now)
    return replace(state, checked=asked, has_new_results=False), [*portion, *timers]


def _delete_jobs(state: JobFlowState, view: View) -> Plan:
    """Delete the jobs of a flow that succeeded; its status stays."""
    return state, [
        Delete.of(kinds.JOB.resource, job)
        for name, job in sorted(state.own_jobs.items())
        if job.metadata.deletion_timestamp is None and _can_send(state, f"delete {name}", view.now)
    ]


def _phase_metrics(flow: JobFlow, desired: JobFlowStatus) -> tuple[Measure, ...]:
    """Count a flow that ended, once, with the status write; the first one begins its namespace's counters at 0."""
    labels = {"jobflow_namespace": flow.metadata.namespace}
    begun = () if flow.status.state.phase else tuple(PHASE_COUNTERS.values())
    measures = [Measure(measurement=Measurement.COUNT, name=name, labels=labels, value=0.0) for name in begun]
    name = PHASE_COUNTERS.get(desired.state.phase)
    if name is not None and desired.state.phase != flow.status.state.phase:
        measures.append(Measure(measurement=Measurement.COUNT, name=name, labels=labels))
    return tuple(measures)


def _retry_timer(state: JobFlowState, now: float) -> Plan:
    """Set a timer for the end of the first back-off."""
    until = [backoff.until for backoff in state.backoffs.values() if backoff.until > now]
    return _with_timer(state, RETRY_TIMER, min(until), now) if until else (state, [])


def _with_timer(state: JobFlowState, name: str, due: float, now: float) -> Plan:
    """Set a timer, unless it runs already."""
    if state.timers.get(name) == due or due <= now:
        return state, []
    return replace(state, timers={**state.timers, name: due}), [StartTimer(name=name, due=due)]


_CREATE, _DELETE = "create ", "delete "


class JobFlowController:
    """Reducer with one key per JobFlow."""

    name = "jobflow-controller"
    inputs = (Input(kinds.JOB_FLOW, lambda flow: (flow.metadata.key,)), Input(kinds.JOB, flow_keys))
    references = (Reference(kinds.JOB_TEMPLATE), Reference(kinds.JOB), Reference(kinds.POD))
    rules = (
        Rule(kinds.JOB_FLOW.group, ("jobflows",), ("get", "list", "watch")),
        Rule(kinds.JOB_FLOW.group, ("jobflows/status",), ("patch",)),
        Rule(kinds.JOB_FLOW.group, ("jobflows/finalizers",), ("update",)),
        Rule(kinds.JOB_TEMPLATE.group, ("jobtemplates",), ("get", "list", "watch")),
        Rule(kinds.JOB.group, ("jobs",), ("get", "list", "watch", "create", "delete")),
        Rule("", ("pods",), ("get", "list", "watch")),
        Rule("", ("events",), ("create", "patch")),
    )

    def __init__(self, context: ControllerContext) -> None:
        """Create the controller; it has no options."""

    def start(self, key: str) -> JobFlowState:  # noqa: ARG002 - the same for every key
        """Return the state of an unknown key."""
        return JobFlowState()

    def reduce(self, state: JobFlowState, event: ControllerEvent, view: View) -> Step[JobFlowState]:
        """Fold one event, then return what is due."""
        records: list[Record] = []
        match event:
            case Observed():
                state = fold(state, event.obj, event.change, view.key)
            case EffectSucceeded():
                state, records = _effect_succeeded(state, view)
            case EffectFailed():
                state, records = _effect_failed(state, event, view)
            case TimerFired(name=name):
                state = replace(state, timers={each: due for each, due in state.timers.items() if each != name})
        if state.flow is None and not state.jobs and not view.in_flight:
            return Step(None)
        if not view.synced:
            return Step(state)
        state, stages = plan(state, view)
        return Step(state, tuple(stage for stage in (tuple(records), *stages) if stage))


def _effect_succeeded(state: JobFlowState, view: View) -> tuple[JobFlowState, list[Record]]:
    state, done = remove_finished_effects(state, view.in_flight.values())
    records: list[Record] = []
    for key in done:
        if key.startswith(_CREATE) and state.flow is not None:
            records.append(flow_event(state.flow, NORMAL, "Created", f"Created job {key.removeprefix(_CREATE)}"))
        if not key.startswith((_CREATE, _DELETE)) and key != STATUS_WRITE:
            state = replace(state, passed_checks=state.passed_checks | {key}, has_new_results=True)
    return replace(
        state, backoffs={key: backoff for key, backoff in state.backoffs.items() if key not in done}
    ), records


def _effect_failed(state: JobFlowState, event: EffectFailed, view: View) -> tuple[JobFlowState, list[Record]]:
    """Record an Event about a refused write, and retry later. A failed check is repeated."""
    state, done = remove_finished_effects(state, view.in_flight.values())
    flow = state.flow
    records: list[Record] = []
    if flow is None:
        return state, records
    for key in done:
        if not key.startswith((_CREATE, _DELETE)) and key != STATUS_WRITE:
            state = replace(state, has_new_results=True)
            continue
        backoff = state.backoffs.get(key, WriteBackoff()).after_refusal(event.code, view.now, flow.metadata.revision)
        state = replace(state, backoffs={**state.backoffs, key: backoff})
        message = event.message or event.reason or "outcome unknown"
        if key.startswith(_CREATE):
            if event.code == CONFLICT:
                state = replace(state, name_conflicts=state.name_conflicts | {key.removeprefix(_CREATE)})
            else:
                records.append(flow_event(flow, WARNING, "FailedCreate", f"Error creating job: {message}"))
        elif key.startswith(_DELETE):
            records.append(flow_event(flow, WARNING, "FailedDelete", f"Error deleting job: {message}"))
    return state, records
