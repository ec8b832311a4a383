"""Tasks: pods as the scheduler sees them."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from volcanoio.engine.scheduling.volumes import named_by
from volcanoio.framework.scheduling.views import Shape, TaskStatus
from volcanoio.model.core import Pod
from volcanoio.model.names import GROUP_NAME, PREEMPTABLE, TASK_PRIORITY, TASK_SPEC

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.jobs import JobInfo
    from volcanoio.engine.scheduling.kins import Kin

_NEVER = -inf
"""The one number for all of them."""
TAKABLE = (TaskStatus.RUNNING, TaskStatus.BOUND)
"""Statuses in which a task can be evicted for others."""
_PHASES = {
    "Running": TaskStatus.RUNNING,
    "Unknown": TaskStatus.UNKNOWN,
    "Succeeded": TaskStatus.SUCCEEDED,
    "Failed": TaskStatus.FAILED,
}


class TaskInfo:
    """One pod. Implements `views.Task`; `status` and `node` are written by the ledger alone."""

    __slots__ = (
        "base",
        "claims",
        "condition",
        "condition_at",
        "created",
        "gated",
        "job",
        "key",
        "kin",
        "may_evict",
        "name",
        "namespace",
        "node",
        "nominated",
        "owner",
        "plain",
        "pod",
        "preemptable",
        "priority",
        "priority_class_name",
        "refusal",
        "refusals",
        "retry_at",
        "role",
        "shape",
        "status",
        "uid",
    )

    def __init__(self, pod: Pod, shape: Shape, job: str) -> None:
        meta = pod.metadata
        self.uid = meta.uid
        self.namespace = meta.namespace
        self.name = meta.name
        self.created = meta.creation_timestamp or ""
        self.job = job
        """The key of its job, "" for a pod without PodGroup or of another scheduler."""
        self.owner: JobInfo | None = None
        self.kin: Kin | None = None
        """The pods that no selector tells from it, where anything selects pods: the index of pods writes it."""
        self.status = TaskStatus.PENDING
        self.node = ""
        self.key = (name_index(meta.name), self.created, self.uid)
        """Where it stands among tasks that the plugins' orders do not tell apart (Volcano: CompareTask)."""
        self.refusals = 0
        """How often its bind was refused in a row."""
        self.refusal = ""
        """Why its last bind was refused, until it is said on the pod."""
        self.retry_at = 0.0
        """Not to be placed before this time (epoch seconds)."""
        self.condition: tuple[str, str] | None = None
        """Reason and message of the PodScheduled condition last written for it."""
        self.condition_at = _NEVER
        self.update(pod, shape)

    def update(self, pod: Pod, shape: Shape) -> None:
        """Take over what a newer version of the pod says, status and node excepted."""
        annotations, labels = pod.metadata.annotations, pod.metadata.labels
        self.pod = pod
        self.plain = shape
        """Its shape as its spec alone says."""
        self.base = shape
        """Its shape with what concerns other pods, without traits."""
        self.shape = shape
        self.claims = named_by(pod) if pod.spec.volumes else ()
        """The volume claims it names."""
        self.role = annotations.get(TASK_SPEC) or labels.get(TASK_SPEC, "")
        self.priority = _priority(pod)
        self.priority_class_name = pod.spec.priority_class_name
        self.preemptable = (annotations.get(PREEMPTABLE) or labels.get(PREEMPTABLE, "true")).lower() != "false"
        self.may_evict = pod.spec.preemption_policy != "Never"
        self.gated = bool(pod.spec.scheduling_gates)
        self.nominated = pod.status.nominated_node_name

    def __repr__(self) -> str:
        return f"<{self.namespace}/{self.name} {self.status.name} {self.node or '-'}>"


def job_key(pod: Pod) -> str:
    """`namespace/podgroup` of a pod, "" when it names no PodGroup."""
    group = pod.metadata.annotations.get(GROUP_NAME, "")
    return f"{pod.metadata.namespace}/{group}" if group else ""


def single_key(pod: Pod) -> str:
    """The key of the job that a pod without gang is by itself; no PodGroup has such a name."""
    return f"{pod.metadata.namespace}/{pod.spec.scheduler_name}:{pod.metadata.uid}"


def scheduler_of_single(job: str) -> str:
    """The scheduler name of the pod that is the job of that key by itself; "" for jobs of a PodGroup."""
    scheduler, colon, _ = job.partition("/")[2].partition(":")
    return scheduler if colon else ""


def observed_status(pod: Pod) -> TaskStatus:
    """The status a pod's object shows (Volcano: getTaskStatus)."""
    phase = pod.status.phase
    if phase in ("Succeeded", "Failed", "Unknown"):
        return _PHASES[phase]
    if pod.metadata.deletion_timestamp is not None:
        return TaskStatus.RELEASING
    if phase in ("", "Pending"):
        return TaskStatus.BOUND if pod.spec.node_name else TaskStatus.PENDING
    return _PHASES.get(phase, TaskStatus.UNKNOWN)


def name_index(name: str) -> float:
    """The index at the end of a pod's name of at least three segments, infinity when there is none."""
    segments = name.split("-")
    last = segments[-1]
    return int(last) if len(segments) > 2 and last.isascii() and last.isdigit() else float("inf")


def _priority(pod: Pod) -> int:
    text = pod.metadata.annotations.get(TASK_PRIORITY, "")
    try:
        return int(text)
    except ValueError:
        return 1 if pod.spec.priority is None else pod.spec.priority
