"""Claimed devices count against queues: by number, by capacity, once for all pods of a claim, and up the tree."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.device_objects import (
    allocated,
    claim,
    device,
    device_class,
    gpus,
    request,
    resource_slice,
    templated,
    using,
)
from tests.scenario.scheduling.harness import Scenario, World, group, node, pod, queue, scenarios
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
    arguments: {predicate.DynamicResourceAllocationEnable: true}
  - name: capacity
    %s
    arguments: {capacity.DynamicResourceAllocationEnable: true, capacity.DRAConsumableCapacityEnable: true}
"""
FLAT, TREE = CONF % "", CONF % "enableHierarchy: true"
CLUSTER = [node("n1"), device_class("gpu"), device_class("nic"), resource_slice("s", gpus(8), on="n1")]


def limited(name: str, **more: str) -> Manifest:
    """Return a queue with a limit of GPUs, or with the limits in `more` and a parent."""
    parent = more.pop("parent", "")
    return queue(name, capability=more or {"deviceclass/gpu": "2"}, **({"parent": parent} if parent else {}))


def job(name: str, count: int = 1, *, queue: str = "q", phase: str = "Inqueue", **more: Any) -> list[Manifest]:
    """Return a job of one pod that claims devices."""
    claimed = claim(name, request(count=count, **more))
    return [group(name, 1, queue=queue, phase=phase, minResources={"cpu": "1"}), claimed, using(name, name, name)]


@scenarios(
    Scenario(
        name="a queue gets as many devices of a class as its capability allows",
        cluster=[limited("q"), *job("a"), *job("b"), *job("c")],
        bind_order=["a", "b"],
    ),
    Scenario(
        name="devices of a class without a limit are unlimited",
        cluster=[limited("q", **{"deviceclass/nic": "1"}), *job("a", 3), *job("b", 3)],
        bind_order=["a", "b"],
    ),
    Scenario(
        name="devices that running pods have claimed count",
        cluster=[
            *(limited("q"), group("old", 1, queue="q", phase="Running")),
            claim("old", status=allocated("s/gpu-0", pods=("old",))),
            *(using("old", "old", "old", on="n1", phase="Running"), *job("a"), *job("b")),
        ],
        bind_order=["a"],
    ),
    Scenario(
        name="devices claimed for extended resources count",
        cluster=[
            *(limited("q"), device_class("gpu", extendedResourceName="example.com/gpu")),
            *(
                each
                for name in "abc"
                for each in (
                    group(name, 1, queue="q", phase="Inqueue", minResources={"cpu": "1", "example.com/gpu": "1"}),
                    pod(name, name, **{"cpu": "1", "example.com/gpu": "1"}),
                )
            ),
        ],
        bind_order=["a", "b"],
    ),
    Scenario(
        name="a claim of several pods counts once",
        cluster=[
            *(limited("q", **{"deviceclass/gpu": "1"}), claim("c")),
            *(each for name in "ab" for each in (group(name, 1, queue="q", phase="Inqueue"), using(name, name, "c"))),
            *job("d"),
        ],
        bind_order=["a", "b"],
    ),
    Scenario(
        name="a gang of which one device is beyond the limit is not placed",
        cluster=[
            *(limited("q"), group("g", 3, queue="q", phase="Inqueue")),
            *(each for i in range(3) for each in (claim(f"p-{i}", owner=f"p-{i}"), templated(f"p-{i}", "g", cpu="1"))),
        ],
        binds={},
    ),
    Scenario(
        name="a job whose devices are beyond the limit is not admitted",
        cluster=[limited("q"), *job("a", 2, phase="Pending"), *job("b", phase="Pending")],
        binds={"a": "n1"},
        phases={"a": "Inqueue", "b": "Pending"},
        reasons={"b": "queue resource quota insufficient: insufficient deviceclass/gpu"},
    ),
    conf=FLAT,
    common=CLUSTER,
)
def test_devices_count_against_a_queue(scenario: Scenario) -> None:
    scenario.check()


def test_a_limit_of_the_parent_holds_for_its_queues_together() -> None:
    tree = [queue("root"), limited("p"), limited("a", parent="p", cpu="8"), limited("b", parent="p", cpu="8")]
    world = World(*CLUSTER, *tree, *job("a", queue="a"), *job("b", queue="b"), *job("c", queue="b"), conf=TREE).run(2)
    assert len(world.binds) == 2


def test_consumed_capacity_counts_by_dimension() -> None:
    nic = device("nic", allowMultipleAllocations=True, capacity={"bandwidth": {"value": "100G"}})
    limits = {"deviceclass/nic": "9", "bandwidth.deviceclass/nic": "10G"}
    jobs = [
        each for name in ("a", "b", "c") for each in job(name, cls="nic", capacity={"requests": {"bandwidth": "5G"}})
    ]
    world = World(*CLUSTER[:3], resource_slice("s", [nic], on="n1"), limited("q", **limits), *jobs, conf=FLAT).run(2)
    assert len(world.binds) == 2
    world.run(2)
    listed = world.queue("q").status.allocated
    assert (listed["deviceclass/nic"], listed["bandwidth.deviceclass/nic"]) == ("2", "10000000000")


def test_a_dimension_without_a_limit_is_refused_to_a_limited_class() -> None:
    nic = device("nic", allowMultipleAllocations=True, capacity={"bandwidth": {"value": "100G"}})
    jobs = job("a", cls="nic", capacity={"requests": {"bandwidth": "5G"}})
    limits = {"deviceclass/nic": "9"}
    world = World(*CLUSTER[:3], resource_slice("s", [nic], on="n1"), limited("q", **limits), *jobs, conf=FLAT).run(2)
    assert world.binds == {}
    assert world.reason("a").startswith("queue q has no room left for 1 of its tasks")


def test_the_reason_counts_devices_of_each_pod_and_of_a_shared_claim() -> None:
    entries = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}, {"name": "shared", "resourceClaimName": "shared"}]
    members: list[Manifest] = []
    for name in ("p-0", "p-1", "p-2"):
        status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}]}
        own = pod(name, "g", cpu="1", spec={"resourceClaims": entries}, status=status)
        members += [claim(name, owner=name), own]
    cluster = [*CLUSTER, limited("q", **{"deviceclass/gpu": "3"}), group("g", 3, queue="q", phase="Inqueue")]
    world = World(*cluster, claim("shared"), *members, conf=FLAT).run(2)
    assert world.binds == {}
    assert "(queue q: needs deviceclass/gpu 4, in use 0, limit 3)" in world.condition("g")[2]


def test_the_status_of_a_queue_lists_claimed_devices_until_they_are_free() -> None:
    world = World(*CLUSTER, limited("q"), *job("a", 2), group("other", 1, queue="q"), pod("o", "other"), conf=FLAT)
    world.run(3)
    assert world.queue("q").status.allocated["deviceclass/gpu"] == "2"
    world.set_pod("a", phase="Succeeded")
    world.run(3)
    assert world.queue("q").status.allocated.get("deviceclass/gpu", "0") == "0"
