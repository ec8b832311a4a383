"""What a write to a resource is measured by: its type in each version, and the fields it cannot write."""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from typing import Any, Final

from volcanoio.localcluster.apiserver.apply import fieldset
from volcanoio.localcluster.apiserver.apply.builtin import builtin_type
from volcanoio.localcluster.apiserver.apply.custom import custom_type
from volcanoio.localcluster.apiserver.apply.fieldset import FieldSet
from volcanoio.localcluster.apiserver.apply.owning import Terms
from volcanoio.localcluster.apiserver.apply.types import Type
from volcanoio.localcluster.apiserver.registry import Registry
from volcanoio.localcluster.apiserver.resources import Resource

_STATUS: Final = fieldset.of(("f:status",))
_SPEC: Final = fieldset.of(("f:spec",))
_ALL_BUT_STATUS: Final = fieldset.of(("f:spec",), ("f:metadata",))

_RESET_BY_STATUS: Final[dict[str, FieldSet]] = {
    "pods": fieldset.of(("f:spec",), ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences")),
    "deployments.apps": fieldset.of(("f:spec",), ("f:metadata", "f:labels")),
    "volumeattachments.storage.k8s.io": _ALL_BUT_STATUS,
    "resourceclaims.resource.k8s.io": _ALL_BUT_STATUS,
}
"""What a write to the status leaves as it is, where that is more than the spec (Kubernetes: GetResetFields)."""

_SCHEMAS_KNOWN: Final = 256
_types: OrderedDict[tuple[int, bool], tuple[Any, Type]] = OrderedDict()


def terms(registry: Registry, resource: Resource, subresource: str = "", *, written: bool = False) -> Terms:
    """The terms of a write to a resource or its status; `written` as for `builtin.named_type`."""
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
    """The type of a resource in its version; that of a schema is made once."""
    if resource.custom is None:
        return builtin_type(resource.name, written=written)
    schema = resource.custom.schema
    key = id(schema), written
    known = _types.get(key)
    if known is None:  # the schema is kept with it, so that its id stays its own
        known = _types[key] = (schema, custom_type(schema, written=written))
        if len(_types) > _SCHEMAS_KNOWN:
            _types.popitem(last=False)
    return known[1]


@cache
def _reset(name: str, custom: bool, has_status: bool, subresource: str) -> FieldSet:
    if subresource == "status":
        return _ALL_BUT_STATUS if custom else _RESET_BY_STATUS.get(name, _SPEC)
    return _STATUS if has_status and not subresource else {}
