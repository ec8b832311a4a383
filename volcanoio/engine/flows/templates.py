"""`JobTemplateController`: a JobTemplate's status names the Jobs made from it (Volcano: pkg/controllers/jobtemplate).

Mends: names with dots count, and Jobs that are gone leave the list.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from volcanoio.engine.flows.jobs import template_keys
from volcanoio.engine.pacing import Pace
from volcanoio.engine.statuses import status_patch
from volcanoio.framework.controller import ControllerContext, Input, Reference, Rule, Step, View
from volcanoio.framework.effects import StartTimer
from volcanoio.framework.events import Change, ControllerEvent, EffectFailed, EffectSucceeded, Observed, TimerFired
from volcanoio.model import kinds
from volcanoio.model.flow import JobTemplate

LONGEST = 1000
"""Names in the list, the first by name: a template may be used without end, and an object may not grow so."""
DELAY = 0.2
"""Seconds that changes are gathered before they are written."""
TIMER = "write"


class TemplateState(msgspec.Struct, frozen=True, kw_only=True):
    """One JobTemplate, and the names of Jobs made from it by uid. `due` is when to write (epoch seconds, or 0)."""

    template: JobTemplate | None = None
    jobs: dict[str, str] = {}
    due: float = 0.0
    pace: Pace = Pace()


class JobTemplateController:
    """One key a JobTemplate."""

    name = "jobtemplate-controller"
    inputs = (
        Input(kinds.JOB_TEMPLATE, lambda template: (template.metadata.key,)),
        Input(kinds.JOB, template_keys),
    )
    references: tuple[Reference, ...] = ()
    rules = (
        Rule(kinds.JOB_TEMPLATE.group, ("jobtemplates",), ("get", "list", "watch")),
        Rule(kinds.JOB_TEMPLATE.group, ("jobtemplates/status",), ("patch",)),
        Rule(kinds.JOB.group, ("jobs",), ("get", "list", "watch")),
    )

    def __init__(self, context: ControllerContext) -> None:
        """JobTemplates are the same however the process was asked to behave."""

    def start(self, key: str) -> TemplateState:  # noqa: ARG002 - the same for every key
        """Nothing is known."""
        return TemplateState()

    def reduce(self, state: TemplateState, event: ControllerEvent, view: View) -> Step[TemplateState]:
        """Fold one event, then write the list if it changed a while ago."""
        match event:
            case Observed():
                state = _seen(state, event, view.key)
            case EffectSucceeded():
                state = replace(state, pace=Pace())
            case EffectFailed():
                revision = state.template.metadata.revision if state.template is not None else -1
                state = replace(state, pace=state.pace.refused(event.code, view.now, revision), due=0.0)
            case TimerFired():
                state = replace(state, due=min(state.due, view.now))
            case _:
                pass
        if state.template is None and not state.jobs and not view.in_flight:
            return Step(None)
        template = state.template
        if template is None or not view.synced or view.in_flight:
            return Step(state)
        wanted = tuple(sorted(set(state.jobs.values()))[:LONGEST])
        if wanted == template.status.job_depends_on_list:
            return Step(replace(state, due=0.0))
        if not state.due:
            held = state.pace.until if state.pace.holds(view.now, template.metadata.revision) else 0.0
            due = max(view.now + DELAY, held)
            return Step(replace(state, due=due), ((StartTimer(name=TIMER, due=due),),))
        if view.now < state.due:
            return Step(state)
        after = replace(template.status, job_depends_on_list=wanted)
        write = status_patch(kinds.JOB_TEMPLATE, template, template.status, after)
        return Step(replace(state, due=0.0), ((write,),))


def _seen(state: TemplateState, event: Observed, key: str) -> TemplateState:
    obj, gone = event.obj, event.change is Change.GONE
    if isinstance(obj, JobTemplate):
        return replace(state, template=None if gone else obj)
    jobs = {uid: name for uid, name in state.jobs.items() if uid != obj.metadata.uid}
    if not gone and key in template_keys(obj):
        jobs[obj.metadata.uid] = obj.metadata.name
    return state if jobs == state.jobs else replace(state, jobs=jobs)
