"""Dynamic resources: devices are chosen for the claims of pods, by classes, selectors, constraints and counters."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scenario.scheduling.device_objects import (
    ENABLED,
    allocated,
    claim,
    claim_of,
    consumers_of,
    device,
    device_class,
    devices_of,
    gpus,
    request,
    resource_slice,
    templated,
    using,
)
from tests.scenario.scheduling.harness import Scenario, World, group, node, pod, scenarios
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.dynamic_resources.objects import ResourceClaimStatus

NODES = [node("n1"), node("n2")]
CLASS = device_class("gpu")
BROKEN = {"key": "broken", "effect": "NoSchedule"}
ONE = [*NODES, CLASS, group("g", 1)]


@scenarios(
    Scenario(
        name="a pod goes to the node that has the claimed device",
        cluster=[*ONE, resource_slice("s", gpus(1), on="n2"), claim("c"), using("p", "g", "c")],
        binds={"p": "n2"},
    ),
    Scenario(
        name="a class selects devices by their attributes",
        cluster=[
            *(*NODES, device_class("gpu", f'device.attributes["{"gpu.example.com"}"].model == "a100"')),
            *(resource_slice("s1", gpus(1, model="t4"), on="n1"), resource_slice("s2", gpus(1, model="a100"), on="n2")),
            *(group("g", 1), claim("c"), using("p", "g", "c")),
        ],
        binds={"p": "n2"},
    ),
    Scenario(
        name="a request selects devices by their capacity",
        cluster=[
            *ONE,
            resource_slice("s1", [device("d", capacity={"memory": {"value": "16Gi"}})], on="n1"),
            resource_slice("s2", [device("d", capacity={"memory": {"value": "80Gi"}})], on="n2"),
            claim(
                "c",
                request("gpu", 1, 'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0'),
            ),
            using("p", "g", "c"),
        ],
        binds={"p": "n2"},
    ),
    Scenario(
        name="devices that claims have already are not given again",
        cluster=[
            *(*ONE, resource_slice("s1", gpus(1), on="n1"), resource_slice("s2", gpus(1), on="n2")),
            claim("old", status=allocated("s1/gpu-0", pods=("o",))),
            *(claim("c"), using("p", "g", "c")),
        ],
        binds={"p": "n2"},
    ),
    Scenario(
        name="a gang whose devices do not suffice is not placed at all",
        cluster=[
            *(*NODES, CLASS, resource_slice("s1", gpus(1), on="n1"), resource_slice("s2", gpus(1), on="n2")),
            group("g", 3),
            *(claim(f"c{index}") for index in range(3)),
            *(using(f"p-{index}", "g", f"c{index}") for index in range(3)),
        ],
        binds={},
        reasons={"g": "0/2 nodes are unavailable: 2 cannot allocate all claims."},
    ),
    Scenario(
        name="an allocated claim holds its pod on its node",
        cluster=[
            *(*ONE, resource_slice("s1", gpus(1), on="n1"), resource_slice("s2", gpus(1), on="n2")),
            *(claim("c", status=allocated("s2/gpu-0", node="n2")), using("p", "g", "c")),
        ],
        binds={"p": "n2"},
    ),
    Scenario(
        name="a pod waits while the node of its allocated claim is full",
        cluster=[
            *(node("n1", cpu="1"), node("n2"), CLASS, group("g", 1), pod("old", on="n1", phase="Running", cpu="1")),
            resource_slice("s1", gpus(1), on="n1"),
            *(claim("c", status=allocated("s1/gpu-0", node="n1")), using("p", "g", "c")),
        ],
        binds={},
        reasons={"g": "0/2 nodes are unavailable: 1 Insufficient cpu, 1 resourceclaim not available on the node."},
    ),
    Scenario(
        name="the first alternative that can be had is taken",
        cluster=[
            *(
                *ONE,
                device_class("big", "device.attributes['gpu.example.com'].big"),
                resource_slice("s", gpus(2, big=False), on="n1"),
            ),
            claim(
                "c",
                {
                    "name": "any",
                    "firstAvailable": [
                        {"name": "big", "deviceClassName": "big", "count": 1, "allocationMode": "ExactCount"},
                        {"name": "two", "deviceClassName": "gpu", "count": 2, "allocationMode": "ExactCount"},
                    ],
                },
            ),
            using("p", "g", "c"),
        ],
        binds={"p": "n1"},
    ),
    Scenario(
        name="all devices of a node are claimed, or none while one is in use",
        cluster=[
            *(*ONE, resource_slice("s1", gpus(2), on="n1"), resource_slice("s2", gpus(3), on="n2")),
            claim("old", status=allocated("s1/gpu-0", pods=("o",))),
            *(claim("c", request("gpu", 1, allocationMode="All")), using("p", "g", "c")),
        ],
        binds={"p": "n2"},
    ),
    Scenario(
        name="all devices are not claimed while slices of the pool are missing",
        cluster=[
            *(*ONE, resource_slice("s", gpus(2), on="n1", count=2)),
            *(claim("c", request("gpu", 1, allocationMode="All")), using("p", "g", "c")),
        ],
        binds={},
        reasons={
            "g": "0/2 nodes are unavailable: 1 cannot allocate all claims, 1 request gpu: asks for all devices, "
            "but resource pool gpu.example.com/s is currently being updated."
        },
    ),
    Scenario(
        name="devices of a claim agree in an attribute where a constraint demands it",
        cluster=[
            *ONE,
            resource_slice("s1", [device("a", numa=0), device("b", numa=1)], on="n1"),
            resource_slice("s2", [device("a", numa=0), device("b", numa=1), device("c", numa=1)], on="n2"),
            claim("c", request("gpu", 2), constraints=[{"matchAttribute": "gpu.example.com/numa"}]),
            using("p", "g", "c"),
        ],
        binds={"p": "n2"},
    ),
    Scenario(
        name="devices of a claim differ in an attribute where a constraint demands it",
        cluster=[
            *ONE,
            resource_slice("s1", [device("a", card=0), device("b", card=0)], on="n1"),
            resource_slice("s2", [device("a", card=0), device("b", card=1)], on="n2"),
            claim("c", request("gpu", 2), constraints=[{"distinctAttribute": "gpu.example.com/card"}]),
            using("p", "g", "c"),
        ],
        binds={"p": "n2"},
    ),
    Scenario(
        name="a tainted device is given only to a request that tolerates it",
        cluster=[
            *(
                *NODES,
                CLASS,
                resource_slice("s1", gpus(1, taints=[{"key": "broken", "effect": "NoSchedule"}]), on="n1"),
            ),
            *(group("g", 1), claim("c"), using("p", "g", "c")),
            *(group("h", 1), claim("d", request(tolerations=[{"key": "broken", "operator": "Exists"}]))),
            using("q", "h", "d"),
        ],
        binds={"q": "n1"},
    ),
    Scenario(
        name="devices of the network go to any node that the slice selects",
        cluster=[
            *(node("n1"), node("n2", labels={"fabric": "a"}), CLASS, group("g", 1)),
            resource_slice(
                "s",
                gpus(1),
                nodeSelector={
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "fabric", "operator": "In", "values": ["a"]}]}]
                },
            ),
            *(claim("c"), using("p", "g", "c")),
        ],
        binds={"p": "n2"},
    ),
    Scenario(
        name="only the newest generation of a pool counts",
        cluster=[
            *(
                *ONE,
                resource_slice("s1", gpus(1), on="n1", pool="p"),
                resource_slice("s2", gpus(1), on="n2", pool="p", generation=2),
            ),
            *(claim("c"), using("p", "g", "c")),
        ],
        binds={"p": "n2"},
    ),
    Scenario(
        name="admin access is given to a device in use",
        cluster=[
            *(*ONE, resource_slice("s1", gpus(1), on="n1")),
            claim("old", status=allocated("s1/gpu-0", pods=("o",))),
            *(claim("c", request(adminAccess=True)), using("p", "g", "c")),
        ],
        binds={"p": "n1"},
    ),
    Scenario(
        name="taints keep devices from new claims by their effect, unless these tolerate key, value and effect",
        cluster=[
            *(*NODES, CLASS),
            resource_slice(
                "s1",
                [
                    device("observed", taints=[{"key": "hot", "effect": "None"}]),
                    device("failing", taints=[{"key": "hot", "value": "very", "effect": "NoExecute"}]),
                ],
                on="n1",
            ),
            *(group("a", 1), claim("a"), using("pa", "a", "a")),
            *(group("b", 1), claim("b"), using("pb", "b", "b")),
            *(group("c", 1), claim("c", request(tolerations=[{"key": "hot", "effect": "NoSchedule"}]))),
            using("pc", "c", "c"),
            group("d", 1),
            claim("d", request(tolerations=[{"key": "hot", "value": "very", "effect": "NoExecute"}])),
            using("pd", "d", "d"),
        ],
        binds={"pa": "n1", "pd": "n1"},
    ),
    Scenario(
        name="of alternatives one whose devices are tainted is passed over, and constraints may name alternatives",
        cluster=[
            *ONE,
            resource_slice("s1", [device("a", numa=0, taints=[BROKEN]), device("b", numa=1)], on="n1"),
            resource_slice("s2", [device("a", numa=0), device("b", numa=1), device("c", numa=0)], on="n2"),
            claim(
                "c",
                {
                    "name": "r",
                    "firstAvailable": [
                        {"name": "two", "deviceClassName": "gpu", "count": 2, "allocationMode": "ExactCount"},
                        {"name": "four", "deviceClassName": "gpu", "count": 4, "allocationMode": "ExactCount"},
                    ],
                },
                constraints=[{"requests": ["r/two"], "matchAttribute": "gpu.example.com/numa"}],
            ),
            using("p", "g", "c"),
        ],
        binds={"p": "n2"},
    ),
    Scenario(
        name="devices of all nodes and devices that select their own nodes",
        cluster=[
            *(*NODES, CLASS),
            resource_slice(
                "s",
                [
                    *(device("one", nodeName="n2"), device("any", allNodes=True)),
                    device(
                        "some",
                        nodeSelector={
                            "nodeSelectorTerms": [
                                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
                            ]
                        },
                    ),
                ],
                perDeviceNodeSelection=True,
            ),
            *(group("g", 1), claim("c", request("gpu", 3)), using("p", "g", "c")),
        ],
        binds={"p": "n2"},
    ),
    Scenario(
        name="a pool whose newer generation is for another node has no devices here",
        cluster=[
            *ONE,
            resource_slice("old", gpus(1), on="n1", pool="p"),
            resource_slice("new", gpus(1), on="n2", pool="p", generation=2, count=2),
            *(claim("c"), using("p", "g", "c")),
        ],
        binds={},
    ),
    Scenario(
        name="a claim asks for more devices than it may have",
        cluster=[*ONE, resource_slice("s", gpus(40), on="n1"), claim("c", request("gpu", 33)), using("p", "g", "c")],
        binds={},
        reasons={"g": "0/2 nodes are unavailable: 2 number of requested devices 33 exceeds the claim limit of 32."},
    ),
    Scenario(
        name="256 pods use a claim at most",
        cluster=[
            *(node("n1", pods="999", cpu="999"), CLASS, resource_slice("s", gpus(1), on="n1")),
            claim("c", status=allocated("s/gpu-0", pods=tuple(f"o{at}" for at in range(255)))),
            *(group("g", 1), using("p", "g", "c"), group("h", 1), using("q", "h", "c")),
        ],
        bind_order=["p"],
        reasons={"h": "0/1 nodes are unavailable: 1 resourceclaim in use."},
    ),
    conf=ENABLED,
)
def test_devices_are_chosen(scenario: Scenario) -> None:
    scenario.check()


@scenarios(
    Scenario(
        name="the claim does not exist",
        cluster=[*ONE, using("p", "g", "c")],
        reasons={"g": '0/2 nodes are unavailable: 2 resourceclaim "c" not found.'},
    ),
    Scenario(
        name="the claim of the template is not there yet",
        cluster=[
            *ONE,
            pod("p", "g", cpu="1", spec={"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]}),
        ],
        reasons={"g": "0/2 nodes are unavailable: 2 ResourceClaim not created yet."},
    ),
    Scenario(
        name="the class does not exist",
        cluster=[*NODES, group("g", 1), claim("c"), using("p", "g", "c")],
        reasons={"g": "0/2 nodes are unavailable: 2 request gpu: device class gpu does not exist."},
    ),
    Scenario(
        name="the claim of the template belongs to another pod",
        cluster=[*ONE, claim("p", owner="other"), templated("p", "g", cpu="1")],
        reasons={
            "g": '0/2 nodes are unavailable: 2 resourceclaim "p" was not created for the pod: it does not own it.'
        },
    ),
    Scenario(
        name="an expression fails for a device",
        cluster=[
            *(*NODES, device_class("gpu", 'device.attributes["some-driver"].healthy'), group("g", 1)),
            *(resource_slice("s", gpus(1), on="n1"), claim("c"), using("p", "g", "c")),
        ],
        reasons={
            "g": "0/2 nodes are unavailable: 1 cannot allocate all claims, "
            "1 class gpu: selector #0: CEL runtime error: no such key: healthy."
        },
    ),
    conf=ENABLED,
)
def test_waiting_reasons(scenario: Scenario) -> None:
    scenario.check()


def test_a_pod_with_a_claim_waits_while_the_feature_is_off_and_blocks_no_other() -> None:
    claimed = [resource_slice("s", gpus(1), on="n1"), claim("c"), using("p", "g", "c")]
    world = World(node("n1"), node("n2"), group("g", 1), *claimed, group("h", 1), pod("q", "h", cpu="1")).run()
    assert world.binds.keys() == {"q"}
    assert world.reason("g") == (
        "0/2 nodes are unavailable: 2 node(s) cannot be given resource claims: "
        "predicate.DynamicResourceAllocationEnable is not set."
    )


def test_the_allocation_has_devices_nodes_and_parameters() -> None:
    opaque = {"driver": "gpu.example.com", "parameters": {"mode": "fast"}}
    world = World(
        *NODES,
        device_class("gpu", config=[{"opaque": opaque}]),
        resource_slice("s", gpus(2), on="n1"),
        *(group("g", 1), claim("c", request("gpu", 2), config=[{"requests": ["gpu"], "opaque": opaque}])),
        using("p", "g", "c"),
        conf=ENABLED,
    ).run()
    stored = claim_of(world, "c")
    allocation = stored.status.allocation
    assert allocation is not None
    assert devices_of(world, "c") == ["s/gpu-0", "s/gpu-1"]
    assert [dict(each) for each in allocation.devices.config] == [
        {"source": "FromClass", "requests": ["gpu"], "opaque": opaque},
        {"source": "FromClaim", "requests": ["gpu"], "opaque": opaque},
    ]
    assert allocation.node_selector is not None
    (term,) = allocation.node_selector.node_selector_terms
    assert term.match_fields[0].values == ("n1",)
    assert stored.metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
    assert consumers_of(world, "c") == ["p"]


def test_devices_without_binding_conditions_are_taken_first() -> None:
    """An allocation names the conditions, and holds devices that bind to a node on the node of the pod."""
    conditions = {"bindsToNode": True, "bindingConditions": ["Attached"], "bindingFailureConditions": ["Failed"]}
    slices = [
        resource_slice("a-fabric", [device("d", **conditions)], allNodes=True),
        resource_slice("b-local", gpus(1), on="n1"),
    ]
    world = World(node("n1"), CLASS, *slices, claim("c0"), claim("c1"), *jobs_with_claims(2), conf=ENABLED).run()
    assert sorted(devices_of(world, f"c{name[1:]}")[0] for name in world.binds) == ["a-fabric/d", "b-local/gpu-0"]
    (fabric,) = (name for name in ("c0", "c1") if devices_of(world, name) == ["a-fabric/d"])
    allocation = claim_of(world, fabric).status.allocation
    assert allocation is not None
    assert allocation.node_selector is not None
    assert allocation.node_selector.node_selector_terms[0].match_fields[0].values == ("n1",)
    (result,) = allocation.devices.results
    assert (result.binding_conditions, result.binding_failure_conditions) == (("Attached",), ("Failed",))
    first = next(iter(world.binds))
    assert devices_of(world, f"c{first[1:]}") == ["b-local/gpu-0"]


def test_the_pods_of_a_gang_share_a_claim_on_one_node() -> None:
    members = [using(f"p-{index}", "g", "c") for index in range(3)]
    world = World(
        *(*NODES, CLASS, resource_slice("s", gpus(1), on="n2"), group("g", 3), claim("c"), *members), conf=ENABLED
    ).run()
    assert world.binds == dict.fromkeys(("p-0", "p-1", "p-2"), "n2")
    assert devices_of(world, "c") == ["s/gpu-0"]
    assert consumers_of(world, "c") == ["p-0", "p-1", "p-2"]


def test_claims_of_a_template_get_a_device_each() -> None:
    claims = [claim(f"p-{index}", owner=f"p-{index}") for index in range(4)]
    members = [templated(f"p-{index}", "g", cpu="1") for index in range(4)]
    slices = [resource_slice("s1", gpus(2), on="n1"), resource_slice("s2", gpus(2), on="n2")]
    world = World(*NODES, CLASS, *slices, group("g", 4), *claims, *members, conf=ENABLED).run()
    given = [each for index in range(4) for each in devices_of(world, f"p-{index}")]
    assert sorted(given) == ["s1/gpu-0", "s1/gpu-1", "s2/gpu-0", "s2/gpu-1"]
    assert len({id(world.state.ledger.tasks[f"ns-p-{index}"].shape) for index in range(4)}) == 1


def test_a_pod_is_placed_as_soon_as_its_status_names_its_claim() -> None:
    unnamed = templated("p", "g", cpu="1")
    del unnamed["status"]["resourceClaimStatuses"]
    world = World(node("n1"), CLASS, resource_slice("s", gpus(1), on="n1"), group("g", 1), unnamed, conf=ENABLED).run(3)
    world.put(claim("p", owner="p"))
    world.run(2)
    assert world.binds == {}
    assert world.put(templated("p", "g", cpu="1"))
    world.run(1)
    assert world.binds == {"p": "n1"}


def test_devices_of_a_discarded_gang_go_to_the_next_job_in_the_same_cycle() -> None:
    large = [group("a", 2), claim("a0"), claim("a1"), using("a-0", "a", "a0"), using("a-1", "a", "a1")]
    small = [group("b", 1), claim("b0"), using("b-0", "b", "b0")]
    world = World(node("n1"), CLASS, resource_slice("s", gpus(1), on="n1"), *large, *small, conf=ENABLED).run()
    assert world.binds == {"b-0": "n1"}
    assert devices_of(world, "b0") == ["s/gpu-0"]


def test_a_device_is_given_again_after_its_claim_is_deallocated() -> None:
    world = World(node("n1"), CLASS, resource_slice("s", gpus(1), on="n1"), conf=ENABLED)
    for manifest in (group("a", 1), claim("a"), using("a", "a", "a")):
        world.put(manifest)
    world.run()
    for manifest in (group("b", 1), claim("b"), using("b", "b", "b")):
        world.put(manifest)
    world.run(2)
    assert world.binds == {"a": "n1"}
    world.put(claim("a"))
    world.run()
    assert world.binds == {"a": "n1", "b": "n1"}


def test_a_device_counts_until_the_claim_is_seen_allocated() -> None:
    """The pod may be seen on its node first: watches of different kinds have no common order."""
    world = World(node("n1"), CLASS, resource_slice("s", gpus(1), on="n1"), conf=ENABLED)
    for manifest in (group("a", 1), claim("a"), using("a", "a", "a")):
        world.put(manifest)
    world.cycle()
    world.set_pod("a", node="n1", phase="Running")
    for manifest in (group("b", 1), claim("b"), using("b", "b", "b")):
        world.put(manifest)
    world.cycle()
    world.cycle()
    assert world.binds == {"a": "n1"}
    world.put(claim("a", status=allocated("s/gpu-0", pods=("a",))))
    world.cycle()
    assert world.binds == {"a": "n1"}


def test_a_refused_bind_is_repeated_with_the_same_devices_and_gives_them_back_later() -> None:
    world = World(node("n1"), CLASS, resource_slice("s", gpus(1), on="n1"), conf=ENABLED)
    for manifest in (group("a", 1), claim("a"), using("a", "a", "a")):
        world.put(manifest)
    world.cycle()
    world.echo(refuse={"a": 422})
    world.remove(kinds.POD, "ns/a")
    for manifest in (group("b", 1), claim("b"), using("b", "b", "b")):
        world.put(manifest)
    world.run(2)
    assert world.binds == {"a": "n1"}
    world.run(5)
    assert world.binds == {"a": "n1", "b": "n1"}


def jobs_with_claims(count: int) -> list[Manifest]:
    """Return jobs of one pod, each with a claim: pod p0 of PodGroup g0 names claim c0, and so on."""
    pairs = ((group(f"g{index}", 1), using(f"p{index}", f"g{index}", f"c{index}")) for index in range(count))
    return [each for pair in pairs for each in pair]


def partition(name: str, memory: str) -> Manifest:
    """Return a partition of a card that consumes memory of it."""
    consumed = [{"counterSet": "card", "counters": {"memory": {"value": memory}}}]
    return device(name, size=memory, consumesCounters=consumed)


@pytest.mark.parametrize(("sizes", "bound"), [(("20Gi", "20Gi"), 2), (("40Gi", "20Gi"), 1), (("40Gi",), 1)])
def test_partitions_of_a_card_consume_its_counters(sizes: tuple[str, ...], bound: int) -> None:
    counters = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]
    slices = [
        resource_slice("s1", [], on="n1", pool="p", count=2, sharedCounters=counters),
        resource_slice(
            *("s2", [partition("whole", "40Gi"), partition("half-0", "20Gi"), partition("half-1", "20Gi")]),
            on="n1",
            pool="p",
            count=2,
        ),
    ]
    claims: list[Manifest] = []
    for index, size in enumerate(sizes):
        wanted = f'device.attributes["gpu.example.com"].size == "{size}"'
        claims.append(claim(f"c{index}", request("gpu", 1, wanted)))
    jobs = [
        each
        for index in range(len(sizes))
        for each in (group(f"g{index}", 1), using(f"p{index}", f"g{index}", f"c{index}"))
    ]
    world = World(node("n1"), CLASS, *slices, *claims, *jobs, conf=ENABLED).run()
    assert len(world.binds) == bound


def test_claims_share_a_device_up_to_its_capacity() -> None:
    shared = device("nic", allowMultipleAllocations=True, capacity={"bandwidth": {"value": "10G"}})
    claims = [claim(f"c{index}", request(capacity={"requests": {"bandwidth": "4G"}})) for index in range(3)]
    jobs = jobs_with_claims(3)
    world = World(node("n1"), CLASS, resource_slice("s", [shared], on="n1"), *claims, *jobs, conf=ENABLED).run(2)
    bound = sorted(world.binds)
    assert len(bound) == 2
    shares = [claim_of(world, f"c{name[1:]}").status.allocation for name in bound]
    results = [share.devices.results[0] for share in shares if share is not None]
    assert [dict(result.consumed_capacity) for result in results] == [{"bandwidth": "4G"}] * 2
    assert len({result.share_id for result in results}) == 2


def _used(world: World) -> dict[str, int]:
    """Return how many claims have each device; raises AssertionError if a card's counters are exceeded."""
    counts: dict[str, int] = {}
    memory: dict[str, int] = {}
    for (resource, _), obj in world.objects.items():
        if resource == kinds.RESOURCE_CLAIM.resource:
            for each in devices_of(world, obj.metadata.name):
                counts[each] = counts.get(each, 0) + 1
                pool, _, name = each.partition("/")
                memory[pool] = memory.get(pool, 0) + (40 if name == "whole" else 20)
    assert all(amount <= 40 for amount in memory.values()), memory
    return counts


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("job"), st.integers(1, 3), st.integers(1, 2)),
        st.tuples(st.just("run"), st.sampled_from(["all", "refuse"])),
        st.tuples(st.just("end"), st.integers(0, 9)),
    ),
    max_size=12,
)


