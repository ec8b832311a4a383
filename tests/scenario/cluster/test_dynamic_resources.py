"""Dynamic resources from end to end: claims of a template, devices in the session, reservations, and their release."""

from __future__ import annotations

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.kube.requests import PatchOptions
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.dynamic_resources.objects import DeviceResult, ResourceClaim
from volcanoio.model.packaged import config_path

STATUS = PatchOptions(subresource="status")
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


def fabric(node: str, *devices: str) -> Manifest:
    """A slice of devices that a driver attaches to the node of their pod before it starts."""
    manifest = gpus(node, 0)
    manifest["spec"]["devices"] = [
        {
            "name": name,
            "bindsToNode": True,
            "bindingConditions": ["dra.example.com/Attached"],
            "bindingFailureConditions": ["dra.example.com/AttachFailed"],
        }
        for name in devices
    ]
    return manifest


def report(claim: ResourceClaim, condition: str) -> Manifest:
    """What the driver writes to the status of a claim: a condition of its device is true."""
    (result,) = _results(claim)
    now = "2026-01-01T00:00:00Z"
    true = {"type": condition, "status": "True", "reason": "Driver", "message": "", "lastTransitionTime": now}
    return {
        "status": {
            "devices": [{"driver": result.driver, "pool": result.pool, "device": result.device, "conditions": [true]}]
        }
    }


async def test_a_pod_is_bound_once_its_device_is_attached_and_placed_again_if_that_failed() -> None:
    async with cluster(nodes=1, scheduler_conf=CONF) as c:
        (node,) = [node.metadata.name for node in await c.client.list(kinds.NODE)]
        await c.create(fabric(node, "gpu-0", "gpu-1"))
        await c.example("dynamic-resources/1-gpus.yaml")
        manifest = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "c"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
        }
        await c.create(manifest)
        job = job_manifest("fabric", run="1s", queue="gpus")
        job["spec"]["tasks"][0]["template"]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "c"}]
        await c.create(job)

        async def allocated() -> ResourceClaim:
            """The claim once it is allocated and the driver has reported nothing about its device."""

            def holds(all_: dict[str, ResourceClaim]) -> bool:
                return "c" in all_ and all_["c"].status.allocation is not None and not all_["c"].status.devices

            return (await c.until(kinds.RESOURCE_CLAIM, ResourceClaim, holds, "an allocation"))["c"]

        claim = await allocated()
        assert [result.binding_conditions for result in _results(claim)] == [("dra.example.com/Attached",)]
        assert [pod.spec.node_name for pod in await c.pods("fabric")] == [""]
        failed = report(claim, "dra.example.com/AttachFailed")
        await c.client.patch(kinds.RESOURCE_CLAIM, "c", failed, "default", STATUS)
        claim = await allocated()
        attached = report(claim, "dra.example.com/Attached")
        await c.client.patch(kinds.RESOURCE_CLAIM, "c", attached, "default", STATUS)
        await c.job("fabric", "Completed")


async def test_a_pod_that_requests_an_extended_resource_gets_devices_of_the_class_that_backs_it() -> None:
    async with cluster(nodes=2, scheduler_conf=CONF) as c:
        node = max(node.metadata.name for node in await c.client.list(kinds.NODE))
        await c.create(gpus(node, 2))
        spec = {"extendedResourceName": "example.com/gpu"}
        meta = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}}
        await c.create({**meta, "spec": spec})
        job = job_manifest("extended", run="10s")
        (container,) = job["spec"]["tasks"][0]["template"]["spec"]["containers"]
        container["resources"] = {"limits": {"cpu": "1", "example.com/gpu": "2"}}
        await c.create(job)
        await c.job("extended", "Running")
        (pod,) = await c.pods("extended")
        (claim,) = await claims(c)
        assert pod.spec.node_name == node
        assert sorted(one.device for one in _results(claim)) == ["gpu-0", "gpu-1"]
        assert (pod.status.extended_resource_claim_status or {})["resourceClaimName"] == claim.metadata.name
        await c.job("extended", "Completed")
        await c.until(kinds.RESOURCE_CLAIM, ResourceClaim, lambda all_: not all_, "the claim is released")
