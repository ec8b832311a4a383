"""raycluster-controller on a whole cluster: what it makes, follows, replaces, and says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from volcanoio_raycluster import RAY_CLUSTER

from volcanoio.kube.client import Client
from volcanoio.kube.requests import DeleteOptions
from volcanoio.model import kinds
from volcanoio.testing import DEFINITION, cluster, until

CRD = Path(__file__).parents[1] / "crd.yaml"


def template(**requests: str) -> dict[str, Any]:
    """Pods that run until they are deleted."""
    container = {"name": "ray", "image": "rayproject/ray", "resources": {"requests": requests}}
    return {
        "metadata": {"annotations": {"sim.volcanoio.dev/run-duration": "never"}},
        "spec": {"containers": [container]},
    }


def ray(workers: int, cpu: str = "1") -> dict[str, Any]:
    """A RayCluster with one group."""
    group = {"groupName": "small", "replicas": workers, "template": template(cpu=cpu)}
    spec = {"headGroupSpec": {"template": template(cpu="1")}, "workerGroupSpecs": [group]}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray"}, "spec": spec}


async def create(client: Client, workers: int, cpu: str = "1") -> None:
    """The definition, which the controller waits for, and a RayCluster."""
    await client.create(DEFINITION, yaml.safe_load(CRD.read_text()))
    await client.create(RAY_CLUSTER, ray(workers, cpu), namespace="default")


def state(name: str, workers: int) -> Any:
    """Return a check whether a RayCluster reports that state and number of workers."""

    def holds(found: Any) -> bool:
        said = found.status
        return bool(said.get("state") == name and said.get("availableWorkerReplicas") == workers)

    return holds


async def test_a_cluster_runs_as_a_gang_that_follows_its_replicas() -> None:
    """From one worker to two, and to none."""
    async with cluster(nodes=2, node_resources="cpu=4,memory=8Gi,pods=20") as client:
        await create(client, 1)
        await until(client, RAY_CLUSTER, "ray", state("ready", 1))
        group: Any = await client.get(kinds.POD_GROUP, "ray-ray-pg", "default")
        assert (group.spec.min_member, group.spec.min_resources["cpu"]) == (2, "2")
        assert group.metadata.controller.kind == "RayCluster"
        head: Any = await client.get(kinds.POD, "ray-head", "default")
        assert head.spec.containers[0].command[2].startswith("ray start --head")
        await client.patch(RAY_CLUSTER, "ray", {"spec": ray(2)["spec"]}, "default")
        await until(client, kinds.POD, "ray-small-1", lambda pod: pod.status.phase == "Running")
        await until(client, RAY_CLUSTER, "ray", state("ready", 2))
        await client.patch(RAY_CLUSTER, "ray", {"spec": ray(0)["spec"]}, "default")
        await until(client, RAY_CLUSTER, "ray", state("ready", 0))
        for name in ("ray-small-0", "ray-small-1"):
            await until(client, kinds.POD, name, None)
        assert [pod.metadata.name for pod in await client.list(kinds.POD, "default")] == ["ray-head"]


async def test_a_pod_that_is_lost_is_replaced_and_all_goes_with_the_cluster() -> None:
    """By the garbage collector, which follows the owner references."""
    async with cluster(nodes=1) as client:
        await create(client, 1)
        await until(client, RAY_CLUSTER, "ray", state("ready", 1))
        lost: Any = await client.get(kinds.POD, "ray-small-0", "default")
        await client.delete(kinds.POD, "ray-small-0", "default", DeleteOptions(grace=0))
        await until(
            client, kinds.POD, "ray-small-0",
            lambda pod: pod.metadata.uid != lost.metadata.uid and pod.status.phase == "Running",
        )  # fmt: skip
        await client.delete(RAY_CLUSTER, "ray", "default")
        for kind, name in ((kinds.POD, "ray-head"), (kinds.SERVICE, "ray-head-svc"), (kinds.POD_GROUP, "ray-ray-pg")):
            await until(client, kind, name, None)


async def test_a_cluster_that_does_not_fit_waits_whole_and_says_so() -> None:
    """And what a write was refused for is its reason."""
    async with cluster(nodes=1, node_resources="cpu=2,memory=8Gi,pods=20") as client:
        await create(client, 2)
        found: Any = await until(client, RAY_CLUSTER, "ray", state("pending", 0))
        assert found.status["conditions"][0]["status"] == "False"
        bad = [{"groupName": "Not_A_Name", "replicas": 1, "template": template(cpu="1")}]
        await client.patch(RAY_CLUSTER, "ray", {"spec": {"workerGroupSpecs": bad}}, "default")
        await until(client, RAY_CLUSTER, "ray", lambda ray: "ray-Not_A_Name-0" in ray.status.get("reason", ""))