def _cards(count: int) -> list[Manifest]:
    counters = [{"name": "card", "counters": {"memory": {"value": "40"}}}]
    parts = [partition("whole", "40"), partition("half-0", "20"), partition("half-1", "20")]
    found = []
    for at in range(1, count + 1):
        found.append(resource_slice(f"s{at}", [], on=f"n{at}", pool=f"p{at}", count=2, sharedCounters=counters))
        found.append(resource_slice(f"d{at}", parts, on=f"n{at}", pool=f"p{at}", count=2))
    return found


@given(STEPS)
@examples(25)
def test_no_device_is_ever_given_twice(steps: list[tuple[object, ...]]) -> None:
    """Jobs come and end, and binds are refused; when all have ended, all devices are free again."""
    world = World(*NODES, CLASS, *_cards(2), conf=ENABLED)
    jobs = 0
    for step in steps:
        match step:
            case ("job", int(pods), int(devices)):
                world.put(group(f"g{jobs}", pods))
                for index in range(pods):
                    name = f"j{jobs}-{index}"
                    world.put(claim(name, request(count=devices)))
                    world.put(using(name, f"g{jobs}", name))
                jobs += 1
            case ("run", how):
                world.cycle()
                pending = {obj.metadata.name for (resource, _), obj in world.objects.items() if resource == "pods"}
                names = [name for name in world.binds if name in pending and not world.pod(name).spec.node_name]
                world.echo(refuse=dict.fromkeys(names[:1], 422) if how == "refuse" else None)
            case ("end", int(at)) if world.binds:
                _end(world, sorted(world.binds)[at % len(world.binds)])
        assert set(_used(world).values()) <= {1}
    for name in sorted(world.binds):
        _end(world, name)
    for key in [key for resource, key in world.objects if resource == kinds.POD.resource]:
        world.remove(kinds.POD, key)
    world.run(7)
    for name in ("l1", "l2"):
        for manifest in (group(name, 1), claim(name), using(name, name, name)):
            world.put(manifest)
    world.run(2)
    assert {"l1", "l2"} <= world.binds.keys()


def _end(world: World, name: str) -> None:
    """Remove a pod that was bound, and deallocate its claim as the controller of claims does."""
    if (kinds.POD.resource, f"ns/{name}") in world.objects:
        world.remove(kinds.POD, f"ns/{name}")
        stored = claim_of(world, name)
        world.put(msgspec.structs.replace(stored, status=ResourceClaimStatus()))
