"""Managed fields of creates and updates.

`terms` returns how writes to a resource are compared: the type in each version, and the fields they cannot write.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from typing import Any, Final

from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.apimachinery.served_resources import Registry
from volcanoio.localcluster.apiserver.apply import field_sets, managed_fields, managers, ownership
from volcanoio.localcluster.apiserver.apply.field_sets import FieldSet
from volcanoio.localcluster.apiserver.apply.managed_fields import Author, Owner, Owners
from volcanoio.localcluster.apiserver.apply.ownership import Terms
from volcanoio.localcluster.apiserver.apply.resource_types import builtin_type, custom_type
from volcanoio.localcluster.apiserver.apply.types import Type
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.model.base import Manifest

_STATUS: Final = field_sets.of(("f:status",))
_SPEC: Final = field_sets.of(("f:spec",))
_ALL_BUT_STATUS: Final = field_sets.of(("f:spec",), ("f:metadata",))

_RESET_BY_STATUS: Final[dict[str, FieldSet]] = {
    "pods": field_sets.of(("f:spec",), ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences")),
    "deployments.apps": field_sets.of(("f:spec",), ("f:metadata", "f:labels")),
    "volumeattachments.storage.k8s.io": _ALL_BUT_STATUS,
    "resourceclaims.resource.k8s.io": _ALL_BUT_STATUS,
}
"""Fields that a write to the status does not change, where that is more than the spec (Kubernetes: GetResetFields)."""

_SCHEMAS_KNOWN: Final = 256
_types: OrderedDict[tuple[int, bool], tuple[Any, Type]] = OrderedDict()


def terms(registry: Registry, resource: Resource, subresource: str = "", *, written: bool = False) -> Terms:
    """Return the terms of a write to a resource or its status.

    `written` as for `resource_types.named_type`.
    """
    reset = _reset(resource.name, resource.custom is not None, "status" in resource.subresources, subresource)

    def type_of(version: str) -> Type | None:
        if version == resource.api_version:
            return type_of_resource(resource, written=written)
        group, _, name = version.rpartition("/")
        other = registry.find(resource.group, name, resource.plural) if group == resource.group else None
        return None if other is None else type_of_resource(other, written=written)

    elsewhere = reset if subresource else {}
    return Terms(resource.api_version, type_of, reset, elsewhere, changing=resource.custom is not None)


def type_of_resource(resource: Resource, *, written: bool = False) -> Type:
    """Return the type of a resource in its version; types of schemas are cached."""
    if resource.custom is None:
        return builtin_type(resource.name, written=written)
    schema = resource.custom.schema
    key = id(schema), written
    known = _types.get(key)
    if known is None:  # a reference to the schema keeps its id unique
        known = _types[key] = (schema, custom_type(schema, written=written))
        if len(_types) > _SCHEMAS_KNOWN:
            _types.popitem(last=False)
    return known[1]


@cache
def _reset(name: str, custom: bool, has_status: bool, subresource: str) -> FieldSet:
    if subresource == "status":
        return _ALL_BUT_STATUS if custom else _RESET_BY_STATUS.get(name, _SPEC)
    return _STATUS if has_status and not subresource else {}


_SERVICES: Final = "services"
_ALLOCATED: Final = frozenset({"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"})


def created(core: Core, resource: Resource, obj: Manifest, manager: str) -> list[Manifest]:
    """Return the entries of a new object, complete with defaults, that `manager` creates.

    A client may send entries, for example when it copies an object.
    """
    brought = managed_fields.stated(obj["metadata"].get("managedFields"))
    empty: Manifest = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    owner = managed_fields.updater(manager, resource.api_version)
    return _updated(core, resource, (empty, bare(obj)), brought or {}, owner)


def updated(
    core: Core, resource: Resource, subresource: str, objects: tuple[Manifest, Manifest], sent: Manifest
) -> list[Manifest]:
    """Return the entries after an update of an object; empty when it is not tracked (any more).

    `objects` are the old and the new one, both complete with defaults; the new one has kept what the client cannot
    write, and is without managed fields. `sent` is the object as the client wrote it: owners in other versions are
    compared with it, as in Kubernetes.
    """
    old, new = objects
    known: Any = old["metadata"].get("managedFields")
    stated: Any = sent["metadata"].get("managedFields")
    found: Owners | None = None
    if stated is not None and not subresource and stated != known:
        if managed_fields.is_reset(stated):
            return []
        found = managed_fields.stated(stated)
    found = found or managed_fields.decode(known)
    if not found:
        return []
    if resource.name == _SERVICES:
        new = _unallocated(new, sent)
    if any(owned.version != resource.api_version for owned in found.values()):
        new = bare(sent)
    owner = managed_fields.updater(managers.current_manager(), resource.api_version, subresource)
    return _updated(core, resource, (bare(old), new), found, owner)


def _updated(
    core: Core, resource: Resource, objects: tuple[Manifest, Manifest], known: Owners, owner: Owner
) -> list[Manifest]:
    old, new = objects
    author = Author(owner, core.now())
    found = ownership.update(terms(core.registry, resource, owner.subresource), old, new, known, author)
    return managed_fields.encode(managed_fields.cap_updaters(found))


def _unallocated(service: Manifest, sent: Manifest) -> Manifest:
    """Return the Service without allocated fields that are missing in the update.

    The author does not own them.
    """
    said, spec = sent.get("spec"), service.get("spec")
    if not isinstance(said, dict) or not isinstance(spec, dict):
        return service
    return {**service, "spec": {key: one for key, one in spec.items() if key in said or key not in _ALLOCATED}}


def write(new: Manifest, old: Manifest, entries: list[Manifest]) -> None:
    """Set the entries of an updated object.

    Entries that differ in times only are kept as they were.
    """
    if not entries:
        return
    known = old["metadata"].get("managedFields")
    if known is not None:
        new["metadata"]["managedFields"] = known
        if new == old and managed_fields.same_but_times(entries, known):
            return
    new["metadata"]["managedFields"] = entries


def as_sent(obj: Manifest) -> Manifest:
    """Return a copy of the object as a client wrote it, before the server changes it.

    Parts are shared.

    The spec of a Service is copied too, because allocation writes into it.
    """
    sent = {**obj, "metadata": dict(obj["metadata"])}
    if obj.get("kind") == "Service" and isinstance(obj.get("spec"), dict):
        sent["spec"] = dict(obj["spec"])
    return sent


def bare(obj: Manifest) -> Manifest:
    """Return the object without its managed fields; parts are shared."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}
