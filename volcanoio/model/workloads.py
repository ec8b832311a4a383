"""Kubernetes' own workloads, of which we read whose pods they make and what their annotations say."""

from __future__ import annotations

from volcanoio.model.base import ApiObject, Model


class ReplicaSpec(Model):
    """`spec` of a workload that has a number of replicas; 1 where it says nothing."""

    replicas: int = 1


class ReplicaSet(ApiObject):
    """apps/v1 ReplicaSet."""

    spec: ReplicaSpec = ReplicaSpec()


class StatefulSetStatus(Model):
    """`status` of a StatefulSet: the revision that its pods are being brought to."""

    update_revision: str = ""


class StatefulSet(ApiObject):
    """apps/v1 StatefulSet."""

    spec: ReplicaSpec = ReplicaSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DaemonSet(ApiObject):
    """apps/v1 DaemonSet."""


class KubernetesJob(ApiObject):
    """batch/v1 Job."""
