"""Kubernetes kinds outside core/v1 that describe groups of pods: apps/v1, batch/v1 and scheduling.k8s.io; pod metrics.

Workloads of apps/v1 and batch/v1 have only the fields that identify their pods, and their annotations. The PodGroup and
Workload of scheduling.k8s.io/v1beta1 have the fields of Kubernetes 1.37 (KEP-4671, KEP-5710, KEP-5732); that PodGroup
is called a native group, because Volcano's has the same name. PodMetrics (metrics.k8s.io/v1beta1, served by
metrics-server) can be listed but not watched.
"""

import re
from collections.abc import Iterable
from typing import Any

from volcanoio.model.base import ApiObject, Model, StatusCondition
from volcanoio.model.core import ResourceList
from volcanoio.model.names import QUEUE_NAME_ANNOTATION


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


INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
"""Condition type: whether the group was scheduled once. It never changes back from True."""
DISRUPTION_TARGET = "DisruptionTarget"
"""Condition type: the group is about to be ended as a whole."""
REASON_SCHEDULED, REASON_UNSCHEDULABLE, REASON_ERROR = "Scheduled", "Unschedulable", "SchedulerError"
"""Reasons of INITIALLY_SCHEDULED: of True, and of False; the last one if a bind was refused."""
QUEUE_PHASE = "scheduling.volcano.sh/QueuePhase"
"""Condition type of ours: the reason is the phase of the group as a Volcano PodGroup has it, the message its place."""
_PLACE = re.compile(r"queue (\S*), scheduler (\S*)")
REASON_PREEMPTION = "PreemptionByScheduler"
"""Reason of DISRUPTION_TARGET."""
PROTECTION = "scheduling.k8s.io/podgroup-protection"
"""Finalizer of native groups: they are deleted once no unfinished pod is in them."""


class GangPolicy(Model):
    """`spec.schedulingPolicy.gang`."""

    min_count: int = 0
    """Number of pods that must be schedulable together."""


class GroupPolicy(Model):
    """`spec.schedulingPolicy`: one of basic (pods are scheduled singly) and gang is set."""

    basic: dict[str, Any] | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(Model):
    """`spec.schedulingConstraints.topology[]`: all pods on nodes with one value of a label."""

    key: str = ""
    """Label of nodes whose value identifies the domain."""


class GroupConstraints(Model):
    """`spec.schedulingConstraints`."""

    topology: tuple[TopologyConstraint, ...] = ()


class DisruptionMode(Model):
    """`spec.disruptionMode`: one of single (the default) and all is set."""

    single: dict[str, Any] | None = None
    all: dict[str, Any] | None = None
    """Pods are evicted all together or not at all."""


class WorkloadReference(Model):
    """`spec.workloadRef`: the Workload and the name of its template from which the group was made."""

    workload_name: str = ""
    template_name: str = ""


class NativeGroupSpec(Model):
    """`spec` of a native group."""

    workload_ref: WorkloadReference | None = None
    scheduling_policy: GroupPolicy = GroupPolicy()
    scheduling_constraints: GroupConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: int | None = None
    """Value of the PriorityClass, set by the API server."""


class NativeGroupStatus(Model):
    """`status` of a native group."""

    conditions: tuple[StatusCondition, ...] = ()


class NativePodGroup(ApiObject):
    """scheduling.k8s.io PodGroup."""

    spec: NativeGroupSpec = NativeGroupSpec()
    status: NativeGroupStatus = NativeGroupStatus()

    @property
    def workload_key(self) -> str:
        """The key `namespace/name` of the Workload from which it was made, "" for none."""
        reference = self.spec.workload_ref
        return f"{self.metadata.namespace}/{reference.workload_name}" if reference is not None else ""

    @property
    def is_disrupted_whole(self) -> bool:
        """Whether its pods are evicted all together or not at all."""
        mode = self.spec.disruption_mode
        return mode is not None and mode.all is not None

    @property
    def queue(self) -> str:
        """The queue to which one of our schedulers counts it, "" for none: it never had pods of ours."""
        return self._place[0]

    @property
    def scheduler(self) -> str:
        """The name of that scheduler."""
        return self._place[1]

    @property
    def _place(self) -> tuple[str, str]:
        found = self.condition(QUEUE_PHASE)
        place = _PLACE.fullmatch(found.message) if found is not None else None
        return (place[1], place[2]) if place is not None else ("", "")

    @property
    def phase(self) -> str:
        """Its phase as a Volcano PodGroup has it, "" if it never had pods of ours."""
        found = self.condition(QUEUE_PHASE)
        return "" if found is None else found.reason

    def condition(self, type_: str) -> StatusCondition | None:
        """Return the condition of a type, None if it has none."""
        return next((entry for entry in self.status.conditions if entry.type == type_), None)


class Workload(ApiObject):
    """scheduling.k8s.io Workload: templates of native groups. Only its metadata is read."""


def place_message(queue: str, scheduler: str) -> str:
    """Return the message of the condition QUEUE_PHASE."""
    return f"queue {queue}, scheduler {scheduler}"


def named_queue(objects: Iterable[ApiObject]) -> str:
    """Return the queue that the first of some objects names in an annotation or label, "" if none does."""
    for obj in objects:
        meta = obj.metadata
        if queue := meta.annotations.get(QUEUE_NAME_ANNOTATION) or meta.labels.get(QUEUE_NAME_ANNOTATION, ""):
            return queue
    return ""
