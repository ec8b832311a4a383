"""Resource overrides of policies for the tasks of a Job: how they are stored, and the resulting pod templates.

They are stored in `status.controlledResources`, so that the value, the counts and the intent of the action are one
write.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from volcanoio.model import names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec
from volcanoio.model.core import ResourceRequirements
from volcanoio.model.documents import decode_json

LEARNED_SUFFIX = "-learned"
"""Suffix of the ConfigMap, after the job's name, that keeps values for the next job of that name: JSON by task."""


class TaskOverride(msgspec.Struct, frozen=True, omit_defaults=True):
    """One stored override: resources by container of a task, or of one pod of it when `index` is given.

    With `keep` it is also stored for the next job of this name.
    """

    task: str
    resources: dict[str, ResourceRequirements]
    index: int | None = None
    attempts: int = 1
    keep: bool = False


def stored_overrides(job: Job) -> tuple[TaskOverride, ...]:
    """Return the overrides stored on a job; an unreadable value counts as none."""
    if not (text := job.status.controlled_resources.get(names.OVERRIDES)):
        return ()
    try:
        return decode_json(text, tuple[TaskOverride, ...])
    except msgspec.DecodeError:
        return ()


def add_override(overrides: tuple[TaskOverride, ...], new: TaskOverride) -> tuple[TaskOverride, ...]:
    """Return the overrides with a new one that replaces the one for the same pods, or the same tuple if it changes
    nothing.

    Two pods of a task that are killed at the same time lead to the same value twice: that is one attempt.
    """
    for old in overrides:
        if (old.task, old.index) == (new.task, new.index) and old.resources == new.resources:
            return overrides
    rest = [old for old in overrides if (old.task, old.index) != (new.task, new.index)]
    return tuple(sorted((*rest, new), key=lambda each: (each.task, -1 if each.index is None else each.index)))


def overridden_template(task: TaskSpec, overrides: tuple[TaskOverride, ...], index: int | None = None) -> Manifest:
    """Return the pod template of a task, or of one of its pods, with overrides applied; do not change it in place."""
    template = task.template
    for override in overrides:
        if override.task == task.name and override.index in (None, index):
            template = _with(template, override.resources)
    return template


def with_overrides(job: Job, overrides: tuple[TaskOverride, ...]) -> Job:
    """Return the job with its tasks' overrides applied, those of single pods excluded; the same object without any."""
    if not (of_tasks := tuple(override for override in overrides if override.index is None)):
        return job
    tasks = tuple(
        msgspec.structs.replace(task, template=overridden_template(task, of_tasks)) if _named(task, of_tasks) else task
        for task in job.spec.tasks
    )
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, tasks=tasks))


def parse_learned(data: Mapping[str, Any]) -> dict[str, dict[str, ResourceRequirements]]:
    """Parse the data of a learned ConfigMap, by task; unreadable entries are skipped."""
    found: dict[str, dict[str, ResourceRequirements]] = {}
    for task, text in data.items():
        try:
            found[task] = decode_json(text, dict[str, ResourceRequirements])
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
    if (given := resources.get(container.get("name") or "")) is None:
        return container
    return {**container, "resources": {**(container.get("resources") or {}), **_lists(given)}}


def _lists(given: ResourceRequirements) -> Manifest:
    return {"requests": dict(given.requests), "limits": dict(given.limits)}
