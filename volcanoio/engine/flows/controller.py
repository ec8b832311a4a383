"""`JobFlowController`: makes jobs in the order of their dependencies (Volcano: pkg/controllers/jobflow).

Mends: probes and patches have their effect; a JobTemplate that comes later wakes the flow; a completed job that is
removed stays completed; nothing is made again once the flow has succeeded.
"""

from __future__ import annotations

from msgspec.structs import replace

from volcanoio.engine.flows.jobs import flow_keys
from volcanoio.engine.flows.plan import plan
from volcanoio.engine.flows.state import STATUS, FlowState, fold, settled
from volcanoio.engine.flows.telling import NORMAL, WARNING, told
from volcanoio.engine.pacing import CONFLICT, Pace
from volcanoio.framework.controller import ControllerContext, Input, Reference, Rule, Step, View
from volcanoio.framework.effects import Record
from volcanoio.framework.events import (
    ControllerEvent,
    EffectFailed,
    EffectSucceeded,
    Observed,
    TimerFired,
)
from volcanoio.model import kinds

_CREATE, _DELETE = "create ", "delete "


class JobFlowController:
    """One key a JobFlow."""

    name = "jobflow-controller"
    inputs = (
        Input(kinds.JOB_FLOW, lambda flow: (flow.metadata.key,)),
        Input(kinds.JOB, flow_keys),
    )
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
        """JobFlows are the same however the process was asked to behave."""

    def start(self, key: str) -> FlowState:  # noqa: ARG002 - the same for every key
        """Nothing is known."""
        return FlowState()

    def reduce(self, state: FlowState, event: ControllerEvent, view: View) -> Step[FlowState]:
        """Fold one event, then whatever is due."""
        records: list[Record] = []
        match event:
            case Observed():
                state = fold(state, event.obj, event.change, view.key)
            case EffectSucceeded():
                state, records = _succeeded(state, view)
            case EffectFailed():
                state, records = _refused(state, event, view)
            case TimerFired(name=name):
                state = replace(state, timers={each: due for each, due in state.timers.items() if each != name})
            case _:
                pass
        if state.flow is None and not state.jobs and not view.in_flight:
            return Step(None)
        if not view.synced:
            return Step(state)
        state, stages = plan(state, view)
        return Step(state, tuple(stage for stage in (tuple(records), *stages) if stage))


def _succeeded(state: FlowState, view: View) -> tuple[FlowState, list[Record]]:
    state, done = settled(state, view.in_flight.values())
    records: list[Record] = []
    for about in done:
        if about.startswith(_CREATE) and state.flow is not None:
            records.append(told(state.flow, NORMAL, "Created", f"Created job {about.removeprefix(_CREATE)}"))
        if not about.startswith((_CREATE, _DELETE)) and about != STATUS:
            state = replace(state, passed=state.passed | {about}, answered=True)
    return replace(state, paces={about: pace for about, pace in state.paces.items() if about not in done}), records


def _refused(state: FlowState, event: EffectFailed, view: View) -> tuple[FlowState, list[Record]]:
    """A write was refused: say so where users can mend it, and go on later. A check that failed is asked again."""
    state, done = settled(state, view.in_flight.values())
    flow = state.flow
    records: list[Record] = []
    if flow is None:
        return state, records
    for about in done:
        if not about.startswith((_CREATE, _DELETE)) and about != STATUS:
            state = replace(state, answered=True)
            continue
        pace = state.paces.get(about, Pace()).refused(event.code, view.now, flow.metadata.revision)
        state = replace(state, paces={**state.paces, about: pace})
        message = event.message or event.reason or "outcome unknown"
        if about.startswith(_CREATE):
            if event.code == CONFLICT:
                state = replace(state, taken=state.taken | {about.removeprefix(_CREATE)})
            else:
                records.append(told(flow, WARNING, "FailedCreate", f"Error creating job: {message}"))
        elif about.startswith(_DELETE):
            records.append(told(flow, WARNING, "FailedDelete", f"Error deleting job: {message}"))
    return state, records
