"""What plugins read: nodes as columns, shapes, tasks, sub-jobs, jobs, queues, and claims of volumes and devices.

All are read-only protocols; only the session writes. The session itself is in `sessionview`. Amounts are exact integers
in scheduling units (`volcanoio.model.resources`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Literal, Protocol, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.podterms import NodeCounts, PodSelector, PodTerms
from volcanoio.model.batch import NetworkTopology
from volcanoio.model.core import Affinity, Node, NodeSelectorTerm, Pod, Requirement, Toleration
from volcanoio.model.scheduling import PodGroup, Queue

Amounts: TypeAlias = Mapping[str, int]
"""Resource name to an integer in scheduling units (`volcanoio.model.resources`)."""


class BoundVolume(msgspec.Struct, frozen=True, kw_only=True):
    """The volume of a bound claim, as far as it matters for nodes.

    `node_affinity` are the terms of its node affinity, None if every node can reach it; `zones` its labels of zone and
    region; `attached_nodes` the nodes to which it is attached already, where it does not count again.
    """

    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    zones: tuple[tuple[str, str], ...] = ()
    attached_nodes: tuple[str, ...] = ()


class VolumeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim of a pod, without names unless they matter.

    `key` (`namespace/name`) is "" for a claim of a single pod. `error` is why no node is feasible at all. `volume` is
    None while the claim is not bound; then `waits_for_consumer` is set if its class has WaitForFirstConsumer,
    `selected_node` is the node for which a volume is being provisioned, and `reserved_volume` the volume that names the
    claim. `driver` is that of its volume, or its class's provisioner. `size` is in bytes.
    """

    error: str = ""
    key: str = ""
    volume: BoundVolume | None = None
    waits_for_consumer: bool = False
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    volume_mode: str = ""
    size: int = 0
    selector: tuple[Requirement, ...] | None = None
    selected_node: str = ""
    reserved_volume: str = ""
    driver: str = ""


class VolumesView(Protocol):
    """The claims of tasks, and where volumes are in use."""

    def claims(self, task: Task) -> Sequence[tuple[str, VolumeClaim]]:
        """Return the claims of a task by key, in the order of its volumes."""
        ...

    def used_on(self, claim: str) -> Mapping[str, int]:
        """Return by node how many of its tasks use a claim."""
        ...

    def waiting(self, claim: str) -> int:
        """Return how many tasks without a node name a claim."""
        ...

    def in_use(self, driver: str) -> NodeCounts:
        """Return how many volumes of a driver are used or attached per node; always the same object for a driver."""
        ...


class DeviceClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim of devices that a pod names, without its own name unless it matters.

    `error` is why no node is feasible at all. `key` (`namespace/name`) is "" for a claim that was made for the pod from
    a template and is not allocated yet: pods with such claims of equal content can have the same shape. `devices` is
    the JSON of the claim's `spec.devices`, without the parameters for drivers. `is_extended`: it is for the extended
    resources of a pod and does not exist yet; the scheduler makes it before the bind.
    """

    error: str = ""
    key: str = ""
    devices: bytes = b""
    is_extended: bool = False


class DeviceClaimsView(Protocol):
    """The device claims of tasks."""

    @property
    def backing(self) -> Mapping[str, str]:
        """Extended resources for which devices are claimed, and the class of each."""
        ...

    def claims(self, task: Task) -> Sequence[tuple[str, DeviceClaim]]:
        """Return the claims of a task by key (`namespace/name`), in the order of its spec."""
        ...

    def status_of(self, uid: str) -> TaskStatus | None:
        """Return the status of the task of a pod, None if there is no such pod."""
        ...


class TaskStatus(IntEnum):
    """Volcano's task states (`pkg/scheduler/api/types.go`), in its order."""

    PENDING = 0
    ALLOCATED = 1
    PIPELINED = 2
    BINDING = 3
    BOUND = 4
    RUNNING = 5
    RELEASING = 6
    SUCCEEDED = 7
    FAILED = 8
    UNKNOWN = 9


ALLOCATED_STATUSES = frozenset({TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.RUNNING, TaskStatus.ALLOCATED})


