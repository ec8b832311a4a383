"""A custom resource whose fields are owned in every way there is, in two versions."""

from __future__ import annotations

from typing import Any

from tests.contract.support import Cluster, established

GROUP = "apply.contract.volcanoio.dev"
PLURAL = f"gadgets.v1.{GROUP}"
DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.{GROUP}"

_TEXT = {"type": "string"}
_PORT = {
    "type": "object",
    "required": ["port"],
    "properties": {
        "port": {"type": "integer"},
        "protocol": {"type": "string", "default": "TCP"},
        "host": _TEXT,
        "options": {"type": "object", "properties": {"a": _TEXT, "b": {"type": "integer"}}},
    },
}
_CONDITIONS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["type"],
        "properties": {"type": _TEXT, "status": _TEXT, "message": _TEXT},
    },
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
}


def _schema(*, atomic_box: bool) -> dict[str, Any]:
    box: dict[str, Any] = {
        "type": "object",
        "properties": {"height": {"type": "integer"}, "width": {"type": "integer"}},
    }
    if atomic_box:
        box["x-kubernetes-map-type"] = "atomic"
    spec = {
        "type": "object",
        "properties": {
            "replicas": {"type": "integer"},
            "color": {"type": "string", "default": "red"},
            "note": {"type": "string", "nullable": True},
            "amount": {"x-kubernetes-int-or-string": True},
            "ports": {
                "type": "array",
                "items": _PORT,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
            },
            "tags": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
            "steps": {"type": "array", "items": _TEXT},
            "labels": {"type": "object", "additionalProperties": _TEXT},
            "whole": {"type": "object", "additionalProperties": _TEXT, "x-kubernetes-map-type": "atomic"},
            "box": box,
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "inner": {
                "type": "object",
                "properties": {"deep": {"type": "object", "properties": {"x": _TEXT, "y": _TEXT}}},
            },
        },
    }
    status = {"type": "object", "properties": {"replicas": {"type": "integer"}, "conditions": _CONDITIONS}}
    return {"type": "object", "properties": {"spec": spec, "status": status}}


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition of gadgets; in v2 a box is owned by its fields."""
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1",
            "schema": {"openAPIV3Schema": _schema(atomic_box=name == "v1")},
            "subresources": {
                "status": {},
                "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
            },
        }
        for name in ("v1", "v2")
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": versions,
        },
    }


def gadget(name: str = "x", **spec: Any) -> dict[str, Any]:
    """A configuration of a Gadget."""
    return {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": spec}


def with_gadgets(cluster: Cluster) -> Cluster:
    """The cluster, serving gadgets."""
    collection, _, name = DEFINITION.rpartition("/")
    if cluster.get(DEFINITION).code == 404:
        cluster.create(collection, definition()).ok()
    established(cluster, name)
    return cluster
