"""The kinds these controllers read and write, each as narrowly decoded as they need it.

Templates and statuses stay plain JSON: a controller copies them whole, and must lose no field.
"""

from __future__ import annotations

from typing import Any

from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind


class Workload(ApiObject):
    """Anything with a spec and a status."""

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
ENDPOINTS = Kind("", "v1", "Endpoints", "endpoints", Endpoints, True, False)
ENDPOINT_SLICE = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", EndpointSlice, True, False)

KINDS = (
    *kinds.ALL, REPLICA_SET, REPLICATION_CONTROLLER, DEPLOYMENT, STATEFUL_SET, DAEMON_SET, BATCH_JOB,
    CONTROLLER_REVISION, BUDGET, ENDPOINTS, ENDPOINT_SLICE,
)  # fmt: skip
"""All of them, for whoever writes them."""
