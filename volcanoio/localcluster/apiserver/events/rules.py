"""What events.k8s.io/v1 asks of an event beyond core v1 (Kubernetes: `pkg/apis/core/validation/events.go`)."""

from __future__ import annotations

from typing import Final

from volcanoio.engine.admission.fielderrors import FieldError, invalid, required
from volcanoio.localcluster.apiserver.events.naming import FROM_CORE
from volcanoio.model.base import Manifest

_TYPES: Final = ("Normal", "Warning")
_CLUSTER: Final = ("default", "kube-system")
"""Where events about objects without a namespace are kept."""
_UNSET: Final = ("firstTimestamp", "lastTimestamp", "count", "source")
_FIXED: Final = (
    *("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type", "eventTime"),
    *("action", "related", "reportingComponent", "reportingInstance"),
)
"""Fields that only core v1 may change: here a series grows, and nothing else."""


def create_errors(event: Manifest, namespace: str) -> list[FieldError]:
    """The broken rules of a new event under core v1's names."""
    found: list[FieldError] = []
    about = (event.get("involvedObject") or {}).get("namespace", "")
    legacy = not event.get("eventTime")
    apart = legacy and about not in {"", namespace}
    if apart or (not about and namespace not in (_CLUSTER[:1] if legacy else _CLUSTER)):
        found.append(invalid("involvedObject.namespace", about, "does not match event.namespace"))
    found += [
        required(FROM_CORE.get(name, name))
        for name in ("reportingComponent", "reportingInstance", "action", "reason")
        if not legacy and not event.get(name)
    ]
    if legacy:
        found.append(required("eventTime"))
    if event.get("type") not in _TYPES:
        found.append(invalid("type", "", f"has invalid value: {event.get('type') or ''}"))
    return found + [invalid(name, "", "needs to be unset") for name in _UNSET if event.get(name)]


def update_errors(new: Manifest, old: Manifest) -> list[FieldError]:
    """The changes that are not allowed."""
    return [
        invalid(name, new.get(name), "field is immutable")
        for name in _FIXED
        if (new.get(name) or None) != (old.get(name) or None)
    ]
