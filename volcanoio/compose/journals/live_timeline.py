"""Timeline of a job from a cluster: what its objects, conditions and Kubernetes Events still contain.

Times are in whole seconds, and what was deleted or overwritten is missing: a journal knows more (`timeline`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from volcanoio.compose.journals.timeline import (
    Entry,
    EntryKind,
    Timeline,
    UnknownJobError,
    disruption_text,
    end_text,
    minimum_text,
    restart_text,
    submitted_text,
)
from volcanoio.engine.jobs.pods.manifests import pod_name
from volcanoio.kube.client import Client
from volcanoio.kube.decoding import without_nulls
from volcanoio.kube.errors import NotFound
from volcanoio.model import core, kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup
from volcanoio.model.times import epoch_or_none

_SHOWN_BY_OBJECTS = frozenset({"Scheduled", "Evict", "Pulling", "Pulled", "Created", "Started"})
"""Reasons of Normal Events that say what conditions and container states say, too."""
_POD_ID = re.compile(r" (?:in|for) pod \S+\(\S+\)")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


async def read_timeline(client: Client, name: str, namespace: str = "default") -> Timeline:
    """Read the timeline of a Job from a cluster; raises UnknownJobError, ApiError and TransportError."""
    try:
        manifest = await client.get_raw(kinds.JOB, name, namespace)
    except NotFound:
        msg = (
            f"the cluster has no job {namespace}/{name}; name its namespace with -n, "
            "or a journal that has seen it with --journal"
        )
        raise UnknownJobError(msg) from None
    groups = [each for each in await client.list(kinds.POD_GROUP, namespace) if isinstance(each, PodGroup)]
    pods = await client.list(kinds.POD, namespace, label_selector=f"{names.JOB_NAME}={name}")
    events = await client.list(kinds.EVENT, namespace)
    return objects_timeline(
        manifest,
        groups,
        [each for each in pods if isinstance(each, Pod)],
        [each for each in events if isinstance(each, core.Event)],
    )


def objects_timeline(
    manifest: Manifest, groups: Iterable[PodGroup], pods: Sequence[Pod], events: Iterable[core.Event]
) -> Timeline:
    """Return what objects of a cluster show of a Job's past; others than its own are ignored."""
    job = msgspec.convert(without_nulls(manifest), Job)
    meta, found = job.metadata, list[Entry]()
    _put(found, meta.creation_timestamp, EntryKind.SUBMITTED, submitted_text(job))
    if added := _fields_by_admission(manifest):
        _put(found, meta.creation_timestamp, EntryKind.DEFAULTED, f"admission set {', '.join(added)}")
    for each in job.status.conditions:  # one for each phase, with the time it was last entered
        _put(found, each.last_transition_time, EntryKind.PHASE, f"phase {each.status}")
    own = [group for group in groups if any(owner.uid == meta.uid for owner in group.metadata.owner_references)]
    for group in own:
        text = f"PodGroup {group.metadata.name} created: {minimum_text(group)}"
        _put(found, group.metadata.creation_timestamp, EntryKind.GROUPED, text)
    mine = [pod for pod in pods if any(owner.uid == meta.uid for owner in pod.metadata.owner_references)]
    if first := min((pod.metadata.creation_timestamp or "" for pod in mine), default=""):
        _put(found, first, EntryKind.ENQUEUED, "admitted to its queue, at the latest now: its first pod was created")
    for pod in mine:
        _put_pod(found, pod)
    known = {meta.name, *(group.metadata.name for group in own), *(pod.metadata.name for pod in mine)}
    for event in events:
        if event.involved_object.name in known:
            _put_event(found, event, since=epoch_or_none(meta.creation_timestamp) or 0.0)
    order = {kind: number for number, kind in enumerate(EntryKind)}
    found.sort(key=lambda entry: (entry.at, order[entry.kind]))
    return Timeline(job=meta.key, uid=meta.uid, source="cluster", entries=tuple(found))


def belongs_to(job: Job | str) -> Callable[[str, str], bool]:
    """Return whether the object of a kind and name is a job, its PodGroup or one of its pods.

    For the name of a job that is not known any more, pods are recognised by the form of their names.
    """
    name = job if isinstance(job, str) else job.metadata.name
    pods = re.escape(name) + r"-.+-\d+"
    if isinstance(job, Job):
        pods = "|".join(rf"{re.escape(pod_name(job, task, ''))}\d+" for task in job.spec.tasks)
    patterns = {"Job": re.escape(name), "PodGroup": rf"{re.escape(name)}-[0-9a-f]{{8}}-[0-9a-f-]{{27}}", "Pod": pods}
    compiled = {kind: re.compile(pattern) for kind, pattern in patterns.items()}
    return lambda kind, of: kind in compiled and compiled[kind].fullmatch(of) is not None


