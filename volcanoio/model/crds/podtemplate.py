"""core/v1 PodTemplateSpec, PersistentVolumeClaimSpec and LabelSelector as structural schemas.

Generated from the models of the installed kubernetes_asyncio, whose fields follow the Kubernetes API of that release.
What the models do not say stands in the tables below: quantities, int-or-string, 64-bit integers, and the keys of lists
that server-side apply merges by name (Kubernetes: `listType=map` markers in `k8s.io/api/core/v1/types.go`).
Metadata inside a template keeps five fields, as in Volcano's CRDs (controller-gen `generateEmbeddedObjectMeta`).
"""

from __future__ import annotations

import re
from functools import cache
from types import SimpleNamespace
from typing import Any

from kubernetes_asyncio.client import models

Schema = dict[str, Any]

_QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
INT_OR_STRING: Schema = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
QUANTITY: Schema = {**INT_OR_STRING, "pattern": _QUANTITY_PATTERN}
RESOURCE_LIST: Schema = {"type": "object", "additionalProperties": QUANTITY}
STRING_MAP: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
EMBEDDED_METADATA: Schema = {
    "type": "object",
    "properties": {
        "annotations": STRING_MAP,
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "labels": STRING_MAP,
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
}

_SCALARS: dict[str, Schema] = {
    "str": {"type": "string"},
    "int": {"type": "integer", "format": "int32"},
    "bool": {"type": "boolean"},
    "object": INT_OR_STRING,
}
_QUANTITIES = frozenset({("V1EmptyDirVolumeSource", "sizeLimit"), ("V1ResourceFieldSelector", "divisor")})
_RESOURCE_LISTS = frozenset({
    ("V1PodSpec", "overhead"),
    ("V1ResourceRequirements", "limits"), ("V1ResourceRequirements", "requests"),
    ("V1VolumeResourceRequirements", "limits"), ("V1VolumeResourceRequirements", "requests"),
})  # fmt: skip
_INT64 = frozenset({
    "activeDeadlineSeconds", "expirationSeconds", "fsGroup", "runAsGroup", "runAsUser", "supplementalGroups", "seconds",
    "terminationGracePeriodSeconds", "tolerationSeconds",
})  # fmt: skip
_MAP_LISTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("V1PodSpec", "containers"): ("name",),
    ("V1PodSpec", "ephemeralContainers"): ("name",),
    ("V1PodSpec", "hostAliases"): ("ip",),
    ("V1PodSpec", "imagePullSecrets"): ("name",),
    ("V1PodSpec", "initContainers"): ("name",),
    ("V1PodSpec", "resourceClaims"): ("name",),
    ("V1PodSpec", "schedulingGates"): ("name",),
    ("V1PodSpec", "topologySpreadConstraints"): ("topologyKey", "whenUnsatisfiable"),
    ("V1PodSpec", "volumes"): ("name",),
    ("V1Container", "env"): ("name",),
    ("V1Container", "ports"): ("containerPort", "protocol"),
    ("V1Container", "volumeDevices"): ("devicePath",),
    ("V1Container", "volumeMounts"): ("mountPath",),
    ("V1EphemeralContainer", "env"): ("name",),
    ("V1EphemeralContainer", "ports"): ("containerPort", "protocol"),
    ("V1EphemeralContainer", "volumeDevices"): ("devicePath",),
    ("V1EphemeralContainer", "volumeMounts"): ("mountPath",),
    ("V1ResourceRequirements", "claims"): ("name",),
}
_KEY_DEFAULTS: dict[tuple[str, str], str] = {
    ("V1ContainerPort", "protocol"): "TCP",
    ("V1LocalObjectReference", "name"): "",
}
"""A key of a map list is required or has a default; these are optional in the API."""
_ATOMIC = frozenset({
    "V1ConfigMapKeySelector", "V1FileKeySelector", "V1LabelSelector", "V1LocalObjectReference", "V1NodeSelector",
    "V1NodeSelectorTerm", "V1ObjectFieldSelector", "V1ResourceFieldSelector", "V1SecretKeySelector",
    "V1TypedLocalObjectReference",
})  # fmt: skip
_LIST = re.compile(r"^list\[(.+)\]$")
_MAP = re.compile(r"^dict\(str, (.+)\)$")


def _required(model: type[Any], attribute: str) -> bool:
    """Whether the model refuses None for the attribute, which is how the generated code states `required`."""
    probe: Any = object.__new__(model)
    probe.local_vars_configuration = SimpleNamespace(client_side_validation=True)
    try:
        setattr(probe, attribute, None)
    except ValueError as error:
        return "must not be `None`" in str(error)
    return False


def _field(owner: str, name: str, type_name: str) -> Schema:
    if (owner, name) in _QUANTITIES:
        return QUANTITY
    if (owner, name) in _RESOURCE_LISTS:
        return RESOURCE_LIST
    schema = _typed(type_name, wide=name in _INT64)
    if keys := _MAP_LISTS.get((owner, name)):
        schema = {**schema, "x-kubernetes-list-map-keys": list(keys), "x-kubernetes-list-type": "map"}
    if (default := _KEY_DEFAULTS.get((owner, name))) is not None:
        schema = {**schema, "default": default}
    return schema


def _typed(type_name: str, *, wide: bool = False) -> Schema:
    if wide and type_name == "int":
        return {"type": "integer", "format": "int64"}
    if type_name in _SCALARS:
        return _SCALARS[type_name]
    if match := _LIST.match(type_name):
        return {"type": "array", "items": _typed(match[1], wide=wide)}
    if match := _MAP.match(type_name):
        return {"type": "object", "additionalProperties": _typed(match[1])}
    return _model(type_name)


@cache
def _model(name: str) -> Schema:
    """The schema of one generated model, by class name."""
    if name == "V1ObjectMeta":
        return EMBEDDED_METADATA
    model = getattr(models, name)
    properties = {
        json_name: _field(name, json_name, model.openapi_types[attribute])
        for attribute, json_name in model.attribute_map.items()
    }
    required = sorted(json_name for attribute, json_name in model.attribute_map.items() if _required(model, attribute))
    schema: Schema = {"type": "object", "properties": dict(sorted(properties.items()))}
    if required:
        schema["required"] = required
    if name in _ATOMIC:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema


def pod_template() -> Schema:
    """PodTemplateSpec; `containers` is the one required field of its spec."""
    return _model("V1PodTemplateSpec")


def claim_spec() -> Schema:
    """PersistentVolumeClaimSpec."""
    return _model("V1PersistentVolumeClaimSpec")


def label_selector() -> Schema:
    """LabelSelector."""
    return _model("V1LabelSelector")
