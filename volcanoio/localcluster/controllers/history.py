"""ControllerRevisions: numbered snapshots of a template (Kubernetes: pkg/controller/history)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from volcanoio.framework.effects import Create, Delete, Patch
from volcanoio.localcluster.controllers.frame.contract import Write
from volcanoio.localcluster.controllers.hashing import short_hash
from volcanoio.localcluster.controllers.kinds import CONTROLLER_REVISION, ControllerRevision, Workload
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import Kind
from volcanoio.model.references import owner_reference

_LONGEST_NAME = 223


def snapshot(owner: Workload) -> Manifest:
    """What a revision keeps: a patch that puts the template back."""
    return {"spec": {"template": {**(owner.spec.get("template") or {}), "$patch": "replace"}}}


def template_of(revision: ControllerRevision) -> Mapping[str, Any]:
    """The template that a revision keeps."""
    template = (revision.data.get("spec") or {}).get("template") or {}
    return {key: value for key, value in template.items() if key != "$patch"}


def in_order(revisions: Sequence[ControllerRevision]) -> list[ControllerRevision]:
    """Oldest first."""
    return sorted(revisions, key=lambda one: (one.revision, one.metadata.creation_timestamp or "", one.metadata.name))


def current_of(owner: Workload, revisions: Sequence[ControllerRevision]) -> ControllerRevision | None:
    """The newest revision that keeps the owner's template as it is now."""
    wanted = snapshot(owner)
    return next((one for one in reversed(in_order(revisions)) if one.data == wanted), None)


def next_number(revisions: Sequence[ControllerRevision]) -> int:
    """The number after all of them."""
    return max((one.revision for one in revisions), default=0) + 1


def creation(kind: Kind, owner: Workload, number: int, collisions: int, hash_label: str) -> Write:
    """The write of a new revision of the owner's template; `hash_label` is the label that holds its hash."""
    data = snapshot(owner)
    text = short_hash(data, collisions or None)
    meta = owner.metadata
    labels = ((owner.spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    manifest: Manifest = {
        "apiVersion": CONTROLLER_REVISION.api_version,
        "kind": CONTROLLER_REVISION.kind,
        "metadata": {
            "name": f"{meta.name[:_LONGEST_NAME]}-{text}",
            "namespace": meta.namespace,
            "labels": {**labels, hash_label: text},
            "annotations": dict(meta.annotations),
            "ownerReferences": [owner_reference(kind, owner)],
        },
        "data": data,
        "revision": number,
    }
    return Write(Create(resource=CONTROLLER_REVISION.resource, manifest=manifest))


def renumbering(revision: ControllerRevision, number: int) -> Write:
    """An older template is in force again: its revision becomes the newest."""
    meta = revision.metadata
    return Write(
        Patch(
            resource=CONTROLLER_REVISION.resource,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            patch={"revision": number},
        )
    )


def surplus(revisions: Sequence[ControllerRevision], live: frozenset[str], limit: int) -> list[Write]:
    """Deletions of the oldest revisions that nobody uses, as many as there are beyond the limit."""
    idle = [one for one in in_order(revisions) if one.metadata.name not in live]
    return [
        Write(
            Delete(
                resource=CONTROLLER_REVISION.resource,
                namespace=one.metadata.namespace,
                name=one.metadata.name,
                uid=one.metadata.uid,
            )
        )
        for one in idle[: max(len(idle) - limit, 0)]
    ]
