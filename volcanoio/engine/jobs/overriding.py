"""Overrides of policies: into the bookkeeping, into what the job wants, and into what its next namesake may learn."""

from __future__ import annotations

import msgspec

from volcanoio.engine.jobs.ledger import Ledger
from volcanoio.engine.jobs.state import JobState, WriteEffect
from volcanoio.framework.decisions import Override
from volcanoio.framework.effects import Create, Patch
from volcanoio.framework.overrides import LEARNED_SUFFIX, TaskOverride, added, stored, template_of
from volcanoio.model import kinds, names
from volcanoio.model.batch import Job, TaskSpec

MOST_SINGLE = 64
"""Overrides of single pods that a job holds: it has to stay small, whatever its policies learn."""
_CONFLICT, _NOT_FOUND = 409, 404


def is_new(job: Job, decision: Override) -> bool:
    """Whether an override says anything that is not stored on the job."""
    known = stored(job)
    return added(known, _entry(decision)) is not known


def entered(ledger: Ledger, decision: Override) -> Ledger:
    """The bookkeeping with an override; the same when it says nothing new.

    What is learned of one pod too many holds for its whole task from then on, in the place of all its single ones.
    """
    known, new = ledger.overrides, _entry(decision)
    overrides = added(known, new)
    if overrides is known:
        return ledger
    if new.index is not None and sum(1 for each in overrides if each.index is not None) > MOST_SINGLE:
        others = tuple(each for each in known if each.task != new.task or each.index is None)
        overrides = added(others, msgspec.structs.replace(new, index=None))
    return msgspec.structs.replace(ledger, overrides=overrides)


def for_pod(task: TaskSpec, index: int, overrides: tuple[TaskOverride, ...]) -> TaskSpec:
    """The task as one pod of it is to be made, with what is overridden for that pod alone."""
    own = tuple(each for each in overrides if each.task == task.name and each.index == index)
    return msgspec.structs.replace(task, template=template_of(task, own, index)) if own else task


def learned(job: Job, ledger: Ledger, state: JobState) -> tuple[dict[str, str], WriteEffect] | None:
    """What is to be kept for the next job of this name, and the write that does it; None when it was written.

    A fresh process writes it once more, which changes nothing.
    """
    data = {
        override.task: msgspec.json.encode(override.resources).decode()
        for override in ledger.overrides
        if override.keep and override.index is None
    }
    if data == state.learned:
        return None
    name, namespace = job.metadata.name + LEARNED_SUFFIX, job.metadata.namespace
    resource = kinds.CONFIG_MAP.resource
    if f"{resource}/{name}" in state.made:
        return data, Patch(resource=resource, namespace=namespace, name=name, patch={"data": data})
    manifest = {
        "apiVersion": kinds.CONFIG_MAP.api_version,
        "kind": kinds.CONFIG_MAP.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": {names.JOB_NAME: job.metadata.name}},
        "data": data,
    }
    return data, Create(resource=resource, manifest=manifest)


def refused(made: frozenset[str], effect: WriteEffect, code: int) -> frozenset[str] | None:
    """What exists, after a write of what is kept was refused; None for any other write."""
    key = f"{kinds.CONFIG_MAP.resource}/"
    if isinstance(effect, Create):
        name = str(effect.manifest["metadata"]["name"])
        ours = effect.resource == kinds.CONFIG_MAP.resource and "ownerReferences" not in effect.manifest["metadata"]
        return made | {key + name} if ours and code == _CONFLICT else (made if ours else None)
    if isinstance(effect, Patch) and effect.resource == kinds.CONFIG_MAP.resource and not effect.uid:
        return made - {key + effect.name} if code == _NOT_FOUND else made
    return None


def _entry(decision: Override) -> TaskOverride:
    return TaskOverride(
        task=decision.task,
        resources=decision.resources,
        index=decision.index,
        attempts=decision.attempts,
        keep=decision.keep,
    )
