"""KubeRay: Ray clusters in a queue for one of them, and a Ray job from its PodGroup to the PodGroup's shrinking."""

from __future__ import annotations

from tests.scenario.cluster.containers import read
from tests.scenario.cluster.harness import Cluster
from tests.scenario.integrations import operators
from tests.scenario.integrations.support import (
    amounts,
    cpus,
    create,
    create_all,
    define,
    group,
    hurry,
    is_unschedulable,
    kind_of,
    manifest,
    running,
    starts_as_a_whole,
    unhurried,
)
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod


def ray_cluster(name: str, **labels: str) -> Manifest:
    """The RayCluster of the example under another name, with more labels."""
    obj = manifest("kuberay", "raycluster.yaml", kind="RayCluster")
    obj["metadata"] |= {"name": name, "labels": {**obj["metadata"]["labels"], **labels}}
    return obj


async def submit(c: Cluster, obj: Manifest) -> Manifest:
    """A user creates a RayCluster, and KubeRay what belongs to it."""
    stored = await create(c, obj)
    await operators.kuberay_cluster(c, stored)
    return stored


async def test_the_second_cluster_waits_for_the_queue_as_a_whole_until_the_first_is_deleted() -> None:
    async with unhurried() as c:
        await define(c, ray_cluster("any"))
        await create_all(c, "kuberay", "queue.yaml")
        first = await submit(c, ray_cluster("cluster-a"))
        found = await group(c, "ray-cluster-a-pg", lambda one: one.status.running == 3, "runs")
        assert (found.spec.min_member, found.spec.queue, found.status.phase) == (3, "ray", "Running")
        assert amounts(found.spec.min_resources) == amounts({"cpu": "3", "memory": "4Gi"})
        await submit(c, ray_cluster("cluster-b"))
        waiting = await group(c, "ray-cluster-b-pg", is_unschedulable, "waits")
        assert waiting.status.phase == "Pending"
        assert not [pod for pod in await c.pods("cluster-b") if pod.spec.node_name]
        (event, *_) = await c.events("cluster-b-head", "FailedScheduling")
        assert event.message.startswith("3/3 tasks in gang unschedulable: ")
        await c.client.delete(kind_of(first), "cluster-a", "default")
        await c.until(kinds.POD, Pod, lambda all_: "cluster-a-head" not in all_, "the first one's pods are collected")
        await running(c, 3, **{"ray.io/cluster": "cluster-b"})
        groups = await c.client.list(kinds.POD_GROUP, "default")
        assert [each.metadata.name for each in groups] == ["ray-cluster-b-pg"]


async def test_pods_say_their_group_queue_and_role() -> None:
    async with unhurried() as c:
        await define(c, ray_cluster("any"))
        await create_all(c, "kuberay", "queue.yaml")
        await submit(c, ray_cluster("cluster-a"))
        await running(c, 3, **{"ray.io/cluster": "cluster-a"})
        worker = (await read(c, kinds.POD, "cluster-a-workers-worker-2"))["metadata"]
        assert worker["labels"]["volcano.sh/queue-name"] == "ray"
        assert worker["annotations"]["volcano.sh/task-spec"] == "workers"
        queue = await c.queue("ray", lambda one: amounts(one.status.allocated).get("cpu") == 3, "has its pods")
        assert queue.status.running == 1


async def test_with_autoscaling_the_gang_is_the_least_number_and_later_workers_join() -> None:
    scaled = ray_cluster("cluster-a")
    scaled["spec"]["enableInTreeAutoscaling"] = True
    async with unhurried() as c:
        await define(c, scaled)
        await create_all(c, "kuberay", "queue.yaml")
        stored = await submit(c, scaled)
        found = await group(c, "ray-cluster-a-pg", lambda one: one.status.running == 2, "runs")
        assert found.spec.min_member == 2
        template = scaled["spec"]["workerGroupSpecs"][0]["template"]
        annotations = {"scheduling.k8s.io/group-name": "ray-cluster-a-pg", "volcano.sh/task-spec": "workers"}
        await create(c, operators.pod("cluster-a-workers-worker-9", template, stored, annotations=annotations))
        await group(c, "ray-cluster-a-pg", lambda one: one.status.running == 3, "has grown")


async def test_the_topology_of_the_labels_is_that_of_the_group() -> None:
    labels = {"volcano.sh/network-topology-mode": "soft", "volcano.sh/network-topology-highest-tier-allowed": "2"}
    async with unhurried() as c:
        await define(c, ray_cluster("any"))
        await create_all(c, "kuberay", "queue.yaml")
        await submit(c, ray_cluster("cluster-a", **labels))
        await running(c, 3, **{"ray.io/cluster": "cluster-a"})
        stored = await read(c, kinds.POD_GROUP, "ray-cluster-a-pg")
        assert stored["spec"]["networkTopology"] == {"mode": "soft", "highestTierAllowed": 2}


async def test_with_multi_host_indexing_each_replica_is_a_sub_group_and_all_start_together() -> None:
    async def start(c: Cluster) -> None:
        await operators.kuberay_cluster(c, await create(c, ray_cluster("cluster-a")), multi_host=True)

    async with unhurried(**cpus(3)) as c:
        await define(c, ray_cluster("any"))
        await create_all(c, "kuberay", "queue.yaml")
        await starts_as_a_whole(c, lambda: start(c), "ray-cluster-a-pg", 3)
        policy = (await read(c, kinds.POD_GROUP, "ray-cluster-a-pg"))["spec"]["subGroupPolicy"]
        assert [(each["name"], each["minSubGroups"]) for each in policy] == [("headgroup", 1), ("workers", 2)]


async def test_a_ray_job_reserves_room_for_its_submitter_and_ends_with_an_empty_group() -> None:
    job = manifest("kuberay", "rayjob.yaml", kind="RayJob")
    async with unhurried() as c:
        await define(c, job, ray_cluster("any"))
        await create_all(c, "kuberay", "queue.yaml")
        stored = await create(c, job)
        cluster = await operators.kuberay_job(c, stored)
        found = await group(c, "ray-counter-pg", lambda one: one.status.running == 3, "its cluster runs")
        assert found.spec.min_member == 3
        assert amounts(found.spec.min_resources) == amounts({"cpu": "3500m", "memory": "4296Mi"})
        await operators.kuberay_submit(c, stored)
        await group(c, "ray-counter-pg", lambda one: one.status.running == 4, "its submitter runs in the same group")
        hurry(c)
        await group(c, "ray-counter-pg", lambda one: one.status.succeeded == 1, "its submitter is done")
        await operators.kuberay_end(c, stored, cluster)
        await c.until(kinds.POD, Pod, lambda all_: "counter-x7k2p-head" not in all_, "the cluster's pods are collected")
        empty = await read(c, kinds.POD_GROUP, "ray-counter-pg")
        assert empty["spec"]["minMember"] == 0
        await c.queue("ray", lambda one: not any(amounts(one.status.allocated).values()), "has room again")
        await c.client.delete(kind_of(job), "counter", "default")
        await c.until(kinds.POD_GROUP, kinds.POD_GROUP.type, lambda all_: not all_, "the group goes with the RayJob")
