"""Kubernetes kinds outside core/v1 that are only read: apps/v1 and batch/v1 workloads, and pod metrics.

Workloads have only the fields that identify their pods, and their annotations. PodMetrics
(metrics.k8s.io/v1beta1, served by metrics-server) can be listed but not watched.
"""

from volcanoio.model.base import ApiObject, Model
from volcanoio.model.core import ResourceList


class ReplicaSpec(Model):
    """`spec` of a workload with replicas, by default 1."""

    replicas: int = 1


class ReplicaSet(ApiObject):
    """apps/v1 ReplicaSet."""

    spec: ReplicaSpec = ReplicaSpec()


class StatefulSetStatus(Model):
    """`status` of a StatefulSet: the revision to which its pods are updated."""

    update_revision: str = ""


class StatefulSet(ApiObject):
    """apps/v1 StatefulSet."""

    spec: ReplicaSpec = ReplicaSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DaemonSet(ApiObject):
    """apps/v1 DaemonSet."""


class KubernetesJob(ApiObject):
    """batch/v1 Job."""


class ContainerMetrics(Model):
    """`containers[]` of PodMetrics: usage of cpu and memory."""

    name: str = ""
    usage: ResourceList = {}


class PodMetrics(ApiObject):
    """Usage of one pod, averaged over `window` before `timestamp`."""

    timestamp: str | None = None
    window: str = ""
    containers: tuple[ContainerMetrics, ...] = ()
