"""What events.k8s.io/v1 asks of an event beyond core v1 (Kubernetes: `pkg/apis/core/validation/events.go`)."""

from __future__ import annotations

from typing import Final

from volcanoio.engine.admission.fielderrors import FieldError, invalid, required
from volcanoio.localcluster.apiserver.events.naming import FROM_CORE
from volcanoio.localcluster.apiserver.kinds.events import event_errors
from volcanoio.model.base import Manifest

_TYPES: Final = ("Normal", "Warning")
_UNSET: Final = ("firstTimestamp", "lastTimestamp", "count", "source")
_FIXED: Final = (
    *("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type", "eventTime"),
    *("action", "related", "reportingComponent", "reportingInstance"),
)
"""Fields that only core v1 may change: here a series grows, and nothing else."""


_CONTROLLER = FROM_CORE["reportingComponent"]
"""The one field that is shown under its newer name."""


def create_errors(event: Manifest, namespace: str) -> list[FieldError]:
    """The broken rules of a new event under core v1's names."""
    found = event_errors(event, namespace, FROM_CORE["reportingComponent"])
    if not event.get("eventTime"):
        found.append(required("eventTime"))
    if event.get("type") not in _TYPES:
        found.append(invalid("type", "", f"has invalid value: {event.get('type') or ''}"))
    return found + [invalid(name, "", "needs to be unset") for name in _UNSET if event.get(name)]


def update_errors(new: Manifest, old: Manifest) -> list[FieldError]:
    """The changes that are not allowed, and rules that are broken after them."""
    found = event_errors(new, str(old["metadata"].get("namespace", "")), FROM_CORE["reportingComponent"])
    return found + [
        invalid(_CONTROLLER if name == "reportingComponent" else name, new.get(name), "field is immutable")
        for name in _FIXED
        if (new.get(name) or None) != (old.get(name) or None)
    ]
