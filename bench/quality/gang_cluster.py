"""A cluster of GPUs on which gangs run under the engine, in virtual time.

A pod has one GPU, four of which are on a node. Pods run when they are bound; evicted ones are gone five seconds later.
A gang that loses a pod starts again from the beginning with new pods, as Jobs with the policy RestartJob do.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from bench.quality.job_mixes import GangJob
from volcanoio.engine.scheduling.cluster.nominations import EvictionRecord
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling_effects import BindBatch, Evict
from volcanoio.model import kinds, names
from volcanoio.model.base import ObjectMeta
from volcanoio.model.core import (
    Container,
    Node,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    PriorityClass,
    ResourceList,
    ResourceRequirements,
)
from volcanoio.model.scheduling import PodGroup, PodGroupSpec, Queue, QueueSpec, QueueStatus
from volcanoio.model.times import rfc3339

FIRST = 1_767_225_600.0
"""2026-01-01T00:00:00Z."""
GPU = "nvidia.com/gpu"
GPUS_PER_NODE, TEAMS = 4, 4
GRACE = 5.0
"""Seconds until an evicted pod is gone."""
PROMPT = 60.0
"""Seconds within which a job runs for which others were evicted; else these evictions were useless."""
TICK, TICKS = 10.0, 500
"""While jobs wait there is a cycle in every so many seconds, or so many between the first and the last arrival."""


_URGENT = PriorityClass(metadata=ObjectMeta(name="urgent"), value=1000)


@dataclass(slots=True)
class Played:
    """What became of a job."""

    job: GangJob
    team: int
    attempt: int = 0
    bound: set[str] = field(default_factory=set)
    started: float | None = None
    ended: float | None = None
    lost: float = 0.0
    """Seconds of runs that were cut short."""
    evicted: int = 0
    starts: list[float] = field(default_factory=list)

    @property
    def wait(self) -> float:
        """Seconds until it first ran."""
        return self.starts[0] - self.job.arrival


class Evictions(NamedTuple):
    """Evictions of pods: all, and those for a job that did not run soon; and how often a job was evicted again."""

    all: int
    useless: int
    repeated: int


def count_evictions(records: Sequence[EvictionRecord], played: Sequence[Played]) -> Evictions:
    """Count the evictions of runs of jobs."""
    useless, repeated = 0, 0
    seen: dict[str, set[float]] = {}
    for record in records:
        starts = played[_number(record.by)].starts if record.by else ()
        useless += not any(record.at <= FIRST + start <= record.at + PROMPT for start in starts)
        times = seen.setdefault(record.job, set())
        repeated += bool(times) and record.at not in times
        times.add(record.at)
    return Evictions(len(records), useless, repeated)


class GangCluster(Offline):
    """Plays jobs to their end; `played` has what became of each."""

    def __init__(
        self, gpus: int, jobs: Sequence[GangJob], profile: Profile, *, queues: bool = False, urgent: bool = False
    ) -> None:
        """Jobs are dealt to four teams in turn.

        `queues`: each team has a queue; else all jobs are in one. `urgent`: the first team has a higher priority.
        """
        super().__init__(ClusterState(), profile, now=FIRST, period=0.0, seed=1)
        self._queues, self._urgent = queues, urgent
        self.gpus = gpus
        self.played = [Played(job, number % TEAMS) for number, job in enumerate(jobs)]
        self._events: list[tuple[float, int, str, int, str]] = []
        self._number = 0
        self._waiting = 0
        self._records: list[EvictionRecord] = []
        queues_used = [f"team-{team}" for team in range(TEAMS)] if queues else []
        nodes = [_node(at) for at in range(gpus // GPUS_PER_NODE)]
        self.load([*map(_queue, ["default", *queues_used]), *nodes, *([_URGENT] if urgent else [])])
        for number, job in enumerate(jobs):
            self._push(FIRST + job.arrival, "arrive", number)

    def play(self) -> None:
        """Run until all jobs have ended."""
        running, at = len(self.played), FIRST
        tick = max(TICK, (self.played[-1].job.arrival - self.played[0].job.arrival) / TICKS)
        while running:
            due = self._events[0][0] if self._events else math.inf
            at = min(due, at + tick) if self._waiting else due
            if at == math.inf:
                msg = f"{running} jobs never end"
                raise AssertionError(msg)
            self.now = at
            while self._events and self._events[0][0] <= at:
                _, _, what, number, key = heapq.heappop(self._events)
                running -= self._happen(what, number, key)
            self._schedule()

    def inspect(self, session: CycleSession) -> None:
        """Keep the evictions of the cycle; no snapshot."""
        records = session.state.nominations.evictions
        self._records.extend(records)
        records.clear()

    def evictions(self) -> Evictions:
        """Count the evictions."""
        return count_evictions(self._records, self.played)

    def _push(self, at: float, what: str, number: int, key: str = "") -> None:
        self._number += 1
        heapq.heappush(self._events, (at, self._number, what, number, key))

    def _happen(self, what: str, number: int, key: str) -> bool:
        """Return whether a job has ended."""
        played = self.played[number]
        match what:
            case "arrive":
                self._waiting += 1
                self.put(self._group(number))
                self._create(number)
            case "gone":
                self.remove(kinds.POD, key)
                if not any(self.pod(self._key(number, index)) for index in range(played.job.gpus)):
                    played.attempt += 1
                    self._create(number)
            case "end" if key == str(played.attempt) and played.started is not None:
                self._end(number)
                return True
        return False

    def _end(self, number: int) -> None:
        played = self.played[number]
        played.ended = self.now - FIRST
        for index in range(played.job.gpus):
            self.remove(kinds.POD, self._key(number, index))
        self.remove(kinds.POD_GROUP, f"{self._namespace(number)}/job-{number}")

    def _schedule(self) -> None:
        """Run cycles until one decides nothing."""
        decided = True
        while decided:
            self.cycle()
            decided = False
            for decision in self.last:
                self.carry_out(decision)
                match decision:
                    case BindBatch():
                        decided = True
                        for bind in decision.binds:
                            self._run(bind.namespace, bind.name)
                    case Evict():
                        decided = True
                        self._restart(_number(decision.group))

    def _run(self, namespace: str, name: str) -> None:
        """Let a bound pod run, and its job when it has all pods."""
        number = int(name.split("-")[1])
        played = self.played[number]
        pod = self.pod(f"{namespace}/{name}")
        assert pod is not None
        self.put(replace(pod, status=PodStatus(phase="Running", start_time=rfc3339(self.now))))
        played.bound.add(name)
        if len(played.bound) == played.job.gpus:
            self._waiting -= 1
            played.started = self.now - FIRST
            played.starts.append(played.started)
            self._push(self.now + played.job.duration, "end", number, str(played.attempt))

    def _restart(self, number: int) -> None:
        """Stop a job of which a pod was evicted; its other pods are deleted too."""
        played = self.played[number]
        played.bound.clear()
        if played.started is None:
            return
        played.lost += self.now - FIRST - played.started
        played.started = None
        played.evicted += 1
        self._waiting += 1
        for index in range(played.job.gpus):
            key = self._key(number, index)
            pod = self.pod(key)
            assert pod is not None
            if pod.metadata.deletion_timestamp is None:
                self.put(replace(pod, metadata=replace(pod.metadata, deletion_timestamp=rfc3339(self.now))))
            self._push(self.now + GRACE, "gone", number, key)

    def _namespace(self, number: int) -> str:
        return f"team-{self.played[number].team}"

    def _key(self, number: int, index: int) -> str:
        return f"{self._namespace(number)}/job-{number}-{index}-{self.played[number].attempt}"

    def _meta(self, number: int, name: str) -> ObjectMeta:
        return ObjectMeta(
            name=name, namespace=self._namespace(number), uid=name, creation_timestamp=rfc3339(self.now),
            annotations={names.GROUP_NAME: f"job-{number}"} if name.count("-") > 1 else {},
        )  # fmt: skip

    def _group(self, number: int) -> PodGroup:
        job = self.played[number].job
        spec = PodGroupSpec(
            min_member=job.gpus,
            priority_class_name=_URGENT.metadata.name if self._is_urgent(number) else "",
            queue=self._namespace(number) if self._queues else "default",
            min_resources={"cpu": str(job.gpus), GPU: str(job.gpus)},
        )
        return PodGroup(metadata=self._meta(number, f"job-{number}"), spec=spec)

    def _is_urgent(self, number: int) -> bool:
        return self._urgent and not self.played[number].team

    def _create(self, number: int) -> None:
        """Create the pods of a job; each declares how long it may run."""
        played = self.played[number]
        requests: ResourceList = {"cpu": "1", GPU: "1"}
        containers = (Container(name="main", resources=ResourceRequirements(requests=requests, limits=requests)),)
        spec = PodSpec(
            scheduler_name=names.SCHEDULER_NAME,
            containers=containers,
            priority=_URGENT.value if self._is_urgent(number) else 0,
            active_deadline_seconds=math.ceil(played.job.duration),
        )
        for index in range(played.job.gpus):
            name = self._key(number, index).partition("/")[2]
            self.put(Pod(metadata=self._meta(number, name), spec=spec, status=PodStatus(phase="Pending")))


def _number(group: str) -> int:
    """Return the number of the job of a PodGroup."""
    return int(group.rpartition("-")[2])


def _queue(name: str) -> Queue:
    return Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(weight=1), status=QueueStatus(state="Open"))


def _node(number: int) -> Node:
    amounts: ResourceList = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: str(GPUS_PER_NODE)}
    return Node(metadata=ObjectMeta(name=f"node-{number}"), status=NodeStatus(allocatable=amounts, capacity=amounts))
