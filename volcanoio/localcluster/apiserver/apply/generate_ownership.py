"""Writes data/field_ownership.json: how the fields of built-in kinds are owned, from OpenAPI v3.

The zero values that Go writes are read from data/protobuf.json. Run it after `generate_types`, against a Kubernetes of
the same version: `python -m volcanoio.localcluster.apiserver.apply.generate_ownership DIRECTORY`, where DIRECTORY holds
the answers of `kubectl get --raw /openapi/v3/GROUP` as files, one for each group version, under any names.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from volcanoio.localcluster.apiserver.apimachinery.served_resources import BUILTINS
from volcanoio.localcluster.apiserver.schema.builtin_types import type_table

TARGET = Path(__file__).parents[1] / "data" / "field_ownership.json"
_SCALARS = frozenset({"str", "int", "float", "bool", "quantity", "intorstring", "any"})


NEWER: dict[str, dict[str, Any]] = {
    "lists": {
        "V1beta1PodGroupSpec": {"resourceClaims": "map name"},
        "V1beta1PodGroupStatus": {"conditions": "map type", "resourceClaimStatuses": "map name"},
        "V1beta1PodGroupTemplate": {"resourceClaims": "map name"},
        "V1beta1WorkloadSpec": {"podGroupTemplates": "map name"},
    },
    "keys": {
        "V1beta1PodGroupResourceClaim": {"name": ""},
        "V1beta1PodGroupResourceClaimStatus": {"name": ""},
        "V1beta1PodGroupTemplate": {"name": ""},
    },
    "present": {
        "V1beta1GangSchedulingPolicy": {"minCount": 0},
        "V1beta1PodGroup": {"metadata": {}, "spec": {}, "status": {}},
        "V1beta1PodGroupResourceClaim": {"name": ""},
        "V1beta1PodGroupResourceClaimStatus": {"name": ""},
        "V1beta1PodGroupSpec": {"schedulingPolicy": {}},
        "V1beta1PodGroupTemplate": {"name": "", "schedulingPolicy": {}},
        "V1beta1TopologyConstraint": {"key": ""},
        "V1beta1TypedLocalObjectReference": {"kind": "", "name": ""},
        "V1beta1Workload": {"metadata": {}, "spec": {}},
        "V1beta1WorkloadReference": {"templateName": "", "workloadName": ""},
    },
    "omitted": {
        "V1beta1PodGroupSchedulingConstraints": ["topology"],
        "V1beta1PodGroupSpec": ["priorityClassName", "resourceClaims"],
        "V1beta1PodGroupStatus": ["conditions", "resourceClaimStatuses"],
        "V1beta1PodGroupTemplate": ["priorityClassName", "resourceClaims"],
        "V1beta1TypedLocalObjectReference": ["apiGroup"],
    },
}
"""What `table` would return for the types of Kubernetes 1.37 that are listed in `generate_types.NEWER`."""


def main() -> None:
    """Write the table."""
    schemas: dict[str, Any] = {}
    for path in sorted(Path(sys.argv[1]).iterdir()):
        schemas |= msgspec.json.decode(path.read_bytes()).get("components", {}).get("schemas", {})
    found = table(schemas)
    for section, types in NEWER.items():
        found[section] |= types
    TARGET.write_bytes(msgspec.json.format(msgspec.json.encode(found, order="sorted"), indent=1) + b"\n")


def table(schemas: dict[str, Any]) -> dict[str, Any]:
    """Build the table.

    `lists`: type → field → `set` or `map KEY KEY…`; `atomic`: type → map fields that are one value. `keys`: type →
    field → its default, of fields that are keys of lists; `present`: type → field → its value when unset, for fields
    that Go always writes; `omitted`: type → fields that Go leaves out when they are zero or empty.
    """
    messages = _messages()
    by_kind = {
        (one["group"], one["version"], one["kind"]): name
        for name, schema in schemas.items()
        for one in schema.get("x-kubernetes-group-version-kind") or ()
    }
    types = type_table()
    todo: list[tuple[str, str]] = [
        (types.resources[one.name], by_kind[one.group, one.version, one.kind])
        for one in BUILTINS
        if one.name in types.resources and (one.group, one.version, one.kind) in by_kind
    ]
    todo.append(("V1Scale", "io.k8s.api.autoscaling.v1.Scale"))
    found: dict[str, dict[str, Any]] = {"lists": {}, "atomic": {}, "keys": {}, "present": {}, "omitted": {}}
    done: set[str] = set()
    while todo:
        type_, name = todo.pop()
        if type_ in done:
            continue
        done.add(type_)
        schema = schemas[name]
        required = set(schema.get("required") or ())
        for field, kind in sorted(types.types[type_].items()):
            prop = schema["properties"].get(field)
            if prop is None:
                continue
            inner = kind.rpartition("[")[2].rstrip("]")
            reference = _reference(prop)
            if inner not in _SCALARS and reference:
                todo.append((inner, reference))
            _note(found, type_, field, _list_kind(prop))
            if not kind.startswith("list[") and "atomic" in {_map(prop), _map(schemas.get(reference, {}))}:
                found["atomic"].setdefault(type_, []).append(field)
            if "default" in prop and inner in _SCALARS:
                found["keys"].setdefault(type_, {})[field] = prop["default"]
            rule = messages.get(".".join(name.split(".")[-3:]), {}).get(field, "")
            _note_zero(found, type_, field, rule, is_required=field in required)
    _keep_keys_alone(found)
    return found


def _note_zero(found: dict[str, dict[str, Any]], type_: str, field: str, rule: str, *, is_required: bool) -> None:
    """Note how Go writes the zero value of a field."""
    if rule in _ZERO:
        found["present"].setdefault(type_, {})[field] = _ZERO[rule]
    elif rule == _LIST and (is_required or f"{type_}.{field}" in _WRITTEN_LISTS):
        found["present"].setdefault(type_, {})[field] = None
    elif rule == _LIST or rule.endswith(" nonzero"):
        found["omitted"].setdefault(type_, []).append(field)


_WRITTEN_LISTS = {
    *("V1ClusterRole.rules", "V1Role.rules", "V1EndpointSlice.endpoints", "V1EndpointSlice.ports"),
    *("V1CustomResourceDefinitionStatus.conditions", "V1CustomResourceDefinitionStatus.storedVersions"),
    *("V2HorizontalPodAutoscalerStatus.currentMetrics", "V1ProjectedVolumeSource.sources", "V1ContainerImage.names"),
    *("V1DeviceClaim.requests", "V1AllocatedDeviceStatus.conditions", "V1CSINodeDriver.topologyKeys"),
}
"""Lists that Go writes when they are empty (no omitempty in k8s.io/api), although OpenAPI does not require them."""

_LIST = "list given"
_ZERO: dict[str, Any] = {
    "string always": "",
    "int always": 0,
    "bool always": False,
    "struct always": {},
    "null always": None,
}


def _messages() -> dict[str, dict[str, str]]:
    """Return message → field → (kind of the value, form of its zero value).

    Includes inlined messages.
    """
    path = Path(__file__).parents[1] / "data" / "protobuf.json"
    raw: dict[str, dict[str, str]] = msgspec.json.decode(path.read_bytes())["messages"]

    def read(message: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for text in raw[message].values():
            field, kind, rule = text.split()
            if field == "-":
                found |= read(kind)
            elif kind.startswith(("[]", "map[")) or kind == "bytes":
                found[field] = f"list {rule}"
            elif kind in {"Time", "MicroTime", "Raw"}:
                found[field] = f"null {rule}"
            elif kind == "IntOrString":
                found[field] = f"int {rule}"
            elif kind in raw:
                found[field] = f"struct {rule}"
            else:
                found[field] = f"{kind} {rule}"
        return found

    return {message: read(message) for message in raw}


def _note(found: dict[str, dict[str, Any]], type_: str, field: str, list_kind: str) -> None:
    if list_kind:
        found["lists"].setdefault(type_, {})[field] = list_kind


def _keep_keys_alone(found: dict[str, dict[str, Any]]) -> None:
    """Drop defaults of fields that are not keys of lists."""
    types = type_table().types
    needed: dict[str, set[str]] = {}
    for type_, fields in found["lists"].items():
        for field, text in fields.items():
            item = types[type_][field].removeprefix("list[").removesuffix("]")
            needed.setdefault(item, set()).update(text.split()[1:])
    kept = {
        type_: {field: value for field, value in fields.items() if field in needed.get(type_, ())}
        for type_, fields in found["keys"].items()
    }
    found["keys"] = {type_: fields for type_, fields in kept.items() if fields}


def _reference(prop: dict[str, Any]) -> str:
    """Return the name of the schema of a property, of its items or of its values."""
    for holder in (prop, prop.get("items"), prop.get("additionalProperties")):
        if isinstance(holder, dict):
            if isinstance(holder.get("items"), dict):
                holder = holder["items"]
            for one in (holder, *holder.get("allOf", ())):
                if "$ref" in one:
                    return str(one["$ref"]).rpartition("/")[2]
    return ""


def _map(schema: dict[str, Any]) -> str:
    return str(schema.get("x-kubernetes-map-type", ""))


def _list_kind(prop: dict[str, Any]) -> str:
    """Return `set` or `map` with its keys; empty for atomic lists and other values."""
    if prop.get("type") != "array":
        return ""
    stated = prop.get("x-kubernetes-list-type")
    if stated == "map":
        return " ".join(["map", *prop["x-kubernetes-list-map-keys"]])
    if stated is not None:
        return "set" if stated == "set" else ""
    if "merge" in str(prop.get("x-kubernetes-patch-strategy", "")).split(","):
        key = prop.get("x-kubernetes-patch-merge-key")
        return f"map {key}" if key else "set"
    return ""


if __name__ == "__main__":
    main()
