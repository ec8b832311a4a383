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
