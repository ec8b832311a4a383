"""Kinds that the controllers read and write, with accessors for conditions, counts and percentages.

Each kind is decoded only as far as the controllers need it. Templates and statuses stay plain JSON: a controller
copies them whole and must lose no field.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind
from volcanoio.model.times import rfc3339


class Workload(ApiObject):
    """An object with a spec and a status."""

    spec: Manifest = {}
    status: Manifest = {}


class ControllerRevision(ApiObject):
    """apps/v1 ControllerRevision: a numbered snapshot of a template."""

    data: Manifest = {}
    revision: int = 0


class EndpointSlice(ApiObject):
    """discovery.k8s.io/v1 EndpointSlice."""

    address_type: str = ""
    endpoints: tuple[Manifest, ...] = ()
    ports: tuple[Manifest, ...] = ()


class Endpoints(ApiObject):
    """core/v1 Endpoints."""

    subsets: tuple[Any, ...] = ()


REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets", Workload)
REPLICATION_CONTROLLER = Kind("", "v1", "ReplicationController", "replicationcontrollers", Workload)
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments", Workload)
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets", Workload)
DAEMON_SET = Kind("apps", "v1", "DaemonSet", "daemonsets", Workload)
BATCH_JOB = Kind("batch", "v1", "Job", "jobs", Workload)
CONTROLLER_REVISION = Kind("apps", "v1", "ControllerRevision", "controllerrevisions", ControllerRevision, True, False)
BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", Workload)
CLAIM_TEMPLATE = Kind("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", Workload, True, False)
ENDPOINTS = Kind("", "v1", "Endpoints", "endpoints", Endpoints, True, False)
ENDPOINT_SLICE = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", EndpointSlice, True, False)

KINDS = (
    *kinds.ALL, REPLICA_SET, REPLICATION_CONTROLLER, DEPLOYMENT, STATEFUL_SET, DAEMON_SET, BATCH_JOB,
    CONTROLLER_REVISION, BUDGET, CLAIM_TEMPLATE, ENDPOINTS, ENDPOINT_SLICE,
)  # fmt: skip
"""All kinds that a writer may name."""


def condition_of(conditions: Iterable[Manifest], type_: str) -> Manifest | None:
    """Return the condition of that type."""
    return next((one for one in conditions if one.get("type") == type_), None)


class ConditionUpdate(NamedTuple):
    """A condition to set; a boolean status stands for True or False."""

    type: str
    status: bool | str
    reason: str
    message: str = ""


def with_condition(
    conditions: list[Manifest], update: ConditionUpdate, now: float, *, has_update_time: bool = False
) -> list[Manifest]:
    """Return the conditions with one of them set, at the end if it changed.

    The same list if it did not.

    With `has_update_time` conditions of the kind also have lastUpdateTime.
    """
    type_, status, reason, message = update
    status_text = status if isinstance(status, str) else str(status)
    known = condition_of(conditions, type_)
    is_unchanged = known is not None and (known.get("status"), known.get("reason", "")) == (status_text, reason)
    if is_unchanged and (has_update_time or (known or {}).get("message", "") == message):
        return conditions
    moment = rfc3339(now)
    same = known is not None and known.get("status") == status_text
    entry: Manifest = {"type": type_, "status": status_text}
    if has_update_time:
        entry["lastUpdateTime"] = moment
    entry["lastTransitionTime"] = known["lastTransitionTime"] if same and known is not None else moment
    if reason:
        entry["reason"] = reason
    if message or has_update_time:
        entry["message"] = message
    return [*(one for one in conditions if one is not known), entry]


def without_condition(conditions: list[Manifest], type_: str) -> list[Manifest]:
    """Return the conditions without that type."""
    return [one for one in conditions if one.get("type") != type_]


def scaled(amount: Any, total: int, *, up: bool) -> int:
    """Return a count, or a percentage of the total rounded up or down; 0 for what is neither."""
    if isinstance(amount, str):
        digits = amount.removesuffix("%")
        if not digits.isdigit():
            return 0
        share = int(digits) * total if amount.endswith("%") else int(digits) * 100
        return -(-share // 100) if up else share // 100
    return int(amount or 0)


def count(value: Any, default: int = 0) -> int:
    """Return an optional number of a manifest."""
    return default if value is None else int(value)
