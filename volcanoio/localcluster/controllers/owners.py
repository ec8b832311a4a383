"""Whose pods (or ReplicaSets) are whose: adoption and release (Kubernetes: controller_ref_manager.go)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from volcanoio.framework.effects import Patch, merge_diff
from volcanoio.localcluster.apiserver.selectors import matches_label_selector
from volcanoio.localcluster.controllers.frame.contract import Stage, Write
from volcanoio.localcluster.controllers.kinds import Workload
from volcanoio.localcluster.controllers.writes import patching
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind
from volcanoio.model.references import owner_reference

Object = TypeVar("Object", bound=ApiObject)


def selects(selector: Mapping[str, Any] | None, obj: ApiObject) -> bool:
    """Whether a LabelSelector selects the object; an empty one, as every workload's must not be, selects nothing."""
    return bool(selector) and matches_label_selector(selector, obj.metadata.labels)


def claim(
    owner: ApiObject,
    kind: Kind,
    selector: Mapping[str, Any] | None,
    owned_kind: Kind,
    owned: Iterable[Object],
    loose: Iterable[Object],
) -> tuple[list[Object], list[Write]]:
    """Those that belong to the owner, and the writes that adopt what it selects and release what it does not.

    What is to be adopted counts only once it is. An owner that is being deleted adopts nothing.
    """
    mine: list[Object] = []
    writes: list[Write] = []
    going = owner.metadata.deletion_timestamp is not None
    for obj in owned:
        if selects(selector, obj):
            mine.append(obj)
        elif not going:
            writes.append(
                _owners(owned_kind, obj, [one for one in _references(obj) if one["uid"] != owner.metadata.uid])
            )
    if not going:
        for obj in loose:
            if obj.metadata.deletion_timestamp is None and selects(selector, obj):
                others = [one for one in _references(obj) if one["uid"] != owner.metadata.uid]
                writes.append(_owners(owned_kind, obj, [*others, owner_reference(kind, owner)]))
    return mine, writes


def _references(obj: ApiObject) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(one) for one in obj.metadata.owner_references]


def _owners(kind: Kind, obj: ApiObject, references: list[dict[str, Any]]) -> Write:
    return patching(kind, obj, {"metadata": {"ownerReferences": references or None}})


def selector_of(workload: Workload) -> Mapping[str, Any] | None:
    """Its selector as a LabelSelector; that of a ReplicationController is the labels alone."""
    selector: Mapping[str, Any] | None = workload.spec.get("selector")
    if selector and not selector.keys() & {"matchLabels", "matchExpressions"}:
        return {"matchLabels": selector}
    return selector


def concerned(kind: Kind, workloads: Iterable[Workload], obj: ApiObject, previous: ApiObject | None) -> list[str]:
    """The keys of workloads of `kind` that a change of an object concerns: its controller's, or who may adopt it."""
    keys: list[str] = []
    for version in (obj, previous):
        if version is None:
            continue
        controller = version.metadata.controller
        if controller is None:
            keys += [one.metadata.key for one in workloads if selects(selector_of(one), version)]
        elif controller.kind == kind.kind and controller.api_version == kind.api_version:
            keys.append(f"{version.metadata.namespace}/{controller.name}")
    return list(dict.fromkeys(keys))


def status_stages(kind: Kind, obj: Workload, status: Manifest) -> tuple[Stage, ...]:
    """The write of a status that was computed from this version of the object; none where it says so already."""
    difference = merge_diff(obj.status, status)
    if not difference:
        return ()
    meta = obj.metadata
    patch = Patch(
        resource=kind.resource,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        subresource="status",
        patch={"status": difference},
    )
    return ((Write(patch),),)
