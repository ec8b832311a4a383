"""Events of core v1: their validation (Kubernetes: pkg/apis/core/validation/events.go)."""

from __future__ import annotations

from typing import Final

from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.rules import fill
from volcanoio.localcluster.apiserver.registry.kinds.strategy import Strategy
from volcanoio.model.base import Manifest
from volcanoio.model.validation.dns_names import QUALIFIED_RULE, qualified_rule
from volcanoio.model.validation.field_errors import FieldError, invalid, required

_CLUSTER: Final = ("default", "kube-system")
"""Namespace of Events about cluster-scoped objects."""
_APART: Final = "does not match event.namespace"


def _default(event: Manifest, core: Core) -> None:
    """Add empty fields for the reporting component."""
    del core
    fill(event, reportingComponent="", reportingInstance="")


def _validate(event: Manifest) -> list[FieldError]:
    return event_errors(event, event["metadata"].get("namespace", ""))


def event_errors(event: Manifest, namespace: str, reporter: str = "reportingComponent") -> list[FieldError]:
    """Return validation errors of an event, except for its reporter.

    Events with an eventTime have more rules.
    """
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    timed = bool(event.get("eventTime"))
    apart = about != namespace if about and not timed else not about and namespace not in _CLUSTER[: 1 + timed]
    found = [invalid("involvedObject.namespace", about, _APART)] if apart else []
    if not timed:
        return found
    name = event.get("reportingComponent") or ""
    if not name:
        found.append(required(reporter))
    if rule := qualified_rule(name):
        found.append(invalid(reporter, name, rule))
    if not name:
        found.append(invalid(reporter, name, QUALIFIED_RULE))
    return found + [required(field) for field in ("reportingInstance", "action", "reason") if not event.get(field)]


EVENTS: Final = Strategy(default=_default, validate=_validate)
