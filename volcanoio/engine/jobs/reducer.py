"""The Job controller's reduction: fold the event, plan what is due, put questions, set timers."""

from __future__ import annotations

import msgspec

from volcanoio.engine.jobs import alerts
from volcanoio.engine.jobs.answers import GATE, answered
from volcanoio.engine.jobs.draft import Draft
from volcanoio.engine.jobs.folding import fold, start
from volcanoio.engine.jobs.ledger import has_times, read
from volcanoio.engine.jobs.occasions import TICK, raise_occasions
from volcanoio.engine.jobs.outcomes import failed, succeeded
from volcanoio.engine.jobs.pausing import only_counted, resting
from volcanoio.engine.jobs.planning import plan
from volcanoio.engine.jobs.plugins import PluginSets
from volcanoio.engine.jobs.relevance import after_unplanned, is_bookkeeping, may_alter_plan
from volcanoio.engine.jobs.state import JobState, Pause
from volcanoio.framework.controller import Step, View
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
from volcanoio.model import kinds

POD, JOB = kinds.POD.resource, kinds.JOB.resource
RETRY, DELAYED, HELD, COUNTS, CONFLICT = "retry", "delayed", "held", "counts", "conflict"
"""Timers: the end of a back-off, the first delayed action, the end of a policy's hold, that of a rest from counting,
and that of waiting for the newer version that a conflict told of."""


def reduce_job(state: JobState, event: ControllerEvent, view: View, plugins: PluginSets) -> Step[JobState]:
    """Fold one event of one job and say what to do."""
    if isinstance(event, Observed) and view.synced and state.started:
        after = after_unplanned(state, event)
        if after is not None:
            return Step(after, ())
    draft = Draft(state=state, now=view.now, roster=view.roster)
    match event:
        case Observed() if state.started and view.synced and is_bookkeeping(event):
            return Step(state, ())
        case Observed():
            fold(draft, event.resource, event.obj, gone=event.change is Change.GONE)
            if event.resource == POD and view.synced:
                if not may_alter_plan(state, draft.state, event.obj.metadata.uid):
                    return Step(draft.state, ())
                if (rest := resting(state, draft.state, event.obj.metadata.uid, view.now)) is not None:
                    return _rest(draft, rest)
            if (
                state.pause is not None
                and state.writing
                and event.resource == JOB
                and only_counted(state.job, draft.state.job)
            ):
                return Step(draft.state, ())
        case EffectSucceeded():
            succeeded(draft, event, view)
            rest = draft.state.pause
            if rest is not None and view.now < rest.until and only_counted(state.job, draft.state.job):
                stages = draft.stages()
                return Step(draft.state, stages)
        case EffectFailed():
            failed(draft, event, view)
        case Answered():
            answered(draft, event)
        case Notified():
            alerts.notified(draft, event)
        case TimerFired():
            draft.set(timers={name: due for name, due in draft.state.timers.items() if name != event.name})
            if event.name == GATE and draft.state.gate is not None:
                draft.set(gate=msgspec.structs.replace(draft.state.gate, due=draft.now))
        case _:
            pass
    if view.synced and not draft.state.started:
        start(draft)
    if draft.state.pause is not None:
        draft.set(pause=None, behind=False)
    plan(draft, view, plugins)
    if view.synced:
        raise_occasions(draft, view.roster)
        draft.ask()
        _set_timers(draft)
    stages = draft.stages()
    return Step(None if draft.state.knows_nothing else draft.state, stages)


def _rest(draft: Draft, rest: Pause) -> Step[JobState]:
    """Go on resting; the first change meanwhile starts the timer that ends it."""
    first = not draft.state.behind
    draft.set(pause=rest, behind=True)
    if first:
        _set_timers(draft)
    return Step(draft.state, draft.stages())


def _set_timers(draft: Draft) -> None:
    """Start and stop timers so that exactly those run that the state calls for."""
    wanted = {name: due for name, due in _due_times(draft.state).items() if due > draft.now}
    running = draft.state.timers
    if wanted == running:
        return
    draft.beside += [StopTimer(name=name) for name in sorted(running) if name not in wanted]
    draft.beside += [
        StartTimer(name=name, due=due, wake=_wake(draft.state) if name == GATE else ())
        for name, due in wanted.items()
        if running.get(name) != due
    ]
    draft.set(timers=wanted)


def _wake(state: JobState) -> tuple[Wake, ...]:
    return state.gate.hold.wake if state.gate is not None and state.gate.hold is not None else ()


def _due_times(state: JobState) -> dict[str, float]:
    """When to look again; delayed actions and holds count only once they are stored on the job."""
    if state.job is None:
        return {}
    times = {RETRY: state.retry_at, TICK: state.tick}
    if state.gate is not None and state.gate.hold is not None and not state.gate.number:
        times[GATE] = state.gate.due
    if state.pause is not None and state.behind:
        times[COUNTS] = state.pause.until
    if state.job.metadata.revision <= state.stale:
        times[CONFLICT] = state.stale_until
    if not has_times(state.job.status):
        return times
    ledger = read(state.job.status)
    if ledger.delayed:
        times[DELAYED] = min(item.due for item in ledger.delayed)
    if ledger.hold is not None:
        times[HELD] = ledger.hold.until
    return times
