"""Pods on simulated nodes that assign CPUs: what the scheduler places is admitted, and other pods are refused."""

from __future__ import annotations

from pathlib import Path

from tests.scenario.cluster.harness import cluster, job_manifest
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.nodes import Numatopology

CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: numa-aware}]
"""
AMOUNTS = {"cpu": "3", "memory": "1Gi"}


def aligned(name: str, replicas: int) -> Manifest:
    """Return a Job whose pods get three CPUs of one NUMA node each."""
    manifest = job_manifest(name, replicas=replicas, minimum=1, run="2s")
    (task,) = manifest["spec"]["tasks"]
    task["topologyPolicy"] = "single-numa-node"
    task["template"]["spec"]["containers"][0]["resources"] = {"limits": AMOUNTS, "requests": AMOUNTS}
    return manifest


async def test_pods_get_nodes_that_admit_them(tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(CONF)
    numa = "policy=single-numa-node,nodes=3,threads=2"  # room for four such pods, and CPUs for three
    async with cluster(nodes=2, node_resources="cpu=12", node_numa=numa, scheduler_conf=conf) as local:
        await local.create(aligned("many", 12))
        job = await local.job("many", "Completed")
        assert job.status.succeeded == 12
        decisions = {pod.metadata.annotations["volcano.sh/topology-decision"] for pod in await local.pods("many")}
        assert decisions == {f'{{"{number}":{{"cpu":"3"}}}}' for number in range(3)}


async def test_a_pod_that_is_bound_past_the_scheduler_is_refused() -> None:
    async with cluster(nodes=1, node_resources="cpu=8", node_numa="policy=single-numa-node") as local:
        amounts = {"cpu": "5", "memory": "1Gi"}
        container = {"name": "main", "image": "busybox", "resources": {"limits": amounts, "requests": amounts}}
        spec = {"nodeName": "node-0", "containers": [container]}
        await local.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large"}, "spec": spec})

        def has_failed(pods: dict[str, Pod]) -> bool:
            return "large" in pods and pods["large"].status.phase == "Failed"

        pods = await local.until(kinds.POD, Pod, has_failed, "large Failed")
        assert pods["large"].status.reason == "TopologyAffinityError"
        (report,) = await local.client.list(kinds.NUMATOPOLOGY)
        assert isinstance(report, Numatopology)
        assert (report.metadata.name, report.spec.pod_allocations) == ("node-0", ())
        local.local.fleet.overcommitted.clear()  # the alarm about schedulers: none placed this pod
