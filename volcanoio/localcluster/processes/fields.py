"""What a pod may ask about itself: `fieldRef` and `resourceFieldRef`, in variables and downward API volumes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from volcanoio.model import quantity
from volcanoio.model.base import Manifest

_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class FieldProblem(ValueError):  # noqa: N818 - named for what it is
    """A reference that cannot be resolved; the text says why."""


def field_value(pod: Manifest, path: str) -> str:
    """The text of a field. Raises FieldProblem for one that is not offered."""
    keyed = _KEYED.fullmatch(path)
    if keyed:
        return str((pod["metadata"].get(keyed[1]) or {}).get(keyed[2], ""))
    read = _FIELDS.get(path)
    if read is None:
        msg = f"unsupported fieldPath: {path}; use one of {', '.join(_FIELDS)}, or metadata.labels['KEY']"
        raise FieldProblem(msg)
    return read(pod)


def _map(field: str) -> Callable[[Manifest], str]:
    """A label or annotation map as lines `key="value"`, as downward API volumes show it."""
    return lambda pod: "\n".join(
        f"{key}={json.dumps(value, ensure_ascii=False)}"
        for key, value in sorted((pod["metadata"].get(field) or {}).items())
    )


def _text(part: str, field: str) -> Callable[[Manifest], str]:
    return lambda pod: str((pod.get(part) or {}).get(field, ""))


_FIELDS: dict[str, Callable[[Manifest], str]] = {
    "metadata.name": _text("metadata", "name"),
    "metadata.namespace": _text("metadata", "namespace"),
    "metadata.uid": _text("metadata", "uid"),
    "metadata.labels": _map("labels"),
    "metadata.annotations": _map("annotations"),
    "spec.nodeName": _text("spec", "nodeName"),
    "spec.serviceAccountName": lambda pod: str(pod["spec"].get("serviceAccountName") or "default"),
    "status.hostIP": _text("status", "hostIP"),
    "status.hostIPs": _text("status", "hostIP"),
    "status.podIP": _text("status", "podIP"),
    "status.podIPs": _text("status", "podIP"),
}
"""Field path → how it is read. Pods with a runtime have one address of each kind."""


def resource_value(pod: Manifest, container: str, reference: Mapping[str, Any], allocatable: Mapping[str, Any]) -> str:
    """A container's request or limit, divided and rounded up; without a limit, what the node offers.

    Kubernetes: `pkg/api/v1/resource`, ExtractContainerResourceValue.
    """
    spec = pod["spec"]
    name = reference.get("containerName") or container
    found = next(
        (one for one in (*spec["containers"], *(spec.get("initContainers") or ())) if one["name"] == name), None
    )
    if found is None:
        msg = f"resourceFieldRef: there is no container {name} in the pod"
        raise FieldProblem(msg)
    kind, _, resource = str(reference.get("resource", "")).partition(".")
    if kind not in ("limits", "requests") or not resource:
        msg = f"resourceFieldRef: {reference.get('resource')!r} must be limits.NAME or requests.NAME"
        raise FieldProblem(msg)
    amount = ((found.get("resources") or {}).get(kind) or {}).get(resource)
    if amount is None:
        amount = allocatable.get(resource, "0") if kind == "limits" else "0"
    divisor = str(reference.get("divisor") or "1")
    parts = quantity.parse(str(amount)) / (quantity.parse(divisor) or 1)
    return str(-((-parts.numerator) // parts.denominator))
