"""Gangs in Kubernetes' own terms: a batch Job whose pods name a PodGroup of scheduling.k8s.io."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.commands import run_aside
from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.kube.requests import DeleteOptions
from volcanoio.localcluster.controllers.objects import BATCH_JOB
from volcanoio.model import kinds
from volcanoio.model.base import Manifest, StatusCondition
from volcanoio.model.core import Pod
from volcanoio.model.manifests import read_manifests
from volcanoio.model.packaged import config_path
from volcanoio.model.scheduling import PodGroup, Queue
from volcanoio.model.workloads import NativePodGroup

NODES: dict[str, Any] = {"nodes": 2, "node_resources": "cpu=2,memory=8Gi,pods=20"}


def example(name: str = "native-train", run: str = "never") -> list[Manifest]:
    """Return the PodGroup and the Job of the example under another name."""
    group, job = read_manifests(config_path("examples", "native-groups", "gang.yaml"))
    group["metadata"]["name"] = job["metadata"]["name"] = name
    template = job["spec"]["template"]
    template["spec"]["schedulingGroup"]["podGroupName"] = name
    template["metadata"]["annotations"]["sim.volcanoio.dev/run-duration"] = run
    return [group, job]


async def submit(c: Cluster, name: str, run: str = "never") -> None:
    for each in example(name, run):
        await c.create(each)


async def condition(c: Cluster, name: str, holds: Callable[[StatusCondition], bool], what: str) -> StatusCondition:
    """Return the condition PodGroupInitiallyScheduled of a group once it holds."""

    def found(all_: dict[str, NativePodGroup]) -> list[StatusCondition]:
        conditions = all_[name].status.conditions if name in all_ else ()
        return [one for one in conditions if one.type == "PodGroupInitiallyScheduled" and holds(one)]

    groups = await c.until(kinds.NATIVE_POD_GROUP, NativePodGroup, lambda all_: bool(found(all_)), f"{name} {what}")
    return found(groups)[0]


async def running(c: Cluster, prefix: str, number: int) -> list[Pod]:
    def those(all_: dict[str, Pod]) -> list[Pod]:
        return [pod for name, pod in all_.items() if name.startswith(prefix) and pod.status.phase == "Running"]

    found = await c.until(kinds.POD, Pod, lambda all_: len(those(all_)) == number, f"{number} of {prefix} running")
    return those(found)


def counted(queue: Queue) -> tuple[int, int]:
    """Return how many groups of a queue are admitted and run."""
    return queue.status.inqueue, queue.status.running


async def queue_columns(c: Cluster) -> list[str]:
    """Return the columns of the default queue as vcctl prints them."""
    environment = {"KUBECONFIG": str(c.local.kubeconfig), "PATH": "", "HOME": "/nonexistent"}
    done = await run_aside("queue", "get", "-n", "default", program="vcctl", environment=environment)
    return done.out.splitlines()[1].split()


async def test_a_batch_job_waits_for_its_gang_and_starts_whole(tmp_path: Path) -> None:
    """A Volcano Job has half of the room; then a new process finds the gang as it was."""
    async with cluster(data=tmp_path, **NODES) as c:
        await c.create(job_manifest("first", replicas=2, run="3000s"))
        await c.job("first", "Running")
        await submit(c, "train")
        waiting = await condition(c, "train", lambda one: one.status == "False", "unschedulable")
        assert waiting.reason == "Unschedulable"
        assert "tasks in gang unschedulable: pod group is not ready" in waiting.message
        await c.queue("default", lambda queue: counted(queue) == (1, 1), "with a native group waiting")
        assert await queue_columns(c) == ["default", "1", "Open", "root", "1", "0", "1", "0", "0"]
        assert not [pod for pod in await c.pods("train") if pod.spec.node_name]
        await c.client.delete(kinds.JOB, "first", "default")
        scheduled = await condition(c, "train", lambda one: one.status == "True", "scheduled")
        assert (scheduled.reason, scheduled.message) == ("Scheduled", "")
        await c.queue("default", lambda queue: counted(queue) == (0, 1), "with the native group running")
        pods = await running(c, "train", 3)
        assert all("scheduling.k8s.io/group-name" not in pod.metadata.annotations for pod in pods)
        groups = [each for each in await c.client.list(kinds.POD_GROUP, "default") if isinstance(each, PodGroup)]
        assert not [group for group in groups if group.metadata.name.startswith("podgroup-")]

    async with cluster(data=tmp_path, **NODES) as c:
        await submit(c, "late")
        await condition(c, "late", lambda one: one.status == "False", "unschedulable: the gang has its room still")
        assert await condition(c, "train", lambda one: one.status == "True", "scheduled") == scheduled
        await c.client.delete(kinds.NATIVE_POD_GROUP, "train", "default")
        for pod in await c.pods("train"):
            await c.client.delete(kinds.POD, pod.metadata.name, "default")
        await c.until(
            kinds.NATIVE_POD_GROUP, NativePodGroup, lambda all_: "train" not in all_, "train gone with its last pod"
        )
        await running(c, "late", 3)


async def test_a_job_that_asks_for_a_gang_gets_its_group() -> None:
    """The Job names no PodGroup: its controller makes the Workload and the PodGroup; all end with the Job."""
    _, job = example("asks")
    del job["spec"]["template"]["spec"]["schedulingGroup"]
    job["spec"]["scheduling"] = {"schedulingPolicy": {"gang": {}}}
    async with cluster(**NODES) as c:
        await c.create(job_manifest("first", replicas=2, run="3000s"))
        await c.job("first", "Running")
        await c.client.create(BATCH_JOB, job, namespace="default")
        groups = await c.until(kinds.NATIVE_POD_GROUP, NativePodGroup, bool, "a PodGroup of the Job")
        (name,) = groups
        await condition(c, name, lambda one: one.status == "False", "unschedulable")
        await c.client.delete(kinds.JOB, "first", "default")
        await condition(c, name, lambda one: one.status == "True", "scheduled")
        await running(c, "asks", 3)
        await c.client.delete(BATCH_JOB, "asks", "default", options=DeleteOptions(propagation="Background"))
        await c.until(kinds.NATIVE_POD_GROUP, NativePodGroup, lambda all_: not all_, "no PodGroup")
        assert await c.client.list(kinds.WORKLOAD, "default") == []
