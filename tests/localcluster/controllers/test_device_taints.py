"""Pods that use devices with NoExecute taints are evicted, unless their claims tolerate these."""

from __future__ import annotations

from typing import Any

from tests.localcluster.controllers.worlds import World
from volcanoio.framework.events import Change, Observed
from volcanoio.localcluster.controllers.devicetainteviction import DeviceTaintEvictionController
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import POD, RESOURCE_CLAIM, RESOURCE_SLICE, Kind
from volcanoio.model.times import rfc3339


def part(*devices: Manifest) -> Manifest:
    """A slice of these devices."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": "s"}, "spec": {"driver": "d", "nodeName": "a", "pool": pool, "devices": list(devices)}}


def tainted(world: World, effect: str = "NoExecute") -> Manifest:
    """The device g with a taint."""
    return {"name": "g", "taints": [{"key": "broken", "effect": effect, "timeAdded": rfc3339(world.now)}]}


def user(world: World, name: str, device: str, *tolerations: Manifest, **result: Any) -> None:
    """A pod that runs, and its claim with a device."""
    spec = {"nodeName": "a", "resourceClaims": [{"name": "c", "resourceClaimName": name}]}
    world.put(POD, {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": {"phase": "Running"}})
    uid = world.get(POD, f"ns/{name}")["metadata"]["uid"]
    one = {"request": "r", "driver": "d", "pool": "p", "device": device, "tolerations": list(tolerations), **result}
    status = {
        "allocation": {"devices": {"results": [one]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
    }
    world.put(RESOURCE_CLAIM, {"metadata": {"name": name, "namespace": "ns"}, "spec": {}, "status": status})


def leaving(world: World) -> set[str]:
    """Pods that are being deleted."""
    return {one["metadata"]["name"] for one in world.all(POD) if one["metadata"].get("deletionTimestamp")}


def test_pods_go_at_once_or_when_the_tolerance_of_their_claims_ends() -> None:
    world = World(DeviceTaintEvictionController())
    world.put(RESOURCE_SLICE, part({"name": "g"}, {"name": "h"}))
    user(world, "touchy", "g")
    user(world, "patient", "g", {"key": "broken", "operator": "Exists", "tolerationSeconds": 60})
    user(world, "eternal", "g", {"operator": "Exists"})
    user(world, "elsewhere", "h")
    user(world, "of-another-driver", "g", driver="e")
    world.run_until_stable()
    world.change(RESOURCE_SLICE, "s", {"spec": part(tainted(world), {"name": "h"})["spec"]})
    world.run_until_stable()
    assert leaving(world) == {"touchy"}
    reasons = [one.get("reason") for one in world.get(POD, "ns/touchy")["status"]["conditions"]]
    assert "DeletionByDeviceTaintManager" in reasons
    assert ("DeviceTaintManagerEviction", "Marking for deletion") in world.events
    world.wait(61)
    world.run_until_stable()
    assert leaving(world) == {"touchy", "patient"}


def test_a_pod_goes_if_it_uses_a_device_that_was_tainted_before() -> None:
    world = World(DeviceTaintEvictionController())
    world.put(RESOURCE_SLICE, part(tainted(world)))
    world.run_until_stable()
    user(world, "late", "g")
    world.run_until_stable()
    assert leaving(world) == {"late"}


def test_other_effects_evict_nothing() -> None:
    world = World(DeviceTaintEvictionController())
    for effect in ("NoSchedule", "None"):
        world.put(RESOURCE_SLICE, {**part(tainted(world, effect)), "metadata": {"name": effect.lower()}})
    user(world, "p", "g")
    world.run_until_stable()
    assert leaving(world) == set()


IMMUNE = {"operator": "Exists"}


def test_a_change_of_a_claim_or_of_its_pod_concerns_the_tainted_slices_of_its_pools() -> None:
    controller = DeviceTaintEvictionController()
    world = World(controller)
    for name, pool, device in (("s", "p", tainted(world)), ("t", "q", tainted(world)), ("u", "p", {"name": "h"})):
        spec = part(device)["spec"]
        world.put(
            RESOURCE_SLICE, {"metadata": {"name": name}, "spec": {**spec, "pool": {**spec["pool"], "name": pool}}}
        )
    user(world, "one", "g", IMMUNE)
    user(world, "other", "g", IMMUNE, pool="q")
    user(world, "of-another-driver", "g", driver="e")
    results = [{"request": "r", "driver": "d", "pool": pool, "device": "g", "tolerations": [IMMUNE]} for pool in "pq"]
    user(world, "both", "g")
    others = [{"resource": "pods", "name": "x", "uid": "x"}]
    reserved = [*world.get(RESOURCE_CLAIM, "ns/both")["status"]["reservedFor"], *others]
    shared = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    world.change(RESOURCE_CLAIM, "ns/both", {"status": shared})
    world.run_until_stable()

    def concerned(kind: Kind, name: str) -> list[str]:
        obj = world.cached.by_key(kind)[f"ns/{name}"]
        event = Observed(resource=kind.resource, change=Change.CHANGED, object=obj)
        return list(controller.keys(event, world.cached))

    for kind in (RESOURCE_CLAIM, POD):
        assert {name: concerned(kind, name) for name in ("one", "other", "of-another-driver", "both")} == {
            "one": ["s"],
            "other": ["t"],
            "of-another-driver": [],
            "both": ["s", "t"],
        }


def test_all_pods_that_share_a_claim_go() -> None:
    world = World(DeviceTaintEvictionController())
    world.put(RESOURCE_SLICE, part(tainted(world)))
    user(world, "a", "g", IMMUNE)
    user(world, "b", "h")
    both = [{"resource": "pods", "name": name, "uid": world.get(POD, f"ns/{name}")["metadata"]["uid"]} for name in "ab"]
    world.change(RESOURCE_CLAIM, "ns/b", {"status": {"reservedFor": both}})
    world.run_until_stable()
    assert leaving(world) == set()
    results = [{"request": "r", "driver": "d", "pool": pool, "device": "g"} for pool in "pq"]
    world.change(RESOURCE_CLAIM, "ns/b", {"status": {"allocation": {"devices": {"results": results}}}})
    world.run_until_stable()
    assert leaving(world) == {"a", "b"}
