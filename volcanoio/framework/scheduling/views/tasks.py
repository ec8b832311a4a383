"""Tasks and their shapes, as plugins see them."""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

import msgspec

from volcanoio.framework.scheduling.podterms import PodSelector, PodTerms
from volcanoio.framework.scheduling.volumes import VolumeClaim
from volcanoio.model.core import Affinity, Pod, Toleration


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
