"""Kinds with a few defaults or rules and no behaviour: services, secrets, volumes, claims, leases."""

from __future__ import annotations

from volcanoio.engine.admission.fielderrors import FieldError, invalid
from volcanoio.localcluster.apiserver.kinds.strategy import Strategy
from volcanoio.model.base import Manifest


def _spec(obj: Manifest) -> Manifest:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        spec = obj["spec"] = {}
    return spec


def _validate_lease(lease: Manifest) -> list[FieldError]:
    spec = lease.get("spec") or {}
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    found: list[FieldError] = []
    if duration is not None and duration <= 0:
        found.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        found.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return found


LEASES = Strategy(validate=_validate_lease)
