"""Extended resources backed by device classes: pods that request them get a claim, made before their bind."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.scenario.scheduling.device_objects import (
    ENABLED,
    claim,
    claim_of,
    consumers_of,
    device_class,
    devices_of,
    gpus,
    resource_slice,
    templated,
)
from tests.scenario.scheduling.harness import Scenario, World, group, node, pod, queue, scenarios
from volcanoio.kube.prebinder import matches
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.dynamic_resources.extended_resources import ANNOTATION, claim_name

GPU = "example.com/gpu"
NODES = [node("n1"), node("n2")]
CLASS = device_class("gpu", extendedResourceName=GPU)


def asking(name: str, group: str, amount: int = 1, resource: str = GPU, **more: Any) -> Manifest:
    """Return a pod whose container requests an extended resource."""
    return pod(name, group, **{"cpu": "1", resource: str(amount), **more})


def made_for(world: World, name: str) -> str:
    """Return the name of the claim that was made for a pod."""
    return claim_name(world.pod(name))


@scenarios(
    Scenario(
        name="a pod goes to the node that has the devices",
        cluster=[*NODES, CLASS, group("g", 1), resource_slice("s", gpus(2), on="n2"), asking("p", "g", 2)],
        binds={"p": "n2"},
    ),
    Scenario(
        name="a class backs the resource that is named after it",
        cluster=[
            *(*NODES, device_class("gpu"), group("g", 1), resource_slice("s", gpus(1), on="n2")),
            asking("p", "g", 1, "deviceclass.resource.kubernetes.io/gpu"),
        ],
        binds={"p": "n2"},
    ),
    Scenario(
        name="a gang whose devices do not suffice is not placed at all",
        cluster=[
            *(*NODES, CLASS, group("g", 3), resource_slice("s1", gpus(1), on="n1")),
            *(resource_slice("s2", gpus(1), on="n2"), *(asking(f"p-{at}", "g") for at in range(3))),
        ],
        binds={},
        reasons={"g": "0/2 nodes are unavailable: 2 cannot allocate all claims."},
    ),
    Scenario(
        name="a resource that no class backs is one of nodes",
        cluster=[*NODES, device_class("gpu"), group("g", 1), resource_slice("s", gpus(1), on="n1"), asking("p", "g")],
        binds={},
        reasons={"g": "0/2 nodes are unavailable: 2 Insufficient example.com/gpu."},
    ),
    Scenario(
        name="while a node has the resource itself it is not claimed",
        cluster=[
            *(node("n1"), node("n2", **{GPU: "1"}), CLASS, group("g", 1), resource_slice("s", gpus(1), on="n1")),
            asking("p", "g"),
        ],
        binds={"p": "n2"},
    ),
    Scenario(
        name="extended resources, claims of templates and shares of the node fit together",
        cluster=[
            *(node("n1", cpu="1"), node("n2"), CLASS, group("g", 1), resource_slice("s", gpus(2), on="n2")),
            resource_slice("t", gpus(3), on="n1"),
            *(claim("p", owner="p"), templated("p", "g", **{"cpu": "2", GPU: "1"})),
        ],
        binds={"p": "n2"},
    ),
    conf=ENABLED,
)
def test_devices_are_found_for_extended_resources(scenario: Scenario) -> None:
    scenario.check()


def test_the_claim_and_the_status_of_the_pod_list_the_requests_of_its_containers() -> None:
    world = World(node("n1"), CLASS, group("g", 1), resource_slice("s", gpus(2), on="n1"), conf=ENABLED)
    world.put(asking("p", "g", 2))
    world.run()
    assert world.binds == {"p": "n1"}
    name = made_for(world, "p")
    made = claim_of(world, name)
    assert made.metadata.annotations == {ANNOTATION: "true"}
    assert (made.metadata.controller or made.metadata).uid == "ns-p"
    (request,) = made.spec.devices.requests
    assert request.name == "container-0-request-1"
    assert request.exactly is not None
    assert (request.exactly.device_class_name, request.exactly.count) == ("gpu", 2)
    assert devices_of(world, name) == ["s/gpu-0", "s/gpu-1"]
    assert consumers_of(world, name) == ["p"]
    assert world.pod("p").status.extended_resource_claim_status == {
        "resourceClaimName": name,
        "requestMappings": [{"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-1"}],
    }


def test_a_claim_that_is_being_deleted_is_not_used_in_place_of_a_new_one() -> None:
    """The last bind of the pod was refused, and the finalizer of the claim made for it is not removed yet."""
    world = World(node("n1"), CLASS, group("g", 1), resource_slice("s", gpus(1), on="n1"), conf=ENABLED)
    world.put(asking("p", "g"))
    (making,) = [step for step in world.run().requests[0].prebind if step.create]
    assert matches(making.create, making.holds)
    leaving = {**making.create["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert not matches({**making.create, "metadata": leaving}, making.holds)


def test_devices_of_a_discarded_gang_go_to_the_next_job_in_the_same_cycle() -> None:
    large = [group("a", 2), asking("a-0", "a"), asking("a-1", "a")]
    small = [group("b", 1), asking("b-0", "b")]
    world = World(node("n1"), CLASS, resource_slice("s", gpus(1), on="n1"), *large, *small, conf=ENABLED).run()
    assert world.binds == {"b-0": "n1"}
    assert [key for resource, key in world.objects if resource == kinds.RESOURCE_CLAIM.resource] == [
        f"ns/{made_for(world, 'b-0')}"
    ]


def test_devices_count_until_the_claim_is_seen() -> None:
    """The pod may be seen on its node before the claim that was made for it."""
    world = World(node("n1"), CLASS, resource_slice("s", gpus(1), on="n1"), conf=ENABLED)
    for manifest in (group("a", 1), asking("a", "a")):
        world.put(manifest)
    world.cycle()
    world.set_pod("a", node="n1", phase="Running")
    for manifest in (group("b", 1), asking("b", "b")):
        world.put(manifest)
    world.cycle()
    world.cycle()
    assert world.binds == {"a": "n1"}


def test_a_claim_counts_in_its_queue_before_it_is_seen() -> None:
    queues = """
  - name: capacity
    arguments: {capacity.DynamicResourceAllocationEnable: true}
