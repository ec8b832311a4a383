"""Dynamic resources from end to end: claims of a template, devices in the session, reservations, and their release."""

from __future__ import annotations

from tests.scenario.cluster.harness import Cluster, cluster
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.dynamic_resources.objects import DeviceResult, ResourceClaim
from volcanoio.model.packaged import config_path

CONF = config_path("scheduler") / "dynamic-resources.conf"


def gpus(node: str, count: int) -> Manifest:
    """The slice that a driver would publish for a node."""
    devices = [{"name": f"gpu-{index}", "attributes": {"model": {"string": "a100"}}} for index in range(count)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpu.example.com"},
        "spec": {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": devices},
    }


async def claims(c: Cluster) -> list[ResourceClaim]:
    """The claims of the namespace."""
    return [each for each in await c.client.list(kinds.RESOURCE_CLAIM, "default") if isinstance(each, ResourceClaim)]


async def test_the_example_trains_in_turns_on_the_devices_of_its_queue() -> None:
    async with cluster(nodes=3, scheduler_conf=CONF) as c:
        nodes = sorted(node.metadata.name for node in await c.client.list(kinds.NODE))
        for node in nodes[:2]:
            await c.create(gpus(node, 2))
        await c.example("dynamic-resources/1-gpus.yaml")
        await c.example("dynamic-resources/2-training.yaml")
        await c.job("first", "Running")
        running = [each for each in await claims(c) if each.status.allocation is not None]
        assert len(running) == 3
        given = [(one.pool, one.device) for each in running for one in _results(each)]
        assert len(set(given)) == 3
        placed = {pod.metadata.name: pod.spec.node_name for pod in await c.pods("first")}
        for each in running:
            (consumer,) = each.status.reserved_for
            assert {one.pool for one in _results(each)} == {placed[consumer.name]}
        listed = await c.queue("gpus", lambda found: "deviceclass/gpu" in found.status.allocated, "devices in use")
        assert listed.status.allocated["deviceclass/gpu"] == "3"
        waiting = await c.client.get_raw(kinds.JOB, "second", "default")
        assert waiting["status"]["state"]["phase"] == "Pending"
        await c.job("first", "Completed")
        await c.job("second", "Completed")
        await c.until(kinds.RESOURCE_CLAIM, ResourceClaim, lambda all_: not all_, "all claims are released")


def _results(claim: ResourceClaim) -> list[DeviceResult]:
    allocation = claim.status.allocation
    assert allocation is not None, claim
    return list(allocation.devices.results)
