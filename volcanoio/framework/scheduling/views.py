"""What plugins see: nodes as columns, shapes, tasks, jobs and queues. All read-only; the session alone writes.

The session itself is in `sessionview`.

Amounts are exact integers in scheduling units (`volcanoio.model.resources`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.podterms import PodSelector, PodTerms
from volcanoio.framework.scheduling.volumes import VolumeClaim
from volcanoio.model.core import Affinity, Node, Pod, Toleration
from volcanoio.model.scheduling import PodGroup, Queue

if TYPE_CHECKING:
    from volcanoio.framework.scheduling.subjobs import SubJob

Amounts = Mapping[str, int]


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
    """The scheduling-relevant part of a pod's spec; pods with equal parts share one. `requests` holds `pods`: 1.

    `id` is its own within a process. `best_effort`: nothing but the pod itself is requested. `affinity` is that to
    nodes; `namespace` and labels are no part of it, but what follows from them is in `terms` and `matched`.
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
    """By plugin what its `Traits.trait` said of the tasks; none of tasks outside a queue."""
    nonzero_requests: dict[str, int] = {}
    """cpu and memory as Kubernetes' scorers count them: 100m and 200 MB where a container asks for nothing."""
    terms: PodTerms | None = None
    """What the pod asks of other pods; an answer that reads it depends on PODS."""
    matched: tuple[PodSelector, ...] = ()
    """The selectors of other pods' terms that select the pod; an answer that reads it depends on PODS."""
    claims: tuple[VolumeClaim, ...] = ()
    """What the pod's volume claims ask, where a plugin watches claims; none of tasks that were not looked at yet."""
    devices: bool = False
    """Whether the pod has claims of devices (dynamic resource allocation)."""
    like: int = -1
    """The id of the shape that is the same but for `terms` and `matched`: what does not depend on PODS is asked of it.
    """


AmountName: TypeAlias = Literal["allocatable", "used", "idle", "future_idle", "nonzero_used"]
"""The amounts of nodes by the names of their methods."""


class Nodes(Protocol):
    """Nodes as columns. Arrays are int64 of one length, in row order; never write to them."""

    def __len__(self) -> int: ...

    @property
    def names(self) -> Sequence[str]:
        """Node names by row."""
        ...

    @property
    def objects(self) -> Sequence[Node]:
        """The Node objects by row."""
        ...

    def allocatable(self, resource: str) -> NDArray[np.int64]:
        """What the node offers; zeros for a resource it does not have."""
        ...

    def used(self, resource: str) -> NDArray[np.int64]:
        """What is taken: allocated, binding, bound, running and releasing tasks."""
        ...

    def idle(self, resource: str) -> NDArray[np.int64]:
        """Allocatable less used."""
        ...

    def future_idle(self, resource: str) -> NDArray[np.int64]:
        """Idle, plus what is being released, less what is pipelined."""
        ...

    def nonzero_used(self, resource: str) -> NDArray[np.int64]:
        """cpu or memory taken, counted by `Shape.nonzero_requests`."""
        ...

    def basics(self, what: AmountName) -> NDArray[np.int64]:
        """cpu (first) and memory in one array of two rows: what the method of that name says of each."""
        ...

    @property
    def all_have_basics(self) -> bool:
        """Whether every node offers some cpu and some memory."""
        ...


@lru_cache(maxsize=4096)
def pair(cpu: int, memory: int) -> NDArray[np.int64]:
    """Amounts of cpu and memory as they stand beside `Nodes.basics`, one for each of its rows; never write to it."""
    both = np.array([[cpu], [memory]], np.int64)
    both.flags.writeable = False
    return both


class AmountsAt(Protocol):
    """Where each amount of a node stands in the sequence of all of them; None of a resource that no node has."""

    def allocatable(self, resource: str) -> int | None:
        """Of `Nodes.allocatable`."""
        ...

    def used(self, resource: str) -> int | None:
        """Of `Nodes.used`."""
        ...

    def idle(self, resource: str) -> int | None:
        """Of `Nodes.idle`."""
        ...

    def future_idle(self, resource: str) -> int | None:
        """Of `Nodes.future_idle`."""
        ...

    def nonzero_used(self, resource: str) -> int | None:
        """Of `Nodes.nonzero_used`."""
        ...


class NodeRow(Protocol):
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

    def allocatable(self, resource: str) -> int:
        """As `Nodes.allocatable`, of this node."""
        ...

    def used(self, resource: str) -> int:
        """As `Nodes.used`, of this node."""
        ...

    def idle(self, resource: str) -> int:
        """As `Nodes.idle`, of this node."""
        ...

    def future_idle(self, resource: str) -> int:
        """As `Nodes.future_idle`, of this node."""
        ...

    def nonzero_used(self, resource: str) -> int:
        """As `Nodes.nonzero_used`, of this node."""
        ...