"""
    limited = queue("q", capability={"deviceclass/gpu": "1"})
    world = World(node("n1"), CLASS, limited, resource_slice("s", gpus(2), on="n1"), conf=ENABLED + queues)
    for name in ("a", "b"):
        world.put(group(name, 1, queue="q", phase="Inqueue"))
    world.put(asking("a", "a"))
    world.cycle()
    world.set_pod("a", node="n1", phase="Running")
    world.put(asking("b", "b"))
    world.cycle()
    world.cycle()
    assert world.binds == {"a": "n1"}


def test_a_class_made_later_backs_the_resource_and_a_deleted_one_does_not() -> None:
    world = World(node("n1"), resource_slice("s", gpus(2), on="n1"), group("a", 1), asking("a", "a"), conf=ENABLED)
    world.run(2)
    assert world.reason("a") == "0/1 nodes are unavailable: 1 Insufficient example.com/gpu."
    world.put(CLASS)
    world.run(2)
    assert world.binds == {"a": "n1"}
    world.remove(kinds.DEVICE_CLASS, "gpu")
    for manifest in (group("b", 1), asking("b", "b")):
        world.put(manifest)
    world.run(2)
    assert world.binds == {"a": "n1"}


def test_a_claim_that_a_former_scheduler_made_is_used_again() -> None:
    world = World(node("n1"), CLASS, resource_slice("s", gpus(2), on="n1"), group("a", 1), conf=ENABLED)
    world.put(asking("a", "a"))
    world.run()
    stored, unbound = claim_of(world, made_for(world, "a")), msgspec.convert(asking("a", "a"), Pod)
    again = World(node("n1"), CLASS, resource_slice("s", gpus(2), on="n1"), group("a", 1), conf=ENABLED)
    again.put(stored)
    again.put(unbound)
    again.run()
    assert again.binds == {"a": "n1"}
    assert devices_of(again, stored.metadata.name) == devices_of(world, stored.metadata.name)
    assert (again.pod("a").status.extended_resource_claim_status or {})["resourceClaimName"] == stored.metadata.name