class Shape(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An equivalence class of pods: the part of the spec that scheduling depends on. `requests` contains `pods`: 1.

    `id` is unique within a process. `best_effort`: the pod requests nothing else. `affinity` is node affinity;
    namespace and labels are not part of a shape, but what follows from them is in `terms` and `matched`.
    """

    id: int
    requests: dict[str, int]
    best_effort: bool
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[tuple[str, str, int], ...] = ()
    limits: dict[str, int] = {}
    traits: dict[str, str] = {}
    """The results of `Traits.trait` by plugin; empty for tasks outside a queue."""
    nonzero_requests: dict[str, int] = {}
    """cpu and memory as Kubernetes' scorers count them: 100m and 200 MB where a container requests nothing."""
    terms: PodTerms | None = None
    """The pod's requirements on other pods; an answer that reads them depends on PODS."""
    matched: tuple[PodSelector, ...] = ()
    """The selectors of other pods' terms that select the pod; an answer that reads them depends on PODS."""
    claims: tuple[VolumeClaim, ...] = ()
    """The pod's volume claims, if a plugin watches claims; empty for tasks that were not looked at yet."""
    has_device_claims: bool = False
    """Whether the pod has claims of devices (dynamic resource allocation)."""
    device_claims: tuple[DeviceClaim, ...] = ()
    """These claims, if a plugin watches them; empty for tasks that were not looked at yet."""
    base_id: int = -1
    """The id of the same shape without `terms` and `matched`: a cache key for answers that do not depend on PODS."""


class Task(Protocol):
    """One pod, in its current state in the session."""

    @property
    def uid(self) -> str:
        """The pod's uid."""
        ...

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        ...

    @property
    def name(self) -> str:
        """The pod's name."""
        ...

    @property
    def job(self) -> str:
        """The key of its job (`ns/podgroup`), "" when it has none."""
        ...

    @property
    def role(self) -> str:
        """`volcano.sh/task-spec`, "" when it has none."""
        ...

    @property
    def priority(self) -> int:
        """The pod's priority, or `volcano.sh/task-priority`."""
        ...

    @property
    def priority_class_name(self) -> str:
        """The pod's PriorityClass."""
        ...

    @property
    def created(self) -> str:
        """creationTimestamp (RFC 3339)."""
        ...

    @property
    def status(self) -> TaskStatus:
        """Its state in the session."""
        ...

    @property
    def node(self) -> str:
        """The node it is on or assigned to, "" when none."""
        ...

    @property
    def shape(self) -> Shape:
        """Its shape."""
        ...

    @property
    def pod(self) -> Pod:
        """The pod as last observed."""
        ...

    @property
    def bind_annotations(self) -> Mapping[str, str]:
        """What plugins chose on its node (`points.BindAnnotations`), until its pod shows it; {} for other tasks."""
        ...

    @property
    def preemptable(self) -> bool:
        """`volcano.sh/preemptable`, true by default."""
        ...

    @property
    def can_preempt(self) -> bool:
        """Whether pods may be evicted for it: its preemptionPolicy is not Never."""
        ...


class GangView(Protocol):
    """Tasks of which a minimum runs together: a job or a sub-job."""

    @property
    def key(self) -> str:
        """`namespace/name` of a job's PodGroup, `JOB/POLICY-VALUES` of a sub-job.

        The tasks that no policy selects are a sub-job with the job's key.
        """
        ...

    @property
    def network_topology(self) -> NetworkTopology | None:
        """How close to each other its tasks are placed: that of the PodGroup, or of a sub-job's policy."""
        ...

    @property
    def min_available(self) -> int:
        """How many tasks must be placed together: a job's minMember, a sub-job's subGroupSize (1 by default)."""
        ...

    @property
    def priority(self) -> int:
        """The value of a job's PriorityClass, else the global default, else 0.

        The priority of a sub-job is the highest of its tasks, at least 0.
        """
        ...

    @property
    def tasks(self) -> Collection[Task]:
        """Its tasks."""
        ...

    @property
    def ready_count(self) -> int:
        """The number of Bound, Binding, Running, Allocated and Succeeded tasks."""
        ...

    @property
    def pending_best_effort(self) -> int:
        """The number of pending best-effort tasks."""
        ...

    def is_ready(self) -> bool:
        """Return whether ready_count + pending_best_effort >= min_available."""
        ...

    def is_pipelined(self) -> bool:
        """Return whether the same holds with Pipelined tasks counted."""
        ...


class SubJob(GangView, Protocol):
    """Tasks of a job that run together: one value of a sub-group policy's labels, or the tasks that no policy selects.

    Source: Volcano, `pkg/scheduler/api/sub_job_info.go`.
    """

    @property
    def group(self) -> str:
        """`JOB/POLICY`, the same for all of one policy; the job's key for tasks that no policy selects."""
        ...

    @property
    def job(self) -> str:
        """The key of its job."""
        ...

    @property
    def match_index(self) -> int:
        """The first of its label values as a number, 0 if it is none: its index among the sub-jobs of its policy."""
        ...

    @property
    def pipelined_count(self) -> int:
        """The number of its Pipelined tasks."""
        ...


class Job(GangView, Protocol):
    """A PodGroup and its pods. Counters follow Volcano's JobInfo (`pkg/scheduler/api/job_info.go`)."""

    @property
    def has_network_topology(self) -> bool:
        """Whether it, or one of its sub-group policies, has a network topology."""
        ...

    @property
    def uid(self) -> str:
        """The PodGroup's uid."""
        ...

    @property
    def group(self) -> PodGroup:
        """The PodGroup object."""
        ...

    @property
    def namespace(self) -> str:
        """Its namespace."""
        ...

    @property
    def queue(self) -> str:
        """The name of its queue."""
        ...

    @property
    def created(self) -> str:
        """creationTimestamp of the PodGroup."""
        ...

    @property
    def phase(self) -> str:
        """The PodGroup's phase in this session ("" counts as Pending)."""
        ...

    @property
    def role_minimums(self) -> Mapping[str, int]:
        """minTaskMember."""
        ...

    @property
    def preemptable(self) -> bool:
        """Whether the gang actions may evict its tasks: `volcano.sh/preemptable` of its PodGroup, true by default."""
        ...

    @property
    def is_evicted_whole(self) -> bool:
        """Whether its tasks are evicted all together or not at all (a native PodGroup with disruptionMode `all`)."""
        ...

    @property
    def min_resources(self) -> Amounts | None:
        """minResources in scheduling units, without quota-style names; None when the PodGroup has none."""
        ...

    @property
    def allocated(self) -> Amounts:
        """The requests of its tasks in an allocated status."""
        ...

    @property
    def requested(self) -> Amounts:
        """The requests of its allocated and pending tasks."""
        ...

    @property
    def gated(self) -> Amounts:
        """The requests of its pending tasks with scheduling gates, that of Volcano's queue admission excepted."""
        ...

    def count(self, *statuses: TaskStatus) -> int:
        """Return how many tasks are in any of these statuses."""
        ...

    @property
    def terminating_count(self) -> int:
        """The number of Releasing tasks that still occupy a node."""
        ...

    @property
    def schedulable_count(self) -> int:
        """The number of pending tasks that were placed by a statement of this cycle that was then discarded."""
        ...

    @property
    def valid_count(self) -> int:
        """The number of Ready, Pipelined and Pending tasks."""
        ...

    def all_ready(self) -> bool:
        """Return whether is_ready, roles_ready and sub_jobs_ready are all true."""
        ...

    def is_starving(self) -> bool:
        """Return whether Ready and Pipelined tasks together are fewer than min_available."""
        ...

    def roles_valid(self) -> bool:
        """Return whether every role has enough valid tasks; True if min_available is below the sum of minimums."""
        ...

    def roles_ready(self) -> bool:
        """Return whether every role has enough ready tasks; True if min_available is below the sum of minimums."""
        ...

    def roles_pipelined(self) -> bool:
        """Return whether every role has enough ready or Pipelined tasks; true when min_available is below the sum."""
        ...

    @property
    def sub_jobs(self) -> Collection[SubJob]:
        """Its sub-jobs; empty for a job without sub-group policies."""
        ...

    @property
    def sub_job_minimums(self) -> Mapping[str, int]:
        """minSubGroups by `SubJob.group`, for the policies that set one."""
        ...

    def sub_job_of(self, task: Task) -> SubJob | None:
        """Return the sub-job of one of its tasks; None for a job without sub-jobs."""
        ...

    def sub_jobs_valid(self) -> bool:
        """Return whether every policy has its minimum of sub-jobs with enough tasks."""
        ...

    def sub_jobs_ready(self) -> bool:
        """Return whether every policy has its minimum of ready sub-jobs."""
        ...

    def sub_jobs_pipelined(self) -> bool:
        """Return whether every policy has its minimum of ready or pipelined sub-jobs."""
        ...


class QueueView(Protocol):
    """A queue with the amounts its jobs have allocated and requested."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def object(self) -> Queue:
        """The Queue."""
        ...

    @property
    def weight(self) -> int:
        """spec.weight."""
        ...

    @property
    def priority(self) -> int:
        """spec.priority."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether its state is Open or still empty."""
        ...

    @property
    def capability(self) -> Amounts:
        """spec.capability; a missing name is unlimited."""
        ...

    @property
    def guarantee(self) -> Amounts:
        """spec.guarantee.resource."""
        ...

    @property
    def deserved(self) -> Amounts:
        """spec.deserved."""
        ...

    @property
    def allocated(self) -> Amounts:
        """The requests of its jobs' allocated tasks."""
        ...

    @property
    def requested(self) -> Amounts:
        """The requests of its jobs' allocated and pending tasks."""
        ...

    @property
    def jobs(self) -> Collection[Job]:
        """Its jobs."""
        ...

    @property
    def namespaces(self) -> Mapping[str, Amounts]:
        """The amounts that jobs of each namespace have allocated in it now, reservations included; computed from the
        first use on.
        """
        ...


AmountName: TypeAlias = Literal["allocatable", "used", "idle", "future_idle", "nonzero_used"]
"""The amounts of nodes by the names of their methods."""


AmountType_co = TypeVar("AmountType_co", covariant=True)


class NodeAmounts(Protocol[AmountType_co]):
    """The amounts of a resource: of one node, or of all."""

    def allocatable(self, resource: str) -> AmountType_co:
        """Return the allocatable amount; zero for a resource that a node does not have."""
        ...

    def used(self, resource: str) -> AmountType_co:
        """Return the amount of allocated, binding, bound, running and releasing tasks."""
        ...

    def idle(self, resource: str) -> AmountType_co:
        """Return allocatable less used."""
        ...

    def future_idle(self, resource: str) -> AmountType_co:
        """Return idle, plus what is being released, less what is pipelined."""
        ...

    def nonzero_used(self, resource: str) -> AmountType_co:
        """Return the used cpu or memory, counted by `Shape.nonzero_requests`."""
        ...


class Nodes(NodeAmounts[NDArray[np.int64]], Protocol):
    """Nodes as columns. Arrays are int64 of one length, in row order; never write to them.

    An array reflects the placements up to the call: call again rather than keep it.
    """

    def __len__(self) -> int: ...

    @property
    def names(self) -> Sequence[str]:
        """Node names by row."""
        ...

    @property
    def objects(self) -> Sequence[Node]:
        """The Node objects by row."""
        ...

    def cpu_memory(self, what: AmountName) -> NDArray[np.float64]:
        """Return cpu (first) and memory of the method of that name, as one array of two rows.

        The type is float64, which is exact below 2^53, for the arithmetic of scorers.
        """
        ...

    @property
    def all_fit(self) -> bool:
        """Whether a task of the current shape is known to fit the idle room of every node."""
        ...

    def utilization(self, cpu: int, memory: int) -> NDArray[np.float64]:
        """Return (used + these amounts) / allocatable of cpu (first) and memory; valid where `all_have_cpu_memory`.

        Several scorers start with it: the result is cached for equal amounts.
        """
        ...

    @property
    def all_have_cpu_memory(self) -> bool:
        """Whether every node has some allocatable cpu and memory."""
        ...


@lru_cache(maxsize=4096)
def cpu_memory_column(cpu: int, memory: int) -> NDArray[np.float64]:
    """Return amounts of cpu and memory as a column to add to `Nodes.cpu_memory`; never write to it."""
    both = np.array([[cpu], [memory]], np.float64)
    both.flags.writeable = False
    return both


class AmountColumns(NodeAmounts[int | None], Protocol):
    """The index of each amount in the sequence of all amounts of a node; None for a resource that no node has."""


class NodeRow(NodeAmounts[int], Protocol):
    """One node, for the scalar forms of extension points."""

    @property
    def row(self) -> int:
        """Its index in the columns."""
        ...

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def object(self) -> Node:
        """The Node."""
        ...