class Task(Protocol):
    """One pod, as the session sees it now."""

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
        """The node it is on or meant for, "" when none."""
        ...

    @property
    def shape(self) -> Shape:
        """What it asks for."""
        ...

    @property
    def pod(self) -> Pod:
        """The pod as it was last seen."""
        ...

    @property
    def preemptable(self) -> bool:
        """`volcano.sh/preemptable`, true unless said otherwise."""
        ...

    @property
    def may_evict(self) -> bool:
        """Whether others may be evicted for it: its preemptionPolicy is not Never."""
        ...


class Job(Protocol):
    """A PodGroup and its pods. Counters follow Volcano's JobInfo (`pkg/scheduler/api/job_info.go`)."""

    @property
    def key(self) -> str:
        """`namespace/name` of the PodGroup."""
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
    def priority(self) -> int:
        """The value of its PriorityClass, else the global default, else 0."""
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
    def min_available(self) -> int:
        """minMember."""
        ...

    @property
    def role_minimums(self) -> Mapping[str, int]:
        """minTaskMember."""
        ...

    @property
    def expendable(self) -> bool:
        """Whether the gang actions may evict its tasks: `volcano.sh/preemptable` of its PodGroup, true if not given."""
        ...

    @property
    def min_resources(self) -> Amounts | None:
        """minResources in scheduling units (quota-style names left out); None when the PodGroup gives none."""
        ...

    @property
    def allocated(self) -> Amounts:
        """Requests of its tasks in an allocated status."""
        ...

    @property
    def requested(self) -> Amounts:
        """Requests of its allocated and pending tasks."""
        ...

    @property
    def gated(self) -> Amounts:
        """Requests of its pending tasks that scheduling gates hold back; not by that of Volcano's queue admission."""
        ...

    @property
    def tasks(self) -> Collection[Task]:
        """Its tasks."""
        ...

    def count(self, *statuses: TaskStatus) -> int:
        """How many tasks are in any of these."""
        ...

    @property
    def ready_count(self) -> int:
        """Bound + Binding + Running + Allocated + Succeeded."""
        ...

    @property
    def pending_best_effort(self) -> int:
        """Pending tasks that request nothing."""
        ...

    @property
    def schedulable_count(self) -> int:
        """Pending tasks that had a place in a statement of this cycle which was then discarded."""
        ...

    @property
    def valid_count(self) -> int:
        """Ready, Pipelined and Pending tasks."""
        ...

    def is_ready(self) -> bool:
        """ready_count + pending_best_effort >= min_available."""
        ...

    def is_pipelined(self) -> bool:
        """As is_ready, with Pipelined tasks counted."""
        ...

    def all_ready(self) -> bool:
        """is_ready, roles_ready and sub_jobs_ready."""
        ...

    def is_starving(self) -> bool:
        """Ready and Pipelined tasks together are fewer than min_available."""
        ...

    def roles_valid(self) -> bool:
        """Every role has enough valid tasks; true when min_available is below the sum of role minimums."""
        ...

    def roles_ready(self) -> bool:
        """Every role has enough ready tasks; true when min_available is below the sum of role minimums."""
        ...

    def roles_pipelined(self) -> bool:
        """Every role has enough ready or Pipelined tasks; true when min_available is below the sum."""
        ...

    @property
    def sub_jobs(self) -> Collection[SubJob]:
        """Its sub-jobs; none of a job without sub-group policy, which is whole by itself."""
        ...

    @property
    def sub_job_minimums(self) -> Mapping[str, int]:
        """minSubGroups by `SubJob.group`, of those policies that give one."""
        ...

    def sub_job_of(self, task: Task) -> SubJob | None:
        """The sub-job of one of its tasks; None where there are none."""
        ...

    def sub_jobs_valid(self) -> bool:
        """Every policy has as many sub-jobs with enough tasks as its minimum says."""
        ...

    def sub_jobs_ready(self) -> bool:
        """Every policy has as many ready sub-jobs as its minimum says."""
        ...

    def sub_jobs_pipelined(self) -> bool:
        """Every policy has as many sub-jobs that are ready or have places reserved as its minimum says."""
        ...


class QueueView(Protocol):
    """A queue and what its jobs hold and want."""

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
    def open(self) -> bool:
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
        """Requests of its jobs' allocated tasks."""
        ...

    @property
    def requested(self) -> Amounts:
        """Requests of its jobs' allocated and pending tasks."""
        ...

    @property
    def jobs(self) -> Collection[Job]:
        """Its jobs."""
        ...

    @property
    def namespaces(self) -> Mapping[str, Amounts]:
        """What jobs of each namespace hold in it now, reservations included; kept from when it is first asked for."""
        ...
