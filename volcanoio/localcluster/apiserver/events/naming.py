"""Names of an event's fields in events.k8s.io/v1 and in core v1 (Kubernetes: `pkg/apis/events/v1/conversion.go`).

All differences are names of fields at the top, so that an object, a merge patch and an applied configuration are
translated alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from volcanoio.model.base import Manifest

GROUP_VERSION: Final = "events.k8s.io/v1"
TO_CORE: Final[Mapping[str, str]] = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
FROM_CORE: Final[Mapping[str, str]] = {core: name for name, core in TO_CORE.items()}
SELECTABLE: Final = {
    **{f"regarding.{key}": f"involvedObject.{key}" for key in ("kind", "namespace", "name", "uid", "apiVersion")},
    **{f"regarding.{key}": f"involvedObject.{key}" for key in ("resourceVersion", "fieldPath")},
    "reportingController": "reportingComponent",
    **{key: key for key in ("reason", "type", "metadata.name", "metadata.namespace")},
}
"""The fields that can be selected by, and what they are called in core v1."""


def to_core(value: Manifest) -> Manifest:
    """An event, or a part of one, under core v1's names."""
    found = {TO_CORE.get(key, key): one for key, one in value.items()}
    if found.get("apiVersion") == GROUP_VERSION:
        found["apiVersion"] = "v1"
    return found


def from_core(event: Manifest) -> Manifest:
    """An event under the names of events.k8s.io/v1."""
    return {FROM_CORE.get(key, key): one for key, one in event.items()} | {"apiVersion": GROUP_VERSION}


def pointer_to_core(pointer: Any) -> Any:
    """A JSON pointer of a patch under core v1's names; what is no text stays, to be refused as any other."""
    if not isinstance(pointer, str):
        return pointer
    parts = pointer.split("/")
    if len(parts) > 1:
        parts[1] = TO_CORE.get(parts[1], parts[1])
    return "/".join(parts)
