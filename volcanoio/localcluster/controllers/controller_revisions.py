"""ControllerRevisions, the numbered snapshots of a template, and the hash in the names of revisions and ReplicaSets.

Kubernetes: pkg/controller/history and pkg/util/hash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from volcanoio.framework.effects import Create, Delete, Patch
from volcanoio.framework.reconciler import Write
from volcanoio.localcluster.controllers.objects import CONTROLLER_REVISION, ControllerRevision, Workload
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import Kind, owner_reference

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_PRIME, _BASIS = 16777619, 2166136261


def short_hash(content: Any, collisions: int | None = None) -> str:
    """Return 32 bits (FNV-1a) of JSON with sorted keys as safe letters; `collisions` changes it."""
    data = msgspec.json.encode(content, order="deterministic")
    if collisions is not None:
        data += str(collisions).encode()
    value = _BASIS
    for byte in data:
        value = ((value ^ byte) * _PRIME) & 0xFFFFFFFF
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(value))


_LONGEST_NAME = 223


def snapshot(owner: Workload) -> Manifest:
    """Return the content of a revision: a patch that restores the template."""
    return {"spec": {"template": {**(owner.spec.get("template") or {}), "$patch": "replace"}}}


def template_of(revision: ControllerRevision) -> Mapping[str, Any]:
    """Return the template that a revision keeps."""
    template = (revision.data.get("spec") or {}).get("template") or {}
    return {key: value for key, value in template.items() if key != "$patch"}


def in_order(revisions: Sequence[ControllerRevision]) -> list[ControllerRevision]:
    """Return revisions, oldest first."""
    return sorted(revisions, key=lambda one: (one.revision, one.metadata.creation_timestamp or "", one.metadata.name))


def current_of(owner: Workload, revisions: Sequence[ControllerRevision]) -> ControllerRevision | None:
    """Return the newest revision that keeps the owner's template as it is now."""
    wanted = snapshot(owner)
    return next((one for one in reversed(in_order(revisions)) if one.data == wanted), None)


def next_number(revisions: Sequence[ControllerRevision]) -> int:
    """Return the number after all of them."""
    return max((one.revision for one in revisions), default=0) + 1


def creation(kind: Kind, owner: Workload, number: int, collisions: int, hash_label: str) -> Write:
    """Return the write of a new revision of the owner's template.

    `hash_label` is the label that holds its hash.
    """
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
    """Return the write that makes the revision of an older template the newest."""
    return Write(Patch.of(CONTROLLER_REVISION.resource, revision, {"revision": number}))


def surplus(revisions: Sequence[ControllerRevision], live: frozenset[str], limit: int) -> list[Write]:
    """Return the deletions of the oldest unused revisions beyond the limit."""
    idle = [one for one in in_order(revisions) if one.metadata.name not in live]
    return [Write(Delete.of(CONTROLLER_REVISION.resource, one)) for one in idle[: max(len(idle) - limit, 0)]]
