"""`CronJobController`: starts the runs of CronJobs (Volcano: pkg/controllers/cronjob).

Mends: a status that could not be written is written later; an AlreadyExists is looked into where the CronJob lives;
terminated and aborted runs hold nobody up and count against the history of failed ones.
"""

from __future__ import annotations

from msgspec.structs import replace

from volcanoio.engine.cron.plan import plan
from volcanoio.engine.cron.state import CronState, fold, run_keys
from volcanoio.engine.cron.telling import WARNING, told
from volcanoio.engine.pacing import CONFLICT, Pace
from volcanoio.framework.controller import ControllerContext, Input, Reference, Rule, Step, View
from volcanoio.framework.effects import Create, Delete, Patch, Stages
from volcanoio.framework.events import (
    ControllerEvent,
    EffectFailed,
    EffectSucceeded,
    Observed,
    TimerFired,
)
from volcanoio.model import kinds

FORBIDDEN = 403
_WRITES = (Create, Delete, Patch)
_TERMINATING = "because it is being terminated"
"""What an API server says of a namespace that is going away (Kubernetes: NamespaceLifecycle)."""


_FAILED = {"create": ("FailedCreate", "Error creating job: "), "delete": ("FailedDelete", "Error deleting job: ")}


class CronJobController:
    """One key a CronJob."""

    name = "cronjob-controller"
    inputs = (
        Input(kinds.CRON_JOB, lambda cron: (cron.metadata.key,)),
        Input(kinds.JOB, run_keys),
    )
    references = (Reference(kinds.JOB),)
    rules = (
        Rule(kinds.CRON_JOB.group, ("cronjobs",), ("get", "list", "watch")),
        Rule(kinds.CRON_JOB.group, ("cronjobs/status",), ("patch",)),
        Rule(kinds.CRON_JOB.group, ("cronjobs/finalizers",), ("update",)),
        Rule(kinds.JOB.group, ("jobs",), ("get", "list", "watch", "create", "delete")),
        Rule("", ("events",), ("create", "patch")),
    )

    def __init__(self, context: ControllerContext) -> None:
        """CronJobs are the same however the process was asked to behave."""

    def start(self, key: str) -> CronState:  # noqa: ARG002 - the same for every key
        """Nothing is known."""
        return CronState()

    def reduce(self, state: CronState, event: ControllerEvent, view: View) -> Step[CronState]:
        """Fold one event; then the next write, unless one is under way."""
        stages: Stages = ()
        match event:
            case Observed():
                state = fold(state, event.obj, event.change, view.key)
            case EffectSucceeded():
                state = replace(state, pace=Pace())
            case EffectFailed():
                state, stages = _refused(state, event, view)
            case TimerFired(name=name):
                state = replace(state, timers={each: due for each, due in state.timers.items() if each != name})
            case _:
                pass
        if state.cron is None and not state.jobs and not view.in_flight:
            return Step(None)
        if not view.synced or any(isinstance(effect, _WRITES) for effect in view.in_flight.values()):
            return Step(state, stages)
        state, more = plan(state, view)
        return Step(state, tuple(stage for stage in (*stages, *more) if stage))


def _refused(state: CronState, event: EffectFailed, view: View) -> tuple[CronState, Stages]:
    """A write was refused: say so where users can mend it, and go on later."""
    cron = state.cron
    if cron is None:
        return state, ()
    state = replace(state, pace=state.pace.refused(event.code, view.now, cron.metadata.revision))
    if state.sent not in _FAILED or event.code == CONFLICT:
        return state, ()
    reason, text = _FAILED[state.sent]
    if event.code == FORBIDDEN and _TERMINATING in event.message:
        reason = "NamespaceTerminating"
    return state, ((told(cron, WARNING, reason, text + (event.message or event.reason or "outcome unknown")),),)
