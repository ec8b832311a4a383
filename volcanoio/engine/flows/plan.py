"""What to do next about a JobFlow: jobs that may start, checks that are due, the status, the clearing up at the end.

Everything is worked out from the jobs that are there and the stored status, so that a new process goes on where another
ended; answers to checks are asked for again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec.structs import replace

from volcanoio.engine.flows.graph import graph_problems
from volcanoio.engine.flows.jobs import build_job, job_name
from volcanoio.engine.flows.readiness import Asked, unknown_tasks, waiting
from volcanoio.engine.flows.state import STATUS, FlowState, subject
from volcanoio.engine.flows.status import phases, wanted_status
from volcanoio.engine.flows.telling import warned
from volcanoio.engine.statuses import status_patch
from volcanoio.framework.controller import View
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
from volcanoio.model import kinds
from volcanoio.model.flow import Flow, FlowPhase, JobFlow, JobFlowStatus, JobTemplate, RetainPolicy

CHECK_TIMER, RETRY_TIMER = "check", "retry"
CHECK_PERIOD = 5.0
"""Seconds from the end of a round of checks to the next."""
CHECKS_AT_ONCE = 16
"""Checks of one round."""
OPEN = ("", FlowPhase.PENDING, FlowPhase.RUNNING)
"""Phases in which jobs are made."""
METRICS: Mapping[str, str] = {
    FlowPhase.SUCCEED: "volcano_jobflow_succeed_phase_count",
    FlowPhase.FAILED: "volcano_jobflow_failed_phase_count",
}
"""Counters of flows that came to an end, under Volcano's names."""
Plan: TypeAlias = tuple[FlowState, list[Effect]]


def plan(state: FlowState, view: View) -> tuple[FlowState, Stages]:
    """The writes and checks that are due, all at once: each is about something else."""
    flow = state.flow
    if flow is None or flow.metadata.deletion_timestamp is not None:
        return state, ()
    figures: tuple[Measure, ...] = ()
    if flow.status.state.phase == FlowPhase.SUCCEED and flow.spec.job_retain_policy == RetainPolicy.DELETE:
        state, effects = _cleared(state, view)
    else:
        wanted = wanted_status(flow, state.own, view.now)
        effects = []
        if wanted.state.phase in OPEN:
            state, effects = _started(state, flow, view)
        else:
            state = replace(state, passed=frozenset(), asked=frozenset())
        if wanted != flow.status and _may(state, STATUS, view.now):
            effects.append(status_patch(kinds.JOB_FLOW, flow, flow.status, wanted))
            figures = _figures(flow, wanted)
    state, timers = _retry_timer(state, view.now)
    sent = {name for effect in effects if (name := subject(effect))}
    return replace(state, sent=state.sent | sent), ((*effects, *timers), figures)


def _may(state: FlowState, about: str, now: float) -> bool:
    """Whether something is neither under way nor held back."""
    return about not in state.sent and not state.held(about, now)


def _started(state: FlowState, flow: JobFlow, view: View) -> Plan:
    """Make the jobs that may start, and ask what others wait for."""
    effects: list[Effect] = []
    if problems := graph_problems(flow.spec.flows):
        for field, rule in problems:
            state, records = warned(state, flow, "InvalidJobFlow", field, f"{field}: {rule}; nothing starts before")
            effects += records
        return state, effects
    of_jobs = phases(flow, state.own)
    look = not _asking(state) and (state.answered or view.now >= state.check_at)
    checks: list[CheckEndpoint] = []
    asks = False
    for part in flow.spec.flows:
        if job_name(flow, part.name) in of_jobs:
            continue
        lacks = waiting(flow, part, of_jobs, state.own, Asked(state.passed, look), view.lookup)
        if lacks is None:
            state, more = _made(state, flow, part, view)
            effects += more
            continue
        checks += lacks.checks
        asks = asks or lacks.asks
        for task in unknown_tasks(flow, part, state.own):
            told = f"flow {part.name}: its probe names task {task}, which none of its targets has; mend the JobFlow"
            state, records = warned(state, flow, "UnknownTask", f"{part.name}/{task}", told)
            effects += records
    if look and asks:
        state, more = _checked(state, checks, view.now)
        effects += more
    return state, effects


def _made(state: FlowState, flow: JobFlow, part: Flow, view: View) -> Plan:
    """Make a flow's job, unless its template is missing or its name taken."""
    name = job_name(flow, part.name)
    if not _may(state, f"create {name}", view.now):
        return state, []
    namespace = flow.metadata.namespace
    template = view.lookup.get(kinds.JOB_TEMPLATE, part.name, namespace)
    records: list[Record]
    if not isinstance(template, JobTemplate):
        told = f"JobTemplate {part.name} does not exist in {namespace}; job {name} starts once it is created"
        state, records = warned(state, flow, "JobTemplateNotFound", part.name, told)
        return state, [*records]
    if name in state.taken and view.lookup.get(kinds.JOB, name, namespace) is not None:
        told = f"Job {name} exists and is not controlled by this JobFlow; delete or rename it"
        state, records = warned(state, flow, "ForeignJob", name, told)
        return state, [*records]
    return state, [Create(resource=kinds.JOB.resource, manifest=build_job(flow, part, template))]


def _asking(state: FlowState) -> bool:
    """Whether any check is under way."""
    return any(about != STATUS and not about.startswith(("create ", "delete ")) for about in state.sent)


def _checked(state: FlowState, checks: list[CheckEndpoint], now: float) -> Plan:
    """The next portion of a round of checks; the next round waits for its time."""
    unique = {check.check: check for check in checks}
    rest = [check for name, check in unique.items() if name not in state.asked]
    if not state.asked and now < state.check_at:  # only news of the last round were looked for
        rest = []
    portion = rest[:CHECKS_AT_ONCE]
    asked = state.asked | {check.check for check in portion} if len(rest) > CHECKS_AT_ONCE else frozenset()
    if now >= state.check_at:
        state = replace(state, check_at=now + CHECK_PERIOD)
    state, timers = _timed(state, CHECK_TIMER, state.check_at, now)
    return replace(state, asked=asked, answered=False), [*portion, *timers]


def _cleared(state: FlowState, view: View) -> Plan:
    """Delete the jobs of a flow that succeeded; its status stays as it was."""
    return state, [
        Delete(resource=kinds.JOB.resource, namespace=job.metadata.namespace, name=name, uid=job.metadata.uid)
        for name, job in sorted(state.own.items())
        if job.metadata.deletion_timestamp is None and _may(state, f"delete {name}", view.now)
    ]


def _figures(flow: JobFlow, wanted: JobFlowStatus) -> tuple[Measure, ...]:
    """That the flow came to its end; told once the status says so."""
    name = METRICS.get(wanted.state.phase)
    if name is None or wanted.state.phase == flow.status.state.phase:
        return ()
    labels = {"jobflow_namespace": flow.metadata.namespace}
    return (Measure(measurement=Measurement.COUNT, name=name, labels=labels),)


def _retry_timer(state: FlowState, now: float) -> Plan:
    """A timer for the end of the first wait after a refusal."""
    until = [pace.until for pace in state.paces.values() if pace.until > now]
    return _timed(state, RETRY_TIMER, min(until), now) if until else (state, [])


def _timed(state: FlowState, name: str, due: float, now: float) -> Plan:
    """Have a timer run until then; one that runs is not started anew."""
    if state.timers.get(name) == due or due <= now:
        return state, []
    return replace(state, timers={**state.timers, name: due}), [StartTimer(name=name, due=due)]
