"""Observations into the state, and the lifecycle events that they are."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from volcanoio.engine.jobs import events, measures
from volcanoio.engine.jobs.draft import Draft
from volcanoio.engine.jobs.ledger import read
from volcanoio.engine.jobs.losses import vanished
from volcanoio.engine.jobs.overlay import Overlay
from volcanoio.engine.jobs.ownership import own_pods, task_of
from volcanoio.engine.jobs.pacing import has_room
from volcanoio.engine.jobs.plugins import SUPPORT_KINDS
from volcanoio.engine.jobs.roll import settled
from volcanoio.engine.jobs.state import JobState, Owned
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import Job
from volcanoio.model.command import Command
from volcanoio.model.core import Pod, ResourceQuota
from volcanoio.model.scheduling import PodGroup

_SUPPORTS = frozenset(kind.resource for kind in SUPPORT_KINDS)


def fold(draft: Draft, resource: str, obj: ApiObject, *, gone: bool) -> None:
    """Take in one object's newest state; an older one than known is ignored."""
    match obj:
        case Job():
            _fold_job(draft, obj, gone=gone)
        case Pod():
            _fold_pod(draft, obj, gone=gone)
        case PodGroup():
            _fold_group(draft, obj, gone=gone)
        case Command():
            draft.set(retry_at=0.0)
            _fold_into(draft, "commands", draft.state.commands, obj, obj, gone=gone)
        case _ if resource in _SUPPORTS:
            if gone:
                draft.set(made=draft.state.made - {f"{resource}/{obj.metadata.name}"})
            held = obj if resource != kinds.SECRET.resource else ApiObject(metadata=obj.metadata)
            _fold_into(draft, "supports", draft.state.supports, obj, Owned(resource, held), gone=gone)
        case ResourceQuota():
            denied = draft.state.pace.denied
            if denied is not None and (gone or has_room(obj, denied)) and _is_of(draft.state.job, obj):
                draft.set(retry_at=0.0)
        case _:  # a reference that the job looked up: what it waited for may be there
            draft.set(retry_at=0.0)


def _is_of(job: Job | None, quota: ResourceQuota) -> bool:
    return job is not None and quota.metadata.namespace == job.metadata.namespace


def start(draft: Draft) -> None:
    """The barrier is passed: raise what storage proves."""
    draft.set(started=True)
    _raise_from_storage(draft)


def _raise_from_storage(draft: Draft) -> None:
    state = draft.state
    if state.job is None or not state.started:
        return
    groups = sorted(state.groups.values(), key=lambda group: group.metadata.name)
    raised = events.from_storage(
        state.job, read(state.job.status), own_pods(state.job, state.pods), groups, draft.roster
    )
    draft.queue(raised, events.ASIDE)


def _fold_job(draft: Draft, job: Job, *, gone: bool) -> None:
    state = draft.state
    known = state.job
    if known is not None and known.metadata.uid == job.metadata.uid:
        if gone:
            draft.beside += measures.forgotten(known)
            draft.state = _without_job(state)
        elif job.metadata.revision > known.metadata.revision:
            changed = job.metadata.generation != known.metadata.generation
            draft.set(job=job, retry_at=0.0 if changed else state.retry_at)
            draft.beside += measures.entered(known, job)
            if changed and state.started:
                draft.queue(events.from_spec(known, job, own_pods(job, state.pods)), events.ASIDE)
        return
    if gone:
        return
    draft.state = msgspec.structs.replace(_without_job(state), job=job)
    _raise_from_storage(draft)


def _without_job(state: JobState) -> JobState:
    """The state without what was about one Job; objects, and writes without an outcome, stay."""
    return JobState(
        pods=state.pods,
        groups=state.groups,
        commands=state.commands,
        supports=state.supports,
        started=state.started,
        last_question=state.last_question,
        succeeded=state.succeeded,
        sent=state.sent,
        awaited=state.awaited,
        deleting=state.deleting,
        gone=state.gone,
        timers=state.timers,
    )


def _fold_pod(draft: Draft, pod: Pod, *, gone: bool) -> None:
    state = draft.state
    if state.roll is not None and state.pods.crowded:
        roll, pods = settled(state.roll, state.pods, state.deleting)
        draft.set(roll=roll, pods=pods)
        state = draft.state
    uid = pod.metadata.uid
    old = state.pods.get(uid)
    if not _fold_into(draft, "pods", state.pods, pod, pod, gone=gone):
        return
    _count_success(draft, old, None if gone else pod)
    deleted = uid in state.deleting
    if gone:
        vanished(draft, pod, ours=deleted)
    elif old is None:
        draft.set(retry_at=0.0)
    if state.job is None or not state.started:
        return
    raised = events.from_pod(
        state.job, old, None if gone else pod, draft.state.pods, deleted, draft.state.succeeded, draft.roster
    )
    draft.queue(raised, events.ASIDE)


def _count_success(draft: Draft, old: Pod | None, new: Pod | None) -> None:
    before = task_of(old) if old is not None and old.status.phase == "Succeeded" else None
    after = task_of(new) if new is not None and new.status.phase == "Succeeded" else None
    if before == after:
        return
    counts = dict(draft.state.succeeded)
    if before is not None:
        counts[before] -= 1
    if after is not None:
        counts[after] = counts.get(after, 0) + 1
    draft.set(succeeded={task: number for task, number in counts.items() if number})


def _fold_group(draft: Draft, group: PodGroup, *, gone: bool) -> None:
    state = draft.state
    old = state.groups.get(group.metadata.uid)
    if not _fold_into(draft, "groups", state.groups, group, group, gone=gone):
        return
    if gone:
        vanished(draft, group, ours=group.metadata.uid in state.deleting)
    elif old is None:
        draft.set(retry_at=0.0)
    if state.job is not None and state.started:
        draft.queue(events.from_group(state.job, old, None if gone else group), events.ASIDE)


def _fold_into(
    draft: Draft,
    field: str,
    objects: Mapping[str, ApiObject | Owned],
    obj: ApiObject,
    value: ApiObject | Owned,
    *,
    gone: bool,
) -> bool:
    """Put an object in or take it out; False when that changes nothing."""
    uid = obj.metadata.uid
    known = objects.get(uid)
    state = draft.state
    if gone:
        if state.writing:
            draft.set(gone=state.gone.plus((uid,)))
        if known is None:
            return False
        rest = objects.without((uid,)) if isinstance(objects, Overlay) else _without(objects, uid)
        draft.set(**{field: rest})
        if uid in state.deleting:
            draft.set(deleting=state.deleting.minus((uid,)))
        return True
    held = known.object if isinstance(known, Owned) else known
    if uid in state.gone or (held is not None and obj.metadata.revision <= held.metadata.revision):
        return False
    draft.set(**{field: objects.with_item(uid, value) if isinstance(objects, Overlay) else {**objects, uid: value}})
    return True


def _without(objects: Mapping[str, ApiObject | Owned], uid: str) -> dict[str, ApiObject | Owned]:
    return {key: held for key, held in objects.items() if key != uid}
