"""What goes by itself: finished Jobs when their time to live is over, and pods of nodes that do not exist."""

from __future__ import annotations

import math

from tests.scenario.cluster.harness import cluster, job_manifest
from volcanoio.kube.requests import DeleteOptions
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.core import ConfigMap, Namespace, Pod


async def test_a_finished_job_is_deleted_with_its_pods() -> None:
    async with cluster() as c:
        await c.create(job_manifest("short", replicas=2, ttlSecondsAfterFinished=1))
        await c.create(job_manifest("kept", replicas=1))
        await c.job("kept", "Completed")
        await c.until(kinds.JOB, Job, lambda all_: set(all_) == {"kept"}, "the job that goes gone")
        await c.until(kinds.POD, Pod, lambda all_: not [name for name in all_ if name.startswith("short")], "its pods")


async def test_a_time_that_ended_while_the_controllers_were_down_has_ended() -> None:
    async with cluster(speed=50.0) as c:
        await c.create(job_manifest("short", ttlSecondsAfterFinished=5))
        await c.job("short", "Completed")
        c.local.stop("controllers")
        await c.local.clock.sleep(6)
        assert await c.client.list(kinds.JOB, "default")
        await c.local.start_controllers()
        await c.until(kinds.JOB, Job, lambda all_: not all_, "no job")


async def test_pods_of_missing_nodes_are_deleted() -> None:
    async with cluster(speed=math.inf) as c:
        owner = await c.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})
        await c.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "leaving"}})
        began = c.local.clock.now()
        await c.create(_on_a_missing_node("forgotten"))
        await c.create(_on_a_missing_node("owned", ownerReferences=[_reference(owner)]))
        await c.create(_on_a_missing_node("inside", namespace="leaving"))
        await c.client.delete(kinds.CONFIG_MAP, "owner", "default", DeleteOptions(propagation="Foreground"))
        await c.client.delete(kinds.NAMESPACE, "leaving")
        await c.until(kinds.POD, Pod, lambda all_: not all_, "no pod")
        assert 40 <= c.local.clock.now() - began < 60
        await c.until(kinds.CONFIG_MAP, ConfigMap, lambda all_: "owner" not in all_, "the owner gone")
        await c.until(kinds.NAMESPACE, Namespace, lambda all_: "leaving" not in all_, "the namespace gone")


def _on_a_missing_node(name: str, **metadata: object) -> Manifest:
    spec = {"nodeName": "never-existed", "containers": [{"name": "main", "image": "busybox"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def _reference(owner: Manifest) -> Manifest:
    identity = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "blockOwnerDeletion": True}
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **identity}
