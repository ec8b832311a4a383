"""Objects that job plugins and volumes need: what to create, bring up to date or delete.

Created while the job is Pending, those that follow the spec also while it runs; removed once the job stops, as in
Volcano. Unlike there they outlive a restart of pods, so that live pods keep their host files and ssh keys.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from volcanoio.engine.jobs.claims import Mount
from volcanoio.engine.jobs.ownership import belongs
from volcanoio.engine.jobs.plugins import CONTENT, MADE_BY, Wish
from volcanoio.engine.jobs.state import Owned, WriteEffect
from volcanoio.framework.controller import Lookup
from volcanoio.framework.effects import Create, Delete, Patch, merge_diff
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.batch import Job, JobPhase

_CONTENT = ("data", "spec")


def keyed(job: Job, supports: Mapping[str, Owned]) -> dict[str, Owned]:
    """The job's own support objects by `resource/name`."""
    return {
        f"{owned.resource}/{owned.object.metadata.name}": owned
        for owned in supports.values()
        if belongs(owned.object.metadata, job)
    }


def support_effects(
    job: Job,
    phase: JobPhase,
    wishes: Sequence[Wish],
    there: Mapping[str, Owned],
    made: frozenset[str],
    deleting: Container[str],
) -> list[WriteEffect]:
    """What brings the support objects of a Pending or Running job in line; those no plugin wishes for any more go."""
    wished = {wish.key for wish in wishes}
    unwished = {key: owned for key, owned in there.items() if key not in wished and _is_made(owned)}
    effects = _deletes(job, unwished, deleting)
    for wish in wishes:
        support = wish.support
        owned = there.get(wish.key)
        if owned is None:
            if wish.key not in made and (support.update or phase is JobPhase.PENDING):
                effects.append(Create(resource=support.resource, manifest=support.manifest, fill=support.fill))
        elif support.update and (patch := _drift(owned.object, support.manifest)):
            meta = owned.object.metadata
            effects.append(
                Patch(
                    resource=support.resource,
                    namespace=job.metadata.namespace,
                    name=meta.name,
                    patch=patch,
                    uid=meta.uid,
                )
            )
    return effects


def removals(
    job: Job, wishes: Iterable[Wish], supports: Mapping[str, Owned], deleting: Container[str]
) -> list[WriteEffect]:
    """Deletes of every support object of a stopping job, also of those that Volcano made."""
    wished = {wish.key for wish in wishes}
    there = keyed(job, supports).items()
    return _deletes(job, {key: owned for key, owned in there if key in wished or _is_made(owned)}, deleting)


def _is_made(owned: Owned) -> bool:
    """Whether a plugin wished for the object; a job may own others, which somebody else made."""
    return MADE_BY in owned.object.metadata.annotations


def _deletes(job: Job, there: Mapping[str, Owned], deleting: Container[str]) -> list[WriteEffect]:
    return [
        Delete(
            resource=owned.resource,
            namespace=job.metadata.namespace,
            name=owned.object.metadata.name,
            uid=owned.object.metadata.uid,
        )
        for _, owned in sorted(there.items())
        if owned.object.metadata.deletion_timestamp is None and owned.object.metadata.uid not in deleting
    ]


def claim_effects(job: Job, mounts: Iterable[Mount], lookup: Lookup, made: frozenset[str]) -> list[WriteEffect]:
    """Creates of the job's own claims that are absent."""
    return [
        Create(resource=kinds.PVC.resource, manifest=mount.manifest)
        for mount in mounts
        if mount.manifest is not None
        and f"{kinds.PVC.resource}/{mount.claim}" not in made
        and lookup.get(kinds.PVC, mount.claim, job.metadata.namespace) is None
    ]


def missing_claim(job: Job, mounts: Iterable[Mount], lookup: Lookup) -> str:
    """The first claim that the user has to bring and that is not there; "" when none is missing."""
    for mount in mounts:
        needed = mount.claim and mount.manifest is None
        if needed and lookup.get(kinds.PVC, mount.claim, job.metadata.namespace) is None:
            return mount.claim
    return ""


def _drift(there: ApiObject, wanted: Manifest) -> Manifest:
    """What of the wanted content differs. Data is ours whole; a spec may hold defaults of the server beside ours.

    Of a Secret only the digest is seen, and the data are added to those it has.
    """
    digest = wanted["metadata"].get("annotations", {}).get(CONTENT)
    if digest is not None:
        if there.metadata.annotations.get(CONTENT) == digest:
            return {}
        return {"metadata": {"annotations": {CONTENT: digest}}, "data": wanted["data"]}
    patch: Manifest = {}
    for part in _CONTENT:
        want, have = wanted.get(part), getattr(there, part, None)
        if want is None or have is None:
            continue
        changes = merge_diff(have, want)
        if part == "spec":
            changes = {name: value for name, value in changes.items() if value is not None}
        if changes:
            patch[part] = changes
    return patch