def _put(found: list[Entry], time: str | None, kind: EntryKind, detail: str = "", **where: Any) -> None:
    """Add an entry if its time is known."""
    if (at := epoch_or_none(time)) is not None:
        found.append(Entry(at=at, kind=kind, detail=detail, **where))


def _put_pod(found: list[Entry], pod: Pod) -> None:
    """Add what one existing pod shows."""
    where: dict[str, Any] = {"pods": (pod.metadata.name,), "nodes": (pod.spec.node_name,) if pod.spec.node_name else ()}
    _put(found, pod.metadata.creation_timestamp, EntryKind.CREATED, pods=where["pods"])
    for each in pod.status.conditions:
        if each.type == "PodScheduled" and each.status == "True":
            _put(found, each.last_transition_time, EntryKind.BOUND, **where)
        elif each.type == "PodScheduled" and each.message:
            _put(found, each.last_transition_time, EntryKind.WAITING, f"waits: {each.message}")
        elif each.type == "DisruptionTarget" and each.status == "True":
            _put(found, each.last_transition_time, EntryKind.EVICTED, disruption_text(pod), **where)
    states = [each.state for each in pod.status.container_statuses]
    started = [str(each.running.get("startedAt", "")) for each in states if each.running]
    started += [each.terminated.started_at or "" for each in states if each.terminated]
    ended = [each.terminated.finished_at or "" for each in states if each.terminated]
    _put(found, min(filter(None, started), default=None), EntryKind.STARTED, **where)
    if text := restart_text(pod):
        lasts = [each.last_state.terminated for each in pod.status.container_statuses]
        times = [last.finished_at for last in lasts if last and last.finished_at] or started
        _put(found, max(times, default=None), EntryKind.NOTE, text, **where)
    if text := end_text(pod):
        _put(found, max(filter(None, ended), default=None), EntryKind.ENDED, text, **where)
    _put(found, pod.metadata.deletion_timestamp, EntryKind.DELETED, disruption_text(pod), pods=where["pods"])


def _put_event(found: list[Entry], event: core.Event, since: float) -> None:
    """Add a Kubernetes Event, unless an object shows the same or an earlier object of the name had it."""
    time = event.first_timestamp or event.last_timestamp or event.metadata.creation_timestamp
    if (epoch_or_none(time) or 0.0) < since or (event.type == "Normal" and event.reason in _SHOWN_BY_OBJECTS):
        return
    about, message = event.involved_object, event.message.strip()
    times = f" ({event.count} times)" if event.count > 1 else ""
    if about.kind == kinds.POD.kind and event.reason == "Evict":
        _put(found, time, EntryKind.EVICTED, message, pods=(about.name,))
    elif about.kind == kinds.POD.kind:
        text = f"{event.reason}: {_POD_ID.sub('', message)}{times}"
        _put(found, time, EntryKind.NOTE, text, pods=(about.name,))
    elif event.reason in ("ExecuteAction", "CommandIssued"):
        _put(found, time, EntryKind.ACTION, f"{event.reason}: {message}{times}")
    elif about.kind == kinds.POD_GROUP.kind and event.type == "Warning":
        _put(found, time, EntryKind.WAITING, f"waits: {message}{times}")
    else:
        _put(found, time, EntryKind.NOTE, f"{event.reason}: {message}{times}")


def _fields_by_admission(manifest: Manifest) -> list[str]:
    """Return fields of the spec that the manifest applied with kubectl did not have; [] if that is unknown."""
    text = ((manifest.get("metadata") or {}).get("annotations") or {}).get(_LAST_APPLIED)
    try:
        applied = msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        return []
    if not isinstance(applied, dict):
        return []
    return list(_added(applied.get("spec") or {}, manifest.get("spec") or {}, ""))


def _added(before: Any, after: Any, path: str) -> Iterator[str]:
    """Yield paths and values of scalars that only `after` has; templates of pods are compared as a whole."""
    if isinstance(after, dict):
        for key, value in after.items():
            at = f"{path}.{key}" if path else key
            if isinstance(before, dict) and key in before:
                yield from _added(before[key], value, at)
            elif not isinstance(value, dict | list):
                yield f"{at} {value}"
            elif value:
                yield at
    elif isinstance(after, list) and isinstance(before, list):
        for index, value in enumerate(after):
            yield from _added(before[index] if index < len(before) else None, value, f"{path}[{index}]")
