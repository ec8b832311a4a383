"""Small literal journals for tests: records in order, written as a process would."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from volcanoio.bus.records import Codec, EventRecord, Opened, Record
from volcanoio.framework.events import Change, Event, Observed
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject, ObjectMeta, OwnerReference
from volcanoio.model.batch import Job, JobSpec, JobState, JobStatus, TaskSpec
from volcanoio.model.core import Container, Node, NodeStatus, Pod, PodSpec, PodStatus, ResourceRequirements
from volcanoio.model.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue

OWNER = OwnerReference(api_version=kinds.JOB.api_version, kind="Job", name="train", uid="job-1", controller=True)
GROUP = "train-job-1"


class Writer:
    """Writes the journal of one process; events get the next number and the time that is in force."""

    def __init__(self, directory: Path, process: str) -> None:
        self._path = directory / process / "00000001.jsonl"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._codec = Codec()
        self._process = process
        self.now = 0.0
        self.seq = 0
        self.start()

    def start(self) -> None:
        """Begin a new start of the process."""
        self.seq = 0
        self.write(Opened(process=self._process, version="0", at=self.now, starts=True))

    def write(self, *records: Record) -> None:
        """Append records."""
        with self._path.open("ab") as file:
            for record in records:
                file.write(self._codec.encode(record) + b"\n")

    def event(self, event: Event, *, at: float | None = None, cause: int = 0) -> int:
        """Append an event and return its number."""
        self.now = self.now if at is None else at
        self.seq += 1
        stamped = msgspec.structs.replace(event, seq=self.seq, at=self.now, cause=cause)
        self.write(EventRecord(event=stamped))
        return self.seq

    def see(self, *objects: ApiObject, change: Change = Change.CHANGED, at: float | None = None) -> int:
        """Append an observation of each object and return the number of the last."""
        for obj in objects:
            self.event(Observed(resource=kinds.of(obj).resource, change=change, object=obj), at=at)
        return self.seq


def job(phase: str = "", **status: Any) -> Job:
    """Return the Job `train` with two pods."""
    state = JobState(phase=phase)
    return Job(
        metadata=ObjectMeta(name="train", namespace="default", uid="job-1"),
        spec=JobSpec(queue="ml", min_available=2, tasks=(TaskSpec(name="worker", replicas=2),)),
        status=JobStatus(state=state, **status),
    )


def group(phase: str = "Pending") -> PodGroup:
    """Return its PodGroup."""
    meta = ObjectMeta(name=GROUP, namespace="default", uid="group-1", owner_references=(OWNER,))
    spec = PodGroupSpec(min_member=2, queue="ml", min_resources={"cpu": "2", "count/pods": "2"})
    return PodGroup(metadata=meta, spec=spec, status=PodGroupStatus(phase=phase))


def pod(index: int, phase: str = "Pending", node: str = "", *, life: int = 1, **status: Any) -> Pod:
    """Return a pod of it, which requests one core; `life` counts pods of the same name."""
    name = f"train-worker-{index}"
    meta = ObjectMeta(
        name=name,
        namespace="default",
        uid=f"{name}.{life}",
        labels={names.JOB_NAME: "train"},
        annotations={names.GROUP_NAME: GROUP},
        owner_references=(OWNER,),
    )
    container = Container(name="main", resources=ResourceRequirements(requests={"cpu": "1"}))
    spec = PodSpec(node_name=node, containers=(container,), scheduler_name="volcano")
    return Pod(metadata=meta, spec=spec, status=PodStatus(phase=phase, **status))


def cluster_objects(names_: Iterable[str] = ("node-1", "node-2")) -> tuple[ApiObject, ...]:
    """Return nodes of four cores and the queue."""
    nodes = [
        Node(metadata=ObjectMeta(name=name, uid=name), status=NodeStatus(allocatable={"cpu": "4"})) for name in names_
    ]
    return (*nodes, Queue(metadata=ObjectMeta(name="ml", uid="ml")))
