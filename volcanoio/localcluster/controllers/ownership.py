"""Adoption and release of pods and ReplicaSets by their owners (Kubernetes: controller_ref_manager.go)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from volcanoio.framework.effects import Patch, merge_diff
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import Stage, Write
from volcanoio.localcluster.apiserver.apimachinery.selectors import matches_label_selector
from volcanoio.localcluster.controllers.contract import patching
from volcanoio.localcluster.controllers.objects import Workload
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind, owner_reference

Object = TypeVar("Object", bound=ApiObject)


def selects(selector: Mapping[str, Any] | None, obj: ApiObject) -> bool:
    """Return whether a LabelSelector selects the object; an empty one selects nothing."""
    return bool(selector) and matches_label_selector(selector, obj.metadata.labels)


@dataclass(frozen=True, slots=True)
class Candidates(Generic[Object]):
    """Objects of a kind that an owner may claim.

    Those it controls, and those of its namespace without controller.
    """

    kind: Kind
    owned: Iterable[Object]
    orphans: Iterable[Object]

    @classmethod
    def of(cls, objects: Objects, owner: ApiObject, kind: Kind, type_: type[Object]) -> Candidates[Object]:
        """Read the candidates of an owner from the cache."""
        meta = owner.metadata
        return cls(kind, objects.controlled(kind, meta.uid, type_), objects.orphans(kind, meta.namespace, type_))


def claim(owner: Workload, kind: Kind, candidates: Candidates[Object]) -> tuple[list[Object], list[Write]]:
    """Return the objects of an owner, and the writes that change ownership.

    These adopt objects that it selects and release those that it does not.

    An object to adopt counts only once it is adopted. An owner that is being deleted adopts nothing.
    """
    selector = selector_of(owner)
    mine: list[Object] = []
    writes: list[Write] = []
    going = owner.metadata.deletion_timestamp is not None
    for obj in candidates.owned:
        if selects(selector, obj):
            mine.append(obj)
        elif not going:
            writes.append(
                _owners(candidates.kind, obj, [one for one in _references(obj) if one["uid"] != owner.metadata.uid])
            )
    if not going:
        for obj in candidates.orphans:
            if obj.metadata.deletion_timestamp is None and selects(selector, obj):
                others = [one for one in _references(obj) if one["uid"] != owner.metadata.uid]
                writes.append(_owners(candidates.kind, obj, [*others, owner_reference(kind, owner)]))
    return mine, writes


def _references(obj: ApiObject) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(one) for one in obj.metadata.owner_references]


def _owners(kind: Kind, obj: ApiObject, references: list[dict[str, Any]]) -> Write:
    return patching(kind, obj, {"metadata": {"ownerReferences": references or None}})


def selector_of(workload: Workload) -> Mapping[str, Any] | None:
    """Return the selector of a workload as a LabelSelector.

    A ReplicationController has plain labels.
    """
    selector: Mapping[str, Any] | None = workload.spec.get("selector")
    if selector and not selector.keys() & {"matchLabels", "matchExpressions"}:
        return {"matchLabels": selector}
    return selector


def affected_keys(kind: Kind, workloads: Iterable[Workload], obj: ApiObject, previous: ApiObject | None) -> list[str]:
    """Return the keys of workloads that a change of an object concerns.

    Its controller, or possible adopters.
    """
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
    """Return the write of a status computed from this version of the object.

    The result is none if it is unchanged.
    """
    difference = merge_diff(obj.status, status)
    if not difference:
        return ()
    patch = Patch.of(kind.resource, obj, {"status": difference}, at_version=True, subresource="status")
    return ((Write(patch),),)
