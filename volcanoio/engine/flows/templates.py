"""`JobTemplateController`: a JobTemplate's status names the Jobs made from it (Volcano: pkg/controllers/jobtemplate).

Unlike Volcano: names with dots count, and deleted Jobs are removed from the list.
"""

import msgspec
from msgspec.structs import replace

from volcanoio.engine.flows.jobs import template_keys
from volcanoio.framework.backoff import WriteBackoff
from volcanoio.framework.controller import ControllerContext, Input, Reference, Rule, Step, View
from volcanoio.framework.effects import StartTimer
from volcanoio.framework.events import Change, ControllerEvent, EffectFailed, EffectSucceeded, Observed, TimerFired
from volcanoio.framework.statuses import status_patch
from volcanoio.model import kinds
from volcanoio.model.flow import JobTemplate

MAX_LISTED_JOBS = 1000
"""Maximum number of names in the list, so that the object stays small."""
WRITE_DELAY = 0.2
"""Seconds for which changes are collected before they are written."""
WRITE_TIMER = "write"


class TemplateState(msgspec.Struct, frozen=True, kw_only=True):
    """One JobTemplate, and the names of its Jobs by uid. `due` is when to write (epoch seconds, or 0)."""

    template: JobTemplate | None = None
    jobs: dict[str, str] = {}
    due: float = 0.0
    backoff: WriteBackoff = WriteBackoff()


class JobTemplateController:
    """Reducer with one key per JobTemplate."""

    name = "jobtemplate-controller"
    inputs = (Input(kinds.JOB_TEMPLATE, lambda template: (template.metadata.key,)), Input(kinds.JOB, template_keys))
    references: tuple[Reference, ...] = ()
    rules = (
        Rule(kinds.JOB_TEMPLATE.group, ("jobtemplates",), ("get", "list", "watch")),
        Rule(kinds.JOB_TEMPLATE.group, ("jobtemplates/status",), ("patch",)),
        Rule(kinds.JOB.group, ("jobs",), ("get", "list", "watch")),
    )

    def __init__(self, context: ControllerContext) -> None:
        """Create the controller; it has no options."""

    def start(self, key: str) -> TemplateState:  # noqa: ARG002 - the same for every key
        """Return the state of an unknown key."""
        return TemplateState()

    def reduce(self, state: TemplateState, event: ControllerEvent, view: View) -> Step[TemplateState]:
        """Fold one event, then write the list if it changed a while ago."""
        match event:
            case Observed():
                state = _fold(state, event, view.key)
            case EffectSucceeded():
                state = replace(state, backoff=WriteBackoff())
            case EffectFailed():
                revision = state.template.metadata.revision if state.template is not None else -1
                state = replace(state, backoff=state.backoff.after_refusal(event.code, view.now, revision), due=0.0)
            case TimerFired():
                state = replace(state, due=min(state.due, view.now))
        if state.template is None and not state.jobs and not view.in_flight:
            return Step(None)
        if (template := state.template) is None or not view.synced or view.in_flight:
            return Step(state)
        desired = tuple(sorted(set(state.jobs.values()))[:MAX_LISTED_JOBS])
        if desired == template.status.job_depends_on_list:
            return Step(replace(state, due=0.0))
        if not state.due:
            backoff_end = state.backoff.until if state.backoff.is_active(view.now, template.metadata.revision) else 0.0
            due = max(view.now + WRITE_DELAY, backoff_end)
            return Step(replace(state, due=due), ((StartTimer(name=WRITE_TIMER, due=due),),))
        if view.now < state.due:
            return Step(state)
        after = replace(template.status, job_depends_on_list=desired)
        write = status_patch(kinds.JOB_TEMPLATE, template, template.status, after)
        return Step(replace(state, due=0.0), ((write,),))


def _fold(state: TemplateState, event: Observed, key: str) -> TemplateState:
    obj, gone = event.obj, event.change is Change.GONE
    if isinstance(obj, JobTemplate):
        return replace(state, template=None if gone else obj)
    jobs = {uid: name for uid, name in state.jobs.items() if uid != obj.metadata.uid}
    if not gone and key in template_keys(obj):
        jobs[obj.metadata.uid] = obj.metadata.name
    return state if jobs == state.jobs else replace(state, jobs=jobs)
