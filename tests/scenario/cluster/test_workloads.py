"""Workloads of Kubernetes' own beside gangs: one scheduler, one account of each node."""

from __future__ import annotations

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.localcluster.controllers.objects import BATCH_JOB, DEPLOYMENT, Workload
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod


def deployment(replicas: int, cpu: str) -> Manifest:
    """A Deployment of the default scheduler's pods."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


async def wait_for_replicas(there: Cluster, replicas: int) -> None:
    """The Deployment has so many pods that run."""
    await there.until(
        DEPLOYMENT, Workload,
        lambda all_: "web" in all_ and all_["web"].status.get("availableReplicas", 0) == replicas,
        f"{replicas} replicas of web",
    )  # fmt: skip


async def test_a_deployment_and_a_gang_share_the_nodes() -> None:
    async with cluster(nodes=2, node_resources="cpu=4,memory=8Gi,pods=20") as there:
        client = there.client
        await client.create(DEPLOYMENT, deployment(5, "1"), namespace="default")
        await wait_for_replicas(there, 5)
        await there.create(job_manifest("gang", replicas=4, run="3000s"))
        waiting = await there.events("gang-task-0", "FailedScheduling")
        assert waiting
        assert not [pod for pod in await there.pods("gang") if pod.spec.node_name], "a gang is whole or not there"
        await client.patch(DEPLOYMENT, "web", {"spec": {"replicas": 3}}, "default")
        await there.job("gang", "Running")
        await client.patch(DEPLOYMENT, "web", {"spec": {"replicas": 5}}, "default")
        pods = await there.until(
            kinds.POD, Pod,
            lambda all_: any(one.type == "PodScheduled" and one.reason == "Unschedulable"
                             for name, pod in all_.items() if name.startswith("web") for one in pod.status.conditions),
            "a pod of web that finds no room",
        )  # fmt: skip
        waits = [pod for name, pod in pods.items() if name.startswith("web") and not pod.spec.node_name]
        reported = [one.message for pod in waits for one in pod.status.conditions if one.type == "PodScheduled"]
        assert "0/2 nodes are available: 2 Insufficient cpu." in reported
        await client.delete(kinds.JOB, "gang", "default")
        await wait_for_replicas(there, 5)


async def test_a_batch_job_runs_to_its_end() -> None:
    container = {"name": "c", "image": "i", "command": ["sleep", "0.1"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"completions": 4, "parallelism": 2, "template": template}
    async with cluster(nodes=1) as there:
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "batch"}, "spec": spec}
        await there.client.create(BATCH_JOB, body, namespace="default")
        done = await there.until(
            BATCH_JOB, Workload, lambda all_: "batch" in all_ and "completionTime" in all_["batch"].status, "its end"
        )
        assert done["batch"].status["succeeded"] == 4
        scheduled = await there.events((await there.pods("batch"))[0].metadata.name, "Scheduled")
        assert scheduled[0].source["component"] == "default-scheduler"
