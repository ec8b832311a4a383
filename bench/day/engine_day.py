"""A platform day without an API server: the scheduling engine on the load of `arrivals`, with kubelets of its own.

As in `bench.platform`, kubelets see a bound pod one second late, and pods run for their time. What the scheduler sees,
decides and carries out is the engine's. The day yields finished jobs, as the controllers' history has them, and
questions: moments at which jobs waited, with all that was known then.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from bench.day.arrivals import CORES, MEMBER_CORES, MEMBERS, NAMESPACE, NODE_CORES, SIZES, Arrival, arrivals, gangs
from volcanoio.engine.accounting.finished_jobs import FinishedJob, Place
from volcanoio.engine.estimates.observed_state import Observation, RunTimeOf, observe
from volcanoio.engine.estimates.run_times import RunTime, RunTimes
from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.config.configuration import default_text, parse
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.engine.scheduling.offline.remedies import new_queue
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework import entrypoints
from volcanoio.framework.scheduling_effects import BindBatch
from volcanoio.model import kinds, names
from volcanoio.model.base import ObjectMeta, OwnerReference
from volcanoio.model.core import (
    Container,
    Node,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceList,
    ResourceRequirements,
)
from volcanoio.model.scheduling import PodGroup, PodGroupSpec
from volcanoio.model.times import rfc3339
from volcanoio.runtime.loading.registry import discover

LAG = 1.0
"""Seconds after which a kubelet sees a bound pod."""
EVERY = 2.0
"""Seconds between two moments at which it is asked when waiting jobs start, if there are any."""
OWNER = "ann"
GIB = 2**30
FIRST = 1_767_225_600.0
"""2026-01-01T00:00:00Z."""


def _factor(pods: int, cores: int) -> float:
    """Return the factor of the run time of a kind of job, from 0.5 to 2.5."""
    return 0.5 * (1 + (pods * 7 + cores * 13) % 5)


_MEAN_FACTOR = sum(size * cores * _factor(size, cores) for size in SIZES for cores in CORES) / (sum(SIZES) * sum(CORES))
"""The load of a day stays the same."""


@dataclass(frozen=True, slots=True)
class Load:
    """One-minute pods and nodes; `spread` is the sigma of the logarithm of other run times, 0 for a minute each.

    With a spread, run times also differ by a factor from kind to kind of job (its size and cores).
    """

    pods: int
    nodes: int
    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class Question:
    """A moment at which jobs waited: what was known, and when it was."""

    at: float
    observed: Observation


@dataclass(slots=True)
class _Job:
    arrival: Arrival
    run: float
    bound: int = 0
    running: int = 0
    ended: int = 0
    started: float | None = None
    places: list[Place] = field(default_factory=list)

    @property
    def minimum(self) -> int:
        return int(self.arrival.manifest["spec"]["minAvailable"])


@dataclass(slots=True)
class Day:
    """What happened: finished jobs by their end, when each job started (by PodGroup), and the questions."""

    jobs: list[FinishedJob] = field(default_factory=list)
    started: dict[str, float] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)


class EngineDay:
    """Runs one day, the number `day` from FIRST on. What is `known` of run times grows with each job that finishes."""

    def __init__(self, load: Load, known: RunTimes, *, day: int, seed: int) -> None:
        self._begin = begin = FIRST + day * 86_400.0
        self._arrivals = list(arrivals(load.pods, load.nodes, seed))
        self._drawn = random.Random(seed + 1)
        self._spread = load.spread
        self._jobs: dict[str, _Job] = {}
        self._events: list[tuple[float, int, str, str]] = []
        self._number = 0
        self._pods: dict[str, Pod] = {}
        self._known = known
        self.day = Day()
        self._offline = _Inspected(_profile(), begin)
        self._offline.load([new_queue("default"), *_nodes(load.nodes), *_weeks(load.nodes)])
        self._offline.age()

    def run(self) -> Day:
        """Run to the end of the last job."""
        for number, arrival in enumerate(self._arrivals):
            self._push(self._begin + arrival.at, "arrive", str(number))
        asking = self._begin + EVERY
        while self._events:
            now = math.floor(min(self._events[0][0], asking) * 100) / 100 + 0.01
            self._offline.now = now
            while self._events and self._events[0][0] <= now:
                moment, _, what, key = heapq.heappop(self._events)
                self._happen(moment, what, key)
            self._schedule(now)
            if now >= asking:
                asking += EVERY
                if any(not job.bound for job in self._jobs.values()):
                    self._ask(now)
        return self.day

    def _push(self, moment: float, what: str, key: str) -> None:
        self._number += 1
        heapq.heappush(self._events, (moment, self._number, what, key))

    def _happen(self, now: float, what: str, key: str) -> None:
        match what:
            case "arrive":
                self._arrive(now, self._arrivals[int(key)])
            case "run":
                self._start(now, key)
            case "end":
                self._end(now, key)

    def _arrive(self, now: float, arrival: Arrival) -> None:
        run = 60.0
        if self._spread:
            run *= _factor(arrival.pods, arrival.cores) / _MEAN_FACTOR
            run *= math.exp(self._drawn.gauss(0.0, self._spread) - self._spread**2 / 2)
        job = self._jobs[arrival.name] = _Job(arrival, max(1.0, run))
        self._offline.put(_group(arrival.name, now, job.minimum))
        for index in range(arrival.pods):
            pod = _pod(f"{arrival.name}-{index}", arrival.name, now, arrival.cores)
            self._pods[pod.metadata.name] = pod
            self._offline.put(pod)

    def _start(self, now: float, name: str) -> None:
        pod = self._stored(name)
        status = PodStatus(phase="Running", start_time=rfc3339(now))
        self._offline.put(replace(pod, status=status))
        job = self._jobs[name.rpartition("-")[0]]
        job.running += 1
        if job.started is None and job.running >= job.minimum:
            job.started = now
            self.day.started[f"{NAMESPACE}/{job.arrival.name}"] = now
        job.places.append(Place(pod.spec.node_name, math.floor(now), math.floor(now + job.run)))
        self._push(now + job.run, "end", name)

    def _end(self, now: float, name: str) -> None:
        self._offline.remove(kinds.POD, f"{NAMESPACE}/{name}")
        del self._pods[name]
        job = self._jobs[name.rpartition("-")[0]]
        job.ended += 1
        if job.ended == job.arrival.pods:
            self._offline.remove(kinds.POD_GROUP, f"{NAMESPACE}/{job.arrival.name}")
            finished = _finished(job, self._begin, now)
            self.day.jobs.append(finished)
            self._known.add(finished)
            del self._jobs[job.arrival.name]

    def _stored(self, name: str) -> Pod:
        pod = self._offline.objects[kinds.POD.resource, f"{NAMESPACE}/{name}"]
        assert isinstance(pod, Pod)
        return pod

    def _schedule(self, now: float) -> None:
        """Run cycles until one decides nothing."""
        binding = True
        while binding:
            self._offline.cycle()
            binds = [decision for decision in self._offline.last if isinstance(decision, BindBatch)]
            for decision in self._offline.last:
                self._offline.carry_out(decision)
            for batch in binds:
                for bind in batch.binds:
                    self._jobs[bind.name.rpartition("-")[0]].bound += 1
                    self._push(now + LAG, "run", bind.name)
            binding = bool(binds)
        self._offline.now = now

    def _ask(self, now: float) -> None:
        """Keep what is known of the jobs that wait."""
        self._offline.run_times = self._run_time
        self._offline.cycle()
        self._offline.run_times, self._offline.now = None, now
        if self._offline.observed is not None and self._offline.observed.jobs:
            self.day.questions.append(Question(now, self._offline.observed))

    def _run_time(self, job: JobInfo) -> RunTime:
        """Return what is known now of the run time of such a job."""
        name = job.key.partition("/")[2]
        known = self._jobs.get(name)
        return self._known.of(NAMESPACE, OWNER if known else "ben", _kind(known.arrival) if known else name, job.queue)


class _Inspected(Offline):
    """An offline scheduler that reads the state of the queue model from its sessions when it is asked to."""

    def __init__(self, profile: Profile, begin: float) -> None:
        super().__init__(ClusterState(), profile, now=begin, period=0.0)
        self.run_times: RunTimeOf | None = None
        self.observed: Observation | None = None

    def inspect(self, session: CycleSession) -> None:
        self.observed = observe(session, self.run_times) if self.run_times is not None else None


def _profile() -> Profile:
    registry = discover()
    known = {group: registry.factories(group) for group in (entrypoints.SCHEDULER_PLUGINS, entrypoints.ACTIONS)}
    configuration = parse(
        default_text(),
        actions=registry.names(entrypoints.ACTIONS),
        plugins=registry.names(entrypoints.SCHEDULER_PLUGINS),
    )
    return Profile.build(configuration, known[entrypoints.SCHEDULER_PLUGINS], known[entrypoints.ACTIONS])


def _nodes(count: int) -> Iterator[Node]:
    amounts: ResourceList = {"cpu": str(NODE_CORES), "memory": "64Gi", "pods": "110"}
    for number in range(count):
        yield Node(metadata=ObjectMeta(name=f"node-{number}"), status=NodeStatus(allocatable=amounts, capacity=amounts))


def _weeks(nodes: int) -> Iterator[PodGroup | Pod]:
    """Yield the gangs that run for a week, one member on a node, as they have run since before the first day."""
    row, begin = 0, FIRST
    for number in range(len(gangs(nodes))):
        yield _group(f"week-{number}", begin - 3600, MEMBERS)
        for index in range(MEMBERS):
            pod = _pod(f"week-{number}-{index}", f"week-{number}", begin - 3600, MEMBER_CORES)
            spec = replace(pod.spec, node_name=f"node-{row % nodes}")
            yield replace(pod, spec=spec, status=PodStatus(phase="Running", start_time=rfc3339(begin - 3600)))
            row += 1


def _group(name: str, now: float, minimum: int) -> PodGroup:
    owner = OwnerReference(api_version=kinds.JOB.api_version, kind="Job", name=name, uid=f"job-{name}", controller=True)
    meta = ObjectMeta(
        name=name, namespace=NAMESPACE, uid=f"pg-{name}", creation_timestamp=rfc3339(now), owner_references=(owner,)
    )
    return PodGroup(metadata=meta, spec=PodGroupSpec(min_member=minimum, queue="default"))


def _pod(name: str, group: str, now: float, cores: int) -> Pod:
    requests: ResourceList = {"cpu": str(cores), "memory": f"{cores}Gi"}
    meta = ObjectMeta(
        name=name, namespace=NAMESPACE, uid=name, creation_timestamp=rfc3339(now), annotations={names.GROUP_NAME: group}
    )
    containers = (Container(name="main", resources=ResourceRequirements(requests=requests)),)
    return Pod(
        metadata=meta,
        spec=PodSpec(scheduler_name=names.SCHEDULER_NAME, containers=containers),
        status=PodStatus(phase="Pending"),
    )


def _finished(job: _Job, begin: float, now: float) -> FinishedJob:
    """Return the row of the history; names are of one pattern for each kind of job, as users name them.

    Its times are whole seconds, as those of API objects are.
    """
    assert job.started is not None
    arrival, seconds = job.arrival, sum(place.ended - place.started for place in job.places)
    return FinishedJob(
        uid=arrival.name, namespace=NAMESPACE, name=_kind(arrival), owner=OWNER, queue="default",
        created=math.floor(begin + arrival.at), started=math.floor(job.started), finished=math.floor(now),
        phase="Completed", pods=arrival.pods, min_available=job.minimum,
        requested={"cpu": arrival.cores * seconds, "memory": arrival.cores * GIB * seconds}, pod_seconds=seconds,
        places=tuple(job.places),
    )  # fmt: skip


def _kind(arrival: Arrival) -> str:
    """Return a name as users give it: of one pattern for jobs of one size."""
    return f"short-{arrival.pods}x{arrival.cores}-{arrival.name.rpartition('-')[2]}"
