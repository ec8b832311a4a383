"""An API server in memory with jobs, pods, queues and nodes whose statuses a test writes; its clock stands still."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from tests.localcluster.apiserver.api import SetClock
from volcanoio.cli.connection import Cluster
from volcanoio.compose.local import install_crds
from volcanoio.kube.client import Client
from volcanoio.kube.requests import PatchOptions
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer, install
from volcanoio.localcluster.apiserver.streams.pod_connections import LogOptions, LogSource
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import Kind

STATUS = PatchOptions(subresource="status")


class World:
    """Writes objects with the status that the components of a cluster would have given them."""

    def __init__(self, server: ApiServer, clock: SetClock) -> None:
        self.server = server
        self.client = Client(InProcessTransport(server))
        self.clock = clock

    def cluster(self, namespace: str = "default") -> Cluster:
        """The cluster as commands get it; "" is all namespaces."""
        return Cluster(self.client, namespace, self.clock.now)

    async def make(
        self, kind: Kind, name: str, manifest: Manifest, status: Manifest | None = None, namespace: str = "default"
    ) -> Manifest:
        """Create an object, and write its status."""
        metadata = {"name": name, **manifest.pop("metadata", {})}
        where = namespace if kind.namespaced else ""
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **manifest}
        made = await self.client.create(kind, body, namespace=where)
        return await self.status(kind, name, status, namespace) if status is not None else made

    async def status(self, kind: Kind, name: str, status: Manifest, namespace: str = "default") -> Manifest:
        """Write a status."""
        options = STATUS if kind.status_subresource else PatchOptions()
        where = namespace if kind.namespaced else ""
        return await self.client.patch(kind, name, {"status": status}, where, options)

    async def job(
        self,
        name: str,
        phase: str,
        tasks: Mapping[str, int],
        *,
        counts: Mapping[str, int] | None = None,
        waits: tuple[str, str] = ("", ""),
        metadata: Manifest | None = None,
        namespace: str = "default",
        **spec: Any,
    ) -> Manifest:
        """A job and its PodGroup; `counts` are pods by phase, `waits` reason and message of condition Unschedulable."""
        template = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
        body = {
            "metadata": metadata or {},
            "spec": {
                "minAvailable": sum(tasks.values()),
                "queue": "default",
                "schedulerName": "volcano",
                "tasks": [{"name": task, "replicas": count, "template": template} for task, count in tasks.items()],
                **spec,
            },
        }
        now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        by_task = {task: {"phase": counts or {}} for task in list(tasks)[:1]}
        status = {
            "state": {"phase": phase, "lastTransitionTime": now},
            "conditions": [{"status": phase, "lastTransitionTime": now}],
            "minAvailable": 1,
            "taskStatusCount": by_task,
            **{phase.lower(): count for phase, count in (counts or {}).items()},
        }
        made = await self.make(kinds.JOB, name, body, status, namespace)
        group: Manifest = {
            "spec": {"minMember": sum(tasks.values()), "queue": "default"},
            "status": {"phase": "Inqueue"},
        }
        reason, message = waits
        if reason:
            condition = {"type": "Unschedulable", "status": "True", "reason": reason, "message": message}
            group["status"]["conditions"] = [condition]
        await self.make(kinds.POD_GROUP, f"{name}-{made['metadata']['uid']}", group, namespace=namespace)
        return made

    async def end(self, name: str, phase: str, reason: str = "", message: str = "") -> None:
        """Change the phase of a job."""
        state = {"phase": phase, "reason": reason, "message": message}
        await self.status(kinds.JOB, name, {"state": state})

    async def pod(
        self, job: str, task: str, index: int, phase: str, node: str = "", *, namespace: str = "default", cpu: str = "1"
    ) -> Manifest:
        """A pod of a job, placed on a node or pending."""
        labels = {
            "volcano.sh/job-name": job, "volcano.sh/task-spec": task, "volcano.sh/task-index": str(index),
        }  # fmt: skip
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
        body = {
            "metadata": {"labels": labels},
            "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        }
        return await self.make(kinds.POD, f"{job}-{task}-{index}", body, pod_status(phase), namespace)

    async def node(self, name: str, *, ready: bool = True, cpu: str = "8", **extended: str) -> None:
        """A node."""
        allocatable = {"cpu": cpu, "memory": "32Gi", "pods": "110", **extended}
        conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
        await self.make(kinds.NODE, name, {}, {"allocatable": allocatable, "conditions": conditions})

    async def queue(self, name: str, status: Manifest | None = None, **spec: Any) -> None:
        """A queue."""
        await self.make(kinds.QUEUE, name, {"spec": {"weight": 1, **spec}}, {"state": "Open", **(status or {})})

    async def event(self, kind: str, name: str, reason: str, message: str, *, count: int = 1) -> None:
        """An event that happened now."""
        now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "involvedObject": {"kind": kind, "name": name, "namespace": "default"},
            "type": "Normal", "reason": reason, "message": message, "count": count,
            "firstTimestamp": now, "lastTimestamp": now,
        }  # fmt: skip
        number = len(await self.client.list(kinds.EVENT))
        await self.make(kinds.EVENT, f"{name}.{number:x}", body)


def pod_status(phase: str, *, restarts: int = 0, code: int = 0) -> Manifest:
    """The status of a pod with one container."""
    if phase == "Pending":
        return {"phase": phase}
    state = (
        {"running": {"startedAt": "2030-01-01T00:00:00Z"}} if phase == "Running" else {"terminated": {"exitCode": code}}
    )
    container = {
        "name": "main", "state": state, "ready": phase == "Running", "restartCount": restarts, "image": "busybox",
        "imageID": "",
    }  # fmt: skip
    return {"phase": phase, "containerStatuses": [container]}


@asynccontextmanager
async def world(logs: LogSource | None = None) -> AsyncIterator[World]:
    """A server with our kinds, and without any component that changes objects."""
    clock = SetClock()
    async with ApiServer.open(None, clock=clock).running() as api:
        install(api, logs=logs)
        made = World(api, clock)
        await install_crds(made.client.transport)
        yield made


async def some_jobs(w: World) -> None:
    """One job runs, one waits, one is new, one failed, and one of another namespace completed."""
    ann = {"annotations": {"volcanoio.dev/creator": "ann"}}
    await w.job("bert", "Running", {"worker": 3}, counts={"Running": 3}, priorityClassName="high", metadata=ann)
    for index in range(3):
        await w.pod("bert", "worker", index, "Running", f"gpu-{index}")
    w.clock.advance(seconds=90)
    await w.job(
        "etl", "Pending", {"map": 4}, counts={"Pending": 4}, queue="ml", metadata={"labels": {"team": "data"}},
        waits=("NotEnoughResources", "2/4 tasks in gang unschedulable"),
    )  # fmt: skip
    await w.job("sweep", "Pending", {"task": 2}, counts={})
    await w.job("broken", "Running", {"task": 1})
    await w.end("broken", "Failed", "TaskFailed", "task task failed")
    await w.make(kinds.NAMESPACE, "team", {})
    template = {"spec": {"tasks": [{"name": "task", "replicas": 1, "template": {}}]}}
    cron = {"spec": {"schedule": "@daily", "jobTemplate": template}}
    nightly = await w.make(kinds.CRON_JOB, "nightly", cron, namespace="team")
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "name": "nightly"}
    owned = {"ownerReferences": [{**owner, "uid": nightly["metadata"]["uid"], "controller": True}]}
    await w.job("report-1", "Completed", {"task": 1}, counts={"Succeeded": 1}, namespace="team", metadata=owned)
    w.clock.advance(seconds=5)


async def some_queues(w: World) -> None:
    """A tree of queues with shares, and one whose parent does not exist."""
    await w.queue("root")
    used = {"cpu": "24", "memory": "100Gi", "nvidia.com/gpu": "3"}
    await w.queue(
        "ml", {"allocated": used, "running": 2, "pending": 1, "inqueue": 3}, parent="root", weight=3,
        capability={"cpu": "48", "nvidia.com/gpu": "8"}, deserved={"cpu": "30", "nvidia.com/gpu": "4"},
        guarantee={"resource": {"cpu": "10"}},
    )  # fmt: skip
    await w.queue("ml-a", parent="ml")
    await w.queue("ml-b", parent="ml")
    await w.queue("etl", {"state": "Closed", "allocated": {"cpu": "32"}}, parent="root", reclaimable=False)
    await w.queue("lost", parent="gone")
    for name in ("cpu-1", "cpu-2"):
        await w.node(name, cpu="64")


class Written:
    """Each pod has written two lines; followed logs end when the test says so."""

    def __init__(self) -> None:
        self.ended = anyio.Event()

    async def read(
        self, namespace: str, pod_manifest: Manifest, container: str, options: LogOptions
    ) -> AsyncIterator[list[bytes]]:
        """Yield the lines, and with `follow` a last one at the end."""
        name = pod_manifest["metadata"]["name"].encode()
        yield [b"2030-01-01T00:00:%02dZ %s says %d" % (number, name, number) for number in (1, 2)]
        if options.follow:
            await self.ended.wait()
            yield [b"2030-01-01T00:00:03Z %s ends" % name]
