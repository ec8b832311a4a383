"""Writes data/builtin_types.json: fields of the built-in kinds, from the installed kubernetes_asyncio models.

Kinds of Kubernetes 1.37 that those models do not have yet are listed in `NEWER`.

Run it after a new version of kubernetes_asyncio: `python -m volcanoio.localcluster.apiserver.schema.generate_types`. It
is a command so that the server need not import those models (0.5 s).
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.apimachinery.served_resources import BUILTINS

TARGET = Path(__file__).parents[1] / "data" / "builtin_types.json"

_QUANTITIES = {
    *("allocatable", "capacity", "default", "defaultRequest", "hard", "limits", "max", "maxLimitRequestRatio", "min"),
    *("overhead", "podFixed", "requests", "used", "allocatedResources", "averageValue", "divisor"),
    *("resources", "sizeLimit", "tolerance"),
}
"""String fields that are quantities, which may be written as numbers."""

_INTEGERS_OR_STRINGS = {"maxSurge", "maxUnavailable", "minAvailable", "port", "targetPort"}
"""Int-or-string fields, which the models declare as objects."""

_OPEN = {"V1JSONSchemaProps"}
"""Recursive types, taken as any object."""


NEWER: dict[str, dict[str, str]] = {
    "V1beta1PodGroup": {
        "apiVersion": "str",
        "kind": "str",
        "metadata": "V1ObjectMeta",
        "spec": "V1beta1PodGroupSpec",
        "status": "V1beta1PodGroupStatus",
    },
    "V1beta1PodGroupSpec": {
        "disruptionMode": "V1beta1DisruptionMode",
        "priority": "int",
        "priorityClassName": "str",
        "resourceClaims": "list[V1beta1PodGroupResourceClaim]",
        "schedulingConstraints": "V1beta1PodGroupSchedulingConstraints",
        "schedulingPolicy": "V1beta1PodGroupSchedulingPolicy",
        "workloadRef": "V1beta1WorkloadReference",
    },
    "V1beta1PodGroupStatus": {
        "conditions": "list[V1Condition]",
        "resourceClaimStatuses": "list[V1beta1PodGroupResourceClaimStatus]",
    },
    "V1beta1DisruptionMode": {"all": "any", "single": "any"},
    "V1beta1PodGroupResourceClaim": {"name": "str", "resourceClaimName": "str", "resourceClaimTemplateName": "str"},
    "V1beta1PodGroupResourceClaimStatus": {"name": "str", "resourceClaimName": "str"},
    "V1beta1PodGroupSchedulingConstraints": {"topology": "list[V1beta1TopologyConstraint]"},
    "V1beta1TopologyConstraint": {"key": "str"},
    "V1beta1PodGroupSchedulingPolicy": {"basic": "any", "gang": "V1beta1GangSchedulingPolicy"},
    "V1beta1GangSchedulingPolicy": {"minCount": "int"},
    "V1beta1WorkloadReference": {"templateName": "str", "workloadName": "str"},
    "V1JobSchedulingConfiguration": {
        "disruptionMode": "V1beta1DisruptionMode",
        "resourceClaims": "list[V1beta1PodGroupResourceClaim]",
        "schedulingConstraints": "V1beta1PodGroupSchedulingConstraints",
        "schedulingPolicy": "V1JobSchedulingPolicy",
    },
    "V1JobSchedulingPolicy": {"basic": "any", "gang": "V1JobGangSchedulingPolicy"},
    "V1JobGangSchedulingPolicy": {"minCount": "int"},
    "V1beta1Workload": {
        "apiVersion": "str",
        "kind": "str",
        "metadata": "V1ObjectMeta",
        "spec": "V1beta1WorkloadSpec",
    },
    "V1beta1WorkloadSpec": {
        "controllerRef": "V1beta1TypedLocalObjectReference",
        "podGroupTemplates": "list[V1beta1PodGroupTemplate]",
    },
    "V1beta1TypedLocalObjectReference": {"apiGroup": "str", "kind": "str", "name": "str"},
    "V1beta1PodGroupTemplate": {
        "disruptionMode": "V1beta1DisruptionMode",
        "name": "str",
        "priority": "int",
        "priorityClassName": "str",
        "resourceClaims": "list[V1beta1PodGroupResourceClaim]",
        "schedulingConstraints": "V1beta1PodGroupSchedulingConstraints",
        "schedulingPolicy": "V1beta1PodGroupSchedulingPolicy",
    },
}
"""Types → field → type. Source: Kubernetes API reference, scheduling.k8s.io/v1beta1 and batch/v1 of 1.37. The parts of
`scheduling` of a Job have types of their own there (v1alpha3, WorkloadPodGroup…), with the same fields."""
NEWER_FIELDS: dict[str, dict[str, str]] = {"V1JobSpec": {"scheduling": "V1JobSchedulingConfiguration"}}
"""Fields of older types, and their types."""
NEWER_REQUIRED: dict[str, list[str]] = {
    "V1beta1PodGroup": ["spec"],
    "V1beta1PodGroupSpec": ["schedulingPolicy"],
    "V1beta1PodGroupResourceClaim": ["name"],
    "V1beta1PodGroupResourceClaimStatus": ["name"],
    "V1beta1TopologyConstraint": ["key"],
    "V1beta1GangSchedulingPolicy": ["minCount"],
    "V1beta1WorkloadReference": ["workloadName", "templateName"],
    "V1beta1Workload": ["spec"],
    "V1beta1TypedLocalObjectReference": ["kind", "name"],
    "V1beta1PodGroupTemplate": ["name", "schedulingPolicy"],
}
"""Their required fields."""
NEWER_RESOURCES: dict[str, str] = {
    "podgroups.scheduling.k8s.io": "V1beta1PodGroup",
    "workloads.scheduling.k8s.io": "V1beta1Workload",
}


def main() -> None:
    """Write the table."""
    TARGET.write_bytes(msgspec.json.format(msgspec.json.encode(table(), order="sorted"), indent=1) + b"\n")


def table() -> dict[str, Any]:
    """Return the table of types.

    `resources`: resource name → type; `types`: type → field → type of the field; `required`: type → fields.
    """
    models = import_module("kubernetes_asyncio.client.models")
    resources = {one.name: name for one in BUILTINS if (name := _model_name(models, one)) is not None}
    types: dict[str, dict[str, str]] = dict(NEWER)
    required: dict[str, list[str]] = dict(NEWER_REQUIRED)
    todo = [*resources.values(), "V1Scale", "V1DeleteOptions", "V1Eviction"]
    while todo:
        name = todo.pop()
        if name in types or name in _OPEN:
            continue
        model = getattr(models, name)
        fields = {model.attribute_map[key]: type_ for key, type_ in model.openapi_types.items()}
        types[name] = {field: _type(field, type_) for field, type_ in fields.items()}
        required[name] = [field for key, field in model.attribute_map.items() if _is_required(model, key)]
        todo += [found for type_ in types[name].values() for found in re.findall(r"\b[A-Z]\w+", type_)]
    resources |= NEWER_RESOURCES
    for name, fields in NEWER_FIELDS.items():
        types[name] |= fields
    return {"resources": resources, "types": types, "required": {name: some for name, some in required.items() if some}}


def _model_name(models: Any, resource: Resource) -> str | None:
    version, group = resource.version.capitalize(), (resource.group.partition(".")[0] or "core").capitalize()
    names = (f"{group}{version}{resource.kind}", version + resource.kind)
    return next((name for name in names if hasattr(models, name)), None)


def _is_required(model: Any, key: str) -> bool:
    """Return whether the field is required: models refuse None for those."""
    blank = model.__new__(model)
    blank.local_vars_configuration = import_module("kubernetes_asyncio.client").Configuration()
    try:
        setattr(blank, key, None)
    except ValueError:
        return True
    return False


def _type(field: str, type_: str) -> str:
    """Return the model's type in short form.

    That is: str, int, float, bool, quantity, intorstring, any, list[T], map[T] or a type's name.
    """
    if inner := re.fullmatch(r"list\[(.+)\]", type_):
        return f"list[{_type('', inner[1])}]"
    if inner := re.fullmatch(r"dict\(str, (.+)\)", type_):
        return f"map[{_type(field, inner[1])}]"
    if type_ == "str" and field in _QUANTITIES:
        return "quantity"
    if type_ == "object" and field in _INTEGERS_OR_STRINGS:
        return "intorstring"
    simple = {"datetime": "str", "object": "any", "bytearray": "str"}
    return "any" if type_ in _OPEN else simple.get(type_, type_)


if __name__ == "__main__":
    main()
