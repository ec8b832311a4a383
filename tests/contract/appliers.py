"""Applying as clients do, and reading who manages what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.contract.support import Answer, Cluster, Obj

APPLY = "application/apply-patch+yaml"


def apply(cluster: Cluster, path: str, config: Any, manager: str = "one", **query: Any) -> Answer:
    """A server-side apply."""
    return cluster.request("PATCH", path, config, content_type=APPLY, fieldManager=manager, **query)


def config_map(name: str = "x", labels: dict[str, str] | None = None, **data: str) -> Obj:
    """A configuration of a ConfigMap: only what is given."""
    metadata: Obj = {"name": name} | ({"labels": labels} if labels else {})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata} | ({"data": data} if data else {})


def managers(obj: Obj) -> dict[tuple[str, ...], set[str]]:
    """(manager, operation[, subresource]) → the fields it manages, as short texts such as `data.a`."""
    return {
        tuple(one[key] for key in ("manager", "operation", "subresource") if one.get(key)): set(_paths(one["fieldsV1"]))
        for one in obj["metadata"].get("managedFields", [])
    }


def _paths(fields: Obj, prefix: str = "") -> Iterator[str]:
    for step, below in fields.items():
        name = step.removeprefix("f:")
        path = prefix if step == "." else f"{prefix}.{name}" if prefix else name
        if step == "." or not below:
            yield path
        else:
            yield from _paths(below, path)
