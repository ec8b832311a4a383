"""Managed fields of the scale subresource: who owns an object's replicas is who owns its Scale's, and the reverse.

Kubernetes: apimachinery `managedfields` ScaleHandler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from volcanoio.localcluster.apiserver.apply import fieldset, owners, owning
from volcanoio.localcluster.apiserver.apply.builtin import named_type
from volcanoio.localcluster.apiserver.apply.fieldset import Path
from volcanoio.localcluster.apiserver.apply.owners import Owned, Owners
from volcanoio.localcluster.apiserver.apply.owning import Terms
from volcanoio.localcluster.apiserver.apply.types import Type
from volcanoio.model.base import Manifest

API_VERSION: Final = "autoscaling/v1"
KIND: Final = "Scale"
SUBRESOURCE: Final = "scale"
_REPLICAS: Final = fieldset.of(("f:spec", "f:replicas"))

ReplicasOf: TypeAlias = Callable[[str], Path | None]
"""Where an object's replicas are in an apiVersion; empty where that has no scale, None where it is not served."""


def scale_terms(*, written: bool = False) -> Terms:
    """The terms of a write to a Scale."""

    def type_of(version: str) -> Type | None:
        return named_type("V1Scale", written=written) if version == API_VERSION else None

    return Terms(API_VERSION, type_of, {})


def steps(json_path: str) -> Path:
    """A path such as `.spec.replicas`, as steps."""
    return tuple(f"f:{name}" for name in json_path.lstrip(".").split("."))


def to_scale(parents: Owners, replicas_of: ReplicasOf) -> Owners:
    """The owners of a Scale, from those of its object."""
    found: Owners = {}
    for owner, owned in parents.items():
        path = replicas_of(owned.version)
        if path and fieldset.contains(owned.fields, path):
            version = API_VERSION if owner.operation == "Update" else ""
            found[owner._replace(version=version)] = Owned(_REPLICAS, API_VERSION, owned.time)
    return found


def updated(live: Manifest, new: Manifest, known: Owners, manager: str, now: str) -> Owners:
    """The owners of a Scale after an update of it; nobody's when it was nobody's."""
    if not known:
        return {}
    return owning.update(scale_terms(), live, new, known, owners.updater(manager, API_VERSION, SUBRESOURCE), now)


def to_parent(parents: Owners, scales: Owners, replicas_of: ReplicasOf, version: str) -> list[Manifest]:
    """metadata.managedFields of an object in `version`, from its owners before and those of its Scale now.

    An updater whose replicas nobody took has two entries afterwards, as in Kubernetes, which tells them apart by the
    Scale's version while it does this.
    """
    left, pairs = dict(scales), []
    for owner, owned in parents.items():
        path = replicas_of(owned.version)
        if path is None:
            continue
        if not path or not fieldset.contains(owned.fields, path) or owner in left:
            pairs.append((owner, owned))
            if path:
                left.pop(owner, None)
        elif fields := fieldset.difference(owned.fields, fieldset.of(path)):
            pairs.append((owner, owned._replace(fields=fields)))
    own_path = replicas_of(version)
    for owner, owned in left.items():
        if own_path and fieldset.contains(owned.fields, ("f:spec", "f:replicas")):
            known = parents.get(owner)
            time = known.time if known else ""
            pairs.append((owner, Owned(fieldset.of(own_path), version, time)))
    return owners.encode_pairs(pairs)
