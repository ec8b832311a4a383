"""Outcomes of our own writes: what is no longer in flight, what exists now, what has to wait.

The host gives ids in the order effects were emitted, so at the first outcome of a round the ids still in flight and
those of the event, sorted, stand for `state.sent`, item by item.
"""

from __future__ import annotations

from volcanoio.engine.jobs import measures, overriding
from volcanoio.engine.jobs.draft import Draft, key_of
from volcanoio.engine.jobs.folding import fold
from volcanoio.engine.jobs.overlay import Overlay
from volcanoio.engine.jobs.state import WriteEffect
from volcanoio.engine.jobs.uids import Uids
from volcanoio.engine.jobs.wanted import Problem
from volcanoio.framework.controller import View
from volcanoio.framework.effects import Create, Delete, Patch
from volcanoio.framework.events import EffectFailed, EffectSucceeded
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.core import Pod

FIRST_RETRY, LONGEST_RETRY = 0.2, 60.0
"""Seconds; each consecutive round of failures doubles the wait."""
NEWER_WITHIN = 5.0
"""Seconds in which a conflict's newer job comes. It is computed from the known one again where none does: a server, or
a webhook in front of it, may answer 409 for reasons of its own, and what the version forbids it refuses once more."""
CONFLICT = 409
_WRITES = (Create, Patch, Delete)
_MADE = frozenset({kinds.PVC.resource, kinds.CONFIG_MAP.resource, kinds.SERVICE.resource,
                   kinds.NETWORK_POLICY.resource, kinds.SECRET.resource})  # fmt: skip
_TEXTS: dict[tuple[type, str], tuple[str, str]] = {
    (Create, kinds.POD.resource): ("FailedCreate", "Error creating pods: "),
    (Delete, kinds.POD.resource): ("FailedDelete", "Error deleting pods: "),
    (Patch, kinds.POD.resource): ("FailedDelete", "Error deleting pods: "),
    (Create, kinds.PVC.resource): ("PVCError", "Failed to create PVC, err: "),
    (Create, kinds.POD_GROUP.resource): ("PodGroupError", "Failed to create PodGroup, err: "),
    (Patch, kinds.POD_GROUP.resource): ("PodGroupError", "Failed to update PodGroup, err: "),
    (Delete, kinds.POD_GROUP.resource): ("PodGroupError", "Failed to delete PodGroup, err: "),
    (Patch, kinds.JOB.resource): ("JobStatusError", "Failed to update job status, err: "),
    (Delete, kinds.COMMAND.resource): ("CommandIssued", "Failed to delete command, err: "),
}


def succeeded(draft: Draft, event: EffectSucceeded, view: View) -> None:
    """A write was carried out: its response is an observation like any other."""
    effect = _settle(draft, view, event.effect_id, ())
    if effect is None:
        return
    if isinstance(effect, Create) and effect.resource in _MADE:
        draft.set(made=draft.state.made | {key_of(effect)})
    if _is_job_status(effect):
        draft.set(carried=())
    if isinstance(effect, Create) and isinstance(event.obj, Pod):
        stamp, born = event.obj.metadata.creation_timestamp or "", draft.state.born
        draft.set(born={**born, stamp: born.get(stamp, 0) + 1})
    if event.obj is not None and not isinstance(effect, Delete):
        _fold_response(draft, event.obj)
    _end_round(draft)


