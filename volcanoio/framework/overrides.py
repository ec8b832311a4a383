"""Resources that a policy's Override gave to tasks of a Job: how they are stored on it, and what its pods then are.

Stored in `status.controlledResources`, so that the value, the counts and the intent of the action are one write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from volcanoio.model import names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec
from volcanoio.model.core import ResourceRequirements

LEARNED_SUFFIX = "-learned"
"""A ConfigMap of the job's name and this holds what is kept for the next job of the name: by task, as JSON."""


class TaskOverride(msgspec.Struct, frozen=True, omit_defaults=True):
    """One stored override: resources by container of a task, or of one pod of it when `index` is given.

    With `keep` the next job of this name finds them.
    """

    task: str
    resources: dict[str, ResourceRequirements]
    index: int | None = None
    attempts: int = 1
    keep: bool = False


def stored(job: Job) -> tuple[TaskOverride, ...]:
    """The overrides stored on a job; what somebody garbled counts as absent."""
    text = job.status.controlled_resources.get(names.OVERRIDES)
    if not text:
        return ()
    try:
        return msgspec.json.decode(text, type=tuple[TaskOverride, ...])
    except msgspec.DecodeError:
        return ()


def added(overrides: tuple[TaskOverride, ...], new: TaskOverride) -> tuple[TaskOverride, ...]:
    """The overrides with a new one in the place of the one for the same pods; the very same when it says nothing new.

    Two pods of a task that were killed together lead to the same value twice: it is one attempt.
    """
    for old in overrides:
        if (old.task, old.index) == (new.task, new.index) and old.resources == new.resources:
            return overrides
    rest = [old for old in overrides if (old.task, old.index) != (new.task, new.index)]
    return tuple(sorted((*rest, new), key=lambda each: (each.task, -1 if each.index is None else each.index)))


def template_of(task: TaskSpec, overrides: tuple[TaskOverride, ...], index: int | None = None) -> Manifest:
    """The pod template of a task, or of one of its pods, with what overrides say; not to be changed in place."""
    template = task.template
    for override in overrides:
        if override.task == task.name and override.index in (None, index):
            template = _with(template, override.resources)
    return template


def effective(job: Job, overrides: tuple[TaskOverride, ...]) -> Job:
    """The job as its tasks' overrides make it; overrides of single pods are not in it. The same job without any."""
    of_tasks = tuple(override for override in overrides if override.index is None)
    if not of_tasks:
        return job
    tasks = tuple(
        msgspec.structs.replace(task, template=template_of(task, of_tasks)) if _named(task, of_tasks) else task
        for task in job.spec.tasks
    )
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, tasks=tasks))


def learned(data: Mapping[str, Any]) -> dict[str, dict[str, ResourceRequirements]]:
    """What a learned ConfigMap's data says, by task; what somebody garbled is left out."""
    found: dict[str, dict[str, ResourceRequirements]] = {}
    for task, text in data.items():
        try:
            found[task] = msgspec.json.decode(text, type=dict[str, ResourceRequirements])
        except (msgspec.DecodeError, TypeError):
            continue
    return found


def _named(task: TaskSpec, overrides: tuple[TaskOverride, ...]) -> bool:
    return any(override.task == task.name for override in overrides)


def _with(template: Manifest, resources: Mapping[str, ResourceRequirements]) -> Manifest:
    spec: Manifest = dict(template.get("spec") or {})
    for part in ("initContainers", "containers"):
        if part in spec:
            spec[part] = [_container(container, resources) for container in spec[part] or ()]
    return {**template, "spec": spec}


def _container(container: Manifest, resources: Mapping[str, ResourceRequirements]) -> Manifest:
    given = resources.get(container.get("name") or "")
    if given is None:
        return container
    return {**container, "resources": {**(container.get("resources") or {}), **_lists(given)}}


def _lists(given: ResourceRequirements) -> Manifest:
    return {"requests": dict(given.requests), "limits": dict(given.limits)}
