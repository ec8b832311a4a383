"""Claims that wait for their first pod (the scheduler chooses, they are bound, then the gang), and local storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup
from volcanoio.model.storage import BIND_COMPLETED, SELECTED_NODE, PersistentVolume, PersistentVolumeClaim

_PATIENT = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
    arguments:
      volumebinding.bindTimeoutSeconds: 30
  - name: nodeorder
"""


def claim(name: str, storage_class: str | None = None, mode: str = "ReadWriteOnce") -> Manifest:
    spec: Manifest = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def storage_class(name: str, provisioner: str) -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def local_volume(name: str, node: str) -> Manifest:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": "local",
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": f"/disks/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }


def using(name: str, group: str, claim: str) -> Manifest:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"scheduling.k8s.io/group-name": group}},
        "spec": {
            "schedulerName": "volcano",
            "containers": [container],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        },
    }


def group(name: str, minimum: int) -> Manifest:
    spec = {"minMember": minimum, "queue": "default"}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


async def claims(c: Cluster) -> dict[str, PersistentVolumeClaim]:
    found = await c.client.list(kinds.PVC, "default")
    return {each.metadata.name: each for each in found if isinstance(each, PersistentVolumeClaim)}


def mounted(job: Manifest, claim: str) -> Manifest:
    job["spec"]["volumes"] = [{"mountPath": "/data", "volumeClaimName": claim}]
    return job


@pytest.mark.parametrize("known", [True, False], ids=["default class", "class that does not exist"])
async def test_a_gang_that_shares_a_claim_runs_on_several_nodes(known: bool) -> None:
    async with cluster(nodes=3) as c:
        await c.create(claim("data", None if known else "elsewhere", "ReadWriteMany"))
        await c.create(mounted(job_manifest("job", replicas=3, cpu="5"), "data"))
        await c.job("job", "Completed")
        annotations = (await claims(c))["data"].metadata.annotations
        assert BIND_COMPLETED in annotations
        nodes = {pod.spec.node_name for pod in await c.pods("job")}
        assert len(nodes) == 3
        if known:
            assert annotations[SELECTED_NODE] in nodes


async def test_pods_of_a_gang_go_where_volumes_are_and_each_gets_its_own() -> None:
    async with cluster(nodes=4) as c:
        await c.create(storage_class("local", "kubernetes.io/no-provisioner"))
        nodes = sorted(node.metadata.name for node in await c.client.list(kinds.NODE))
        await c.create(group("g", 2))
        for index in range(2):
            await c.create(claim(f"c{index}", "local"))
            await c.create(using(f"p{index}", "g", f"c{index}"))
        await c.create(local_volume("v0", nodes[1]))
        await c.group("g", lambda found: found.status.phase == "Inqueue", "Inqueue")
        assert [pod.spec.node_name for pod in await c.pods("p")] == ["", ""]
        await c.create(local_volume("v1", nodes[2]))
        await c.group("g", _running(2), "Running")
        placed = {pod.metadata.name[1:]: pod.spec.node_name for pod in await c.pods("p")}
        assert sorted(placed.values()) == nodes[1:3]
        volumes = [each for each in await c.client.list(kinds.PV) if isinstance(each, PersistentVolume)]
        bound = {each.spec.claim_ref.name[1:]: each.metadata.name for each in volumes if each.spec.claim_ref}
        assert {index: nodes[int(volume[1:]) + 1] for index, volume in bound.items()} == placed


async def test_a_missing_claim_leaves_the_job_waiting_with_the_reason() -> None:
    async with cluster(nodes=1) as c:
        await c.create(group("g", 1))
        await c.create(using("p", "g", "data"))
        text = 'persistentvolumeclaim "data" not found'
        await c.group("g", lambda found: any(text in each.message for each in found.status.conditions), text)
        await c.create(claim("data"))
        await c.group("g", _running(1), "Running")


async def test_a_claim_without_a_provisioned_volume_refuses_the_gang_and_is_reverted(tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(_PATIENT)
    async with cluster(nodes=2, scheduler_conf=conf, speed=60.0) as c:
        await c.create(storage_class("slow", "csi.example.com"))
        await c.create(group("g", 2))
        await c.create(claim("c0", "slow"))
        await c.create(claim("c1"))
        for index in range(2):
            await c.create(using(f"p{index}", "g", f"c{index}"))
        chosen = await c.until(
            kinds.PVC,
            PersistentVolumeClaim,
            lambda all_: SELECTED_NODE in all_["c0"].metadata.annotations,
            "a node is chosen",
        )
        assert not any(pod.spec.node_name for pod in await c.pods("p"))
        first = chosen["c0"].metadata.annotations[SELECTED_NODE]
        reported = [event.message for event in await c.events("p1", "FailedScheduling")]
        text = 'execute preBind for pod default/p0 failed: timed out waiting for PersistentVolumeClaim "default/c0"'
        assert any(text in message for message in reported), reported
        assert not any(pod.spec.node_name for pod in await c.pods("p"))
        await c.create(_made_by_hand(first))
        await c.group("g", _running(2), "Running")


def _made_by_hand(node: str) -> Manifest:
    """Create the volume as a driver would."""
    made = local_volume("late", node)
    made["spec"]["storageClassName"] = "slow"
    return made


def _running(count: int) -> Any:
    def holds(found: PodGroup) -> bool:
        return found.status.phase == "Running" and found.status.running == count

    return holds


async def test_pods_run_where_the_ephemeral_storage_that_they_request_is_free() -> None:
    """Each of two nodes offers 100Gi."""
    manifest = job_manifest("scratch", replicas=3, minimum=1, run="never")
    container = manifest["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["resources"]["requests"]["ephemeral-storage"] = "60Gi"
    async with cluster(nodes=2) as c:
        await c.create(manifest)
        pods = await c.until(kinds.POD, Pod, lambda all_: sorted(map(_state, all_.values())) == SCRATCH, "two of three")
        running = [pod.spec.node_name for pod in pods.values() if pod.status.phase == "Running"]
        assert sorted(running) == ["node-0", "node-1"]


SCRATCH = ["Running", "Running", "Unschedulable"]


def _state(pod: Pod) -> str:
    return next((one.reason for one in pod.status.conditions if one.reason == "Unschedulable"), pod.status.phase)
