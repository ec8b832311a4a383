"""vGPUs on the whole system: chosen by the scheduler, checked and handed over by simulated nodes, free again after."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.scenario.cluster.harness import cluster, job_manifest
from volcanoio.model import kinds
from volcanoio.model.core import Node, Pod
from volcanoio.model.devices.annotations import parse_pod_devices

MODES = {"deviceshare.VGPUEnable": True, "deviceshare.NodeLockEnable": True}
CONF = {
    "actions": "enqueue, allocate, backfill",
    "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}, {"name": "deviceshare", "arguments": MODES}]}],
}


async def test_jobs_take_turns_on_shared_gpus(tmp_path: Path) -> None:
    """Five jobs of a pod on two cards with room for two pods each: nothing is refused, and all complete."""
    conf = tmp_path / "scheduler.conf"
    conf.write_text(json.dumps(CONF), encoding="utf-8")
    devices = "vgpu=1,memory=1000,split=3"
    held: defaultdict[str, set[str]] = defaultdict(set)

    def follow(events: Any) -> None:
        for event in events:
            pod = getattr(event, "object", None)
            if isinstance(pod, Pod) and pod.spec.node_name:
                for container in parse_pod_devices(pod.metadata.annotations["volcano.sh/vgpu-ids-new"]):
                    held[pod.metadata.name].update(share.uuid for share in container)

    async with (
        cluster(nodes=2, node_devices=devices, scheduler_conf=conf, speed=60.0) as c,
        c.local.observing((kinds.POD,), follow),
    ):
        for number in range(5):
            manifest = job_manifest(f"train{number}", run="5s")
            container = manifest["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
            limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "450", "volcano.sh/vgpu-cores": "40"}
            container["resources"] = {"limits": {"cpu": "100m", **limits}}
            await c.create(manifest)
        for number in range(5):
            await c.job(f"train{number}", "Completed")
        nodes = await c.client.list(kinds.NODE)
    assert len(held) == 5
    assert set().union(*held.values()) == {"GPU-node-0-0", "GPU-node-1-0"}
    assert all(isinstance(node, Node) and "hamivgpu" not in node.metadata.annotations for node in nodes)


async def test_a_gang_on_one_locked_node_is_bound_pod_by_pod(tmp_path: Path) -> None:
    """Four pods of a gang share the two cards of a node that takes one pod at a time: vGPUs, then NPUs of HAMi."""
    conf = tmp_path / "scheduler.conf"
    modes = {**MODES, "deviceshare.AscendHAMiVNPUEnable": True}
    conf.write_text(json.dumps(CONF).replace(json.dumps(MODES), json.dumps(modes)), encoding="utf-8")
    devices = "vgpu=2,memory=1000;npu=2"
    limits = [
        {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "500"},
        {"huawei.com/Ascend310P": "1", "huawei.com/Ascend310P-memory": "3072"},
    ]
    async with cluster(nodes=1, node_devices=devices, scheduler_conf=conf, speed=60.0) as c:
        for name, wanted in zip(("vgpus", "npus"), limits, strict=True):
            manifest = job_manifest(name, run="5s", replicas=4)
            container = manifest["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
            container["resources"] = {"limits": {"cpu": "100m", **wanted}}
            await c.create(manifest)
            await c.job(name, "Completed")
        (node,) = await c.client.list(kinds.NODE)
    assert isinstance(node, Node)
    assert not {"hamivgpu", "hami.io/mutex.lock"} & node.metadata.annotations.keys()
