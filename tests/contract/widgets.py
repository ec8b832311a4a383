"""A custom resource for tests: small, with defaults, pruning, validation, status, scale and printer columns."""

from __future__ import annotations

from typing import Any

from tests.contract.support import Cluster, established

GROUP = "contract.volcanoio.dev"
PLURAL = f"widgets.v1.{GROUP}"
WIDGETS = f"widgets.{GROUP}"
"""Their full name: others may have taken the short one."""
DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{GROUP}"

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "A Widget is a thing of some size.",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "description": "How large the widget is."},
                "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                "parts": {"type": "array", "items": {"type": "string"}},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string"},
                "size": {"type": "integer"},
                "conditions": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
                    },
                },
            },
        },
    },
}


def definition(group: str = GROUP) -> dict[str, Any]:
    """The CustomResourceDefinition of widgets."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _SCHEMA},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
        },
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    }
    names = {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
        "shortNames": ["wdg"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def widget(name: str, **spec: Any) -> dict[str, Any]:
    """A Widget."""
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 1, **spec}}


def with_widgets(cluster: Cluster) -> Cluster:
    """The cluster, once it serves widgets."""
    collection = DEFINITION.rpartition("/")[0]
    if cluster.get(DEFINITION).code == 404:
        assert cluster.create(collection, definition()).code in {201, 409}, "made here, or by another worker"
    established(cluster, DEFINITION.rpartition("/")[2])
    return cluster