def failed(draft: Draft, event: EffectFailed, view: View) -> None:
    """A write was refused: it leaves the plan, and a newer state or a back-off decides when to go on."""
    effect = _settle(draft, view, event.effect_id, (event.effect_id, *event.dropped))
    if effect is None:
        return
    if (made := overriding.refused(draft.state.made, effect, event.code)) is not None:
        anew = made != draft.state.made
        draft.set(learned={}, made=made, troubled=draft.state.troubled or not anew)
        if not anew:
            _report(draft, effect, event)
        _end_round(draft)
        return
    if _is_job_status(effect):
        draft.set(answers=(*draft.state.carried, *draft.state.answers), carried=())
    elif isinstance(effect, Patch) and effect.resource == kinds.JOB.resource:
        draft.set(annotations={**effect.patch["metadata"]["annotations"], **draft.state.annotations})
    if isinstance(effect, Patch) and effect.resource == kinds.JOB.resource and event.code == CONFLICT:
        refused = effect.resource_version
        revision = max(draft.state.stale, int(refused) if refused.isdigit() else -1)
        draft.set(stale=revision, stale_until=draft.now + NEWER_WITHIN)
    elif isinstance(effect, Create) and effect.resource in _MADE and event.code == CONFLICT:
        draft.set(made=draft.state.made | {key_of(effect)})
        _report(draft, effect, event)
    else:
        first = not draft.state.troubled
        draft.set(troubled=True)
        if event.code != CONFLICT or draft.state.failures > 1:
            problem = _problem(effect, event)
            if first:  # a stage of many, refused for the same reason, is told once
                draft.report("Warning", problem.reason, problem.message)
            if isinstance(effect, Create):
                known = draft.state.refusal or problem
                draft.set(refusal=min(known, problem, key=lambda each: each.message))
                _slow_down(draft, effect, event, view)
    _end_round(draft)


def _is_job_status(effect: WriteEffect) -> bool:
    return isinstance(effect, Patch) and effect.resource == kinds.JOB.resource and effect.subresource == "status"


def _settle(draft: Draft, view: View, effect_id: int, lost: tuple[int, ...]) -> WriteEffect | None:
    """Take an effect, and those lost with it, out of what was sent; None for one that is not of this round."""
    state = draft.state
    awaited = state.awaited
    if state.sent:
        numbers = {number for number, effect in view.in_flight.items() if isinstance(effect, _WRITES)}
        numbers |= {effect_id, *lost}
        if len(numbers) != len(state.sent):
            draft.set(sent=())
            return None
        awaited = Overlay(dict(zip(sorted(numbers), state.sent, strict=True)))
    effect: WriteEffect | None = awaited.get(effect_id)
    if effect is None:
        return None
    draft.set(sent=(), awaited=awaited.without((effect_id, *lost)))
    undone = {other.uid for number in lost if isinstance(other := awaited.get(number), Delete)}
    if undone:
        draft.set(deleting=state.deleting.minus(undone))
    return effect


def _end_round(draft: Draft) -> None:
    """When the last outcome of a round is in: go on at once, or back off if something failed."""
    state = draft.state
    if state.writing:
        return
    draft.set(pace=state.pace.after_round(bool(state.born)))
    if state.born and state.job is not None:
        draft.beside += measures.creation_latencies(state.job, state.born)
        draft.set(born={})
    if not state.troubled:
        draft.set(failures=state.failures if state.refusal else 0, gone=Uids())
        return
    wait = min(LONGEST_RETRY, FIRST_RETRY * 2.0**state.failures)
    draft.set(failures=state.failures + 1, retry_at=draft.now + wait, troubled=False, gone=Uids())


def _slow_down(draft: Draft, effect: Create, event: EffectFailed, view: View) -> None:
    """Try fewer pods at once, and hear of quotas where one refused them."""
    pace = draft.state.pace.after_refusal(effect, event.code, event.message)
    draft.set(pace=pace)
    if pace.denied is not None:
        view.lookup.all(kinds.RESOURCE_QUOTA)


def _report(draft: Draft, effect: WriteEffect, event: EffectFailed) -> None:
    problem = _problem(effect, event)
    draft.report("Warning", problem.reason, problem.message)


def _problem(effect: WriteEffect, event: EffectFailed) -> Problem:
    reason, text = _TEXTS.get((type(effect), effect.resource), ("PluginError", "Execute plugin failed, err: "))
    message = event.message or event.reason or "the outcome is unknown"
    return Problem(reason, f"{text}{message} ({key_of(effect)})")


def _fold_response(draft: Draft, obj: ApiObject) -> None:
    """Fold a response that did not already arrive as an observation."""
    kind = kinds.of(obj)
    if kind is not kinds.PVC and draft.state.revision_of(obj.metadata.uid) != obj.metadata.revision:
        fold(draft, kind.resource, obj, gone=False)
