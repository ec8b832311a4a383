"""Observer of the day through watches of pods and jobs, with sums of its own, independent of the scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bench.day.arrivals import NODE_CORES
from volcanoio.framework.events import Change, Event, Observed
from volcanoio.model import names
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod

FINISHED = ("Succeeded", "Failed")
OUT_OF = "OutOf"


@dataclass(slots=True)
class Seen:
    """A pod: its creation, its node while it counts there, and its cores."""

    at: float
    cores: int
    node: str = ""
    running: bool = False
    ended: bool = False


@dataclass(slots=True)
class Onlooker:
    """Fold of pods and jobs.

    `waits` are the seconds from a pod's creation until it has a node; `refused` counts pods that a node refused, by
    reason; `overfull` counts binds to nodes without room; `completed` are pods that succeeded, by finished job; `ended`
    counts jobs by final phase.
    """

    now: Callable[[], float]
    pods: dict[str, Seen] = field(default_factory=dict)
    on_node: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    completed: dict[str, int] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    running: Counter[str] = field(default_factory=Counter)
    overfull: int = 0
    busy: int = 0
    core_seconds: float = 0.0
    since: float = 0.0

    def fold(self, events: Iterable[Event]) -> None:
        """Fold a batch of the watch."""
        for event in events:
            if isinstance(event, Observed):
                if isinstance(event.object, Pod):
                    self._pod(event.object, event.change)
                elif isinstance(event.object, Job) and event.change is not Change.GONE:
                    self._job(event.object)

    def begin(self) -> None:
        """Measure utilisation from now on."""
        self.core_seconds, self.since = 0.0, self.now()

    def _job(self, job: Job) -> None:
        phase, name = job.status.state.phase, job.metadata.name
        if phase == "Completed":
            self.completed[name] = job.status.succeeded
        if phase in ("Completed", "Failed", "Aborted", "Terminated"):
            self.ended[name] = phase

    def _pod(self, pod: Pod, change: Change) -> None:
        uid = pod.metadata.uid
        seen = self.pods.get(uid)
        if seen is None:
            cores = sum(int(each.resources.requests.get("cpu", "0")) for each in pod.spec.containers)
            seen = self.pods[uid] = Seen(self.now(), cores)
        job = pod.metadata.annotations.get(names.JOB_NAME, "")
        if pod.spec.node_name and not seen.node and not seen.ended:
            seen.node = pod.spec.node_name
            self.waits.append(self.now() - seen.at)
            self._take(seen.node, seen.cores)
        gone, phase = change is Change.GONE, pod.status.phase
        running = phase == "Running" and not gone
        if running is not seen.running:
            seen.running = running
            self.running[job] += 1 if running else -1
        if (gone or phase in FINISHED) and not seen.ended:
            seen.ended = True
            if pod.status.reason.startswith(OUT_OF):
                self.refused[pod.status.reason] += 1
            if seen.node:
                self._take(seen.node, -seen.cores)
        if gone:
            del self.pods[uid]

    def _take(self, node: str, cores: int) -> None:
        now = self.now()
        self.core_seconds += self.busy * (now - self.since)
        self.since = now
        self.busy += cores
        self.on_node[node] += cores
        if cores > 0 and self.on_node[node] > NODE_CORES:
            self.overfull += 1
