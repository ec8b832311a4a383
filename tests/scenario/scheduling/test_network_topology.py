"""Network topology: pods of a gang stay within HyperNodes, and take the closest ones that have room."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.scheduling.harness import Scenario, World, group, labelled, node, pod, running, scenarios, waiting
from tests.scenario.scheduling.networks import hyper_node, racks
from tests.scenario.scheduling.podrules import terminating
from tests.scenario.scheduling.preemption_clusters import PRIORITY_CLASSES
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

ALLOCATE = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: network-topology-aware}]
"""
WITHOUT_PLUGIN = ALLOCATE.replace(", {name: network-topology-aware}", "")
EVICT = ALLOCATE.replace("backfill", "backfill, gangpreempt").replace(
    "{name: predicates}", "{name: predicates}, {name: proportion}"
)


def job(name: str, minimum: int, *, hard: int | str | None = None, soft: bool = False, **more: Any) -> Manifest:
    """Return a PodGroup with a hard topology up to a tier, by number or name, or with a soft one."""
    topology: Manifest = {"mode": "soft"} if soft else {"mode": "hard"}
    if hard is not None:
        topology["highestTierName" if isinstance(hard, str) else "highestTierAllowed"] = hard
    return group(name, minimum, phase="Inqueue", networkTopology=topology, **more)


def racks_of(world: World) -> dict[str, int]:
    """Return how many pods were bound in each rack."""
    counts: dict[str, int] = {}
    for bound in world.binds.values():
        counts[bound.partition("-")[0]] = counts.get(bound.partition("-")[0], 0) + 1
    return counts


@pytest.mark.parametrize(
    ("cluster", "minimum", "topology", "expected"),
    [
        pytest.param(racks(2, 3, 4), 4, {"hard": 1}, {"r2": 4}, id="hard: the only rack with enough nodes"),
        pytest.param(racks(2, 3), 4, {"hard": 1}, {}, id="hard: no rack has enough nodes"),
        pytest.param(racks(2, 3), 4, {"hard": "rack"}, {}, id="hard by the name of the tier"),
        pytest.param(racks(2, 2, 3, spines=2), 4, {"hard": 2}, {"r0": 2, "r1": 2}, id="hard: one spine has enough"),
        pytest.param(racks(2, 2, 3, spines=2), 5, {"hard": 2}, {}, id="hard: no spine has enough"),
        pytest.param(racks(2, 2, 3, spines=2), 5, {"soft": True}, {"r0": 2, "r1": 2, "r2": 1}, id="soft: anywhere"),
        pytest.param(racks(2, 2, 3, spines=2), 3, {"soft": True}, {"r2": 3}, id="soft: the free rack"),
        pytest.param(racks(4, 3), 3, {"hard": 1}, {"r1": 3}, id="the rack that is filled most"),
        pytest.param(racks(2, 2), 3, {"hard": "row"}, {"r0": 2, "r1": 1}, id="a tier name that no HyperNode has"),
    ],
)
def test_a_gang_is_placed_within_a_hyper_node(
    cluster: list[Manifest], minimum: int, topology: dict[str, Any], expected: dict[str, int]
) -> None:
    world = World(*cluster, job("a", minimum, **topology), *waiting("a", minimum), conf=ALLOCATE).run()
    assert racks_of(world) == expected


@scenarios(
    Scenario(
        name="a new pod joins the rack of the gang's other pods",
        conf=ALLOCATE,
        cluster=[*racks(2, 2), job("a", 1, hard=1), *running("a", 1, on="r1-0"), pod("late", "a", cpu="1")],
        binds={"late": "r1-1"},
    ),
    Scenario(
        name="a new pod waits while the rack of the gang's other pods is full",
        conf=ALLOCATE,
        cluster=[
            *racks(1, 2),
            job("a", 1, hard=1),
            *running("a", 1, on="r0-0"),
            pod("late", "a", cpu="1"),
        ],
        fit_errors={"a": "In hyperNode r0: 0/1 nodes are unavailable: 1 Insufficient cpu."},
    ),
    Scenario(
        name="with a soft topology the new pod goes to the closest rack with room",
        conf=ALLOCATE,
        cluster=[
            *racks(1, 2, 1, 1, spines=2),
            job("a", 1, soft=True),
            *running("a", 1, on="r2-0"),
            pod("late", "a", cpu="1"),
        ],
        binds={"late": "r3-0"},
    ),
    Scenario(
        name="with a soft topology the same spine goes before a fuller rack in another one",
        conf=ALLOCATE,
        cluster=[
            *racks(2, 1, 1, 1, spines=2),
            group("b", 1, phase="Running"),
            *running("b", 1, on="r0-0"),
            job("a", 1, soft=True),
            *running("a", 1, on="r2-0"),
            pod("late", "a", cpu="1"),
        ],
        binds={"late": "r3-0"},
    ),
    Scenario(
        name="pods beyond the minimum are placed in the same rack, for which the rack with room for all is chosen",
        conf=ALLOCATE,
        cluster=[*racks(2, 4), job("a", 1, hard=1), *waiting("a", 5)],
        bind_counts={"a": 4},
        fit_errors={"a": "In hyperNode r1: 0/4 nodes are unavailable: 4 Insufficient cpu."},
    ),
    Scenario(
        name="a rack with room for all pods goes before a fuller one with room for the minimum",
        conf=ALLOCATE,
        cluster=[
            *racks(2, 2),
            pod("b", "", cpu="1", on="r0-0", phase="Running"),
            job("a", 1, hard=1),
            *waiting("a", 2),
        ],
        bind_counts={"a": 2},
    ),
    Scenario(
        name="pods that request nothing stay in the rack of the gang's other pods, too",
        conf=ALLOCATE,
        cluster=[
            node("r0-0", "1", pods="1"),
            hyper_node("r0", 1, "r0-0"),
            node("r1-0", "1"),
            hyper_node("r1", 1, "r1-0"),
            pod("full", "", cpu="1", on="r1-0", phase="Running"),
            job("a", 1, hard=1),
            pod("a-0", "a", cpu="1"),
            pod("a-1", "a"),
        ],
        binds={"a-0": "r0-0"},
    ),
    Scenario(
        name="pods that request nothing are in one rack",
        conf=ALLOCATE,
        cluster=[
            *[each for at in range(3) for each in (node(f"r0-{at}", "1", pods="1"), node(f"r1-{at}", "1", pods="1"))],
            hyper_node("r0", 1, "r0-0", "r0-1", "r0-2"),
            hyper_node("r1", 1, "r1-0", "r1-1", "r1-2"),
            pod("b", "", cpu="1", on="r1-1", phase="Running"),
            job("a", 3, hard=1),
            *[pod(f"a-{at}", "a") for at in range(3)],
        ],
        binds={"a-0": "r0-1", "a-1": "r0-2", "a-2": "r0-0"},
    ),
    Scenario(
        name="without the plugin a hard topology restricts nothing",
        conf=WITHOUT_PLUGIN,
        cluster=[*racks(1, 1), job("a", 2, hard=1), *waiting("a", 2)],
        bind_counts={"a": 2},
    ),
    Scenario(
        name="jobs without a topology fill the HyperNodes in use first",
        conf=ALLOCATE,
        cluster=[
            *racks(2, 2),
            group("b", 1, phase="Inqueue"),
            *running("b", 1, on="r1-0"),
            group("a", 1, phase="Inqueue"),
            *waiting("a", 1),
        ],
        binds={"a-0": "r1-1"},
    ),
    Scenario(
        name="HyperNodes that contain each other keep jobs with a topology waiting",
        conf=ALLOCATE,
        cluster=[
            node("n0"),
            hyper_node("x", 2, "y"),
            hyper_node("y", 3, "x"),
            job("a", 1, hard=1),
            *waiting("a", 1),
            group("b", 1, phase="Inqueue"),
            *waiting("b", 1),
        ],
        binds={"b-0": "n0"},
        reasons={"a": 'HyperNode "x" contains itself: x in y in x'},
    ),
)
def test_pods_stay_close(scenario: Scenario) -> None:
    scenario.check()


APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"is": "apart"}}}
]}}  # fmt: skip


def rack(name: str, *cores: int, pods: str = "110") -> list[Manifest]:
    """Return a rack of nodes with so many cores, each with room for so many pods."""
    names = [f"{name}-{at}" for at in range(len(cores))]
    nodes = [
        node(one, str(cpu), pods=pods, labels={"kubernetes.io/hostname": one})
        for one, cpu in zip(names, cores, strict=True)
    ]
    return [*nodes, hyper_node(name, 1, *names)]


def part(name: str, number: int, cpu: int, **labels: str) -> Manifest:
    """Return a pod of group a in a part."""
    return labelled(pod(name, "a", cpu=str(cpu)), part=str(number), **labels)


def parts(size: int) -> Manifest:
    """Return the policy by which each part is in one rack."""
    topology = {"mode": "hard", "highestTierAllowed": 1}
    return {"name": "part", "matchLabelKeys": ["part"], "subGroupSize": size, "networkTopology": topology}


def of_tier(name: str, tier: int) -> Manifest:
    """Return the policy by which the pods with that label are within one HyperNode of a tier."""
    topology = {"mode": "hard", "highestTierAllowed": tier}
    selector = {"matchLabels": {"tier": name}}
    keys = {"labelSelector": selector, "matchLabelKeys": ["part"]}
    return {"name": name, **keys, "subGroupSize": 2, "networkTopology": topology}


@scenarios(
    Scenario(
        name="pods of different sizes: the two small ones leave the large node to the large one",
        conf=ALLOCATE,
        cluster=[
            *rack("r0", 3, 5),
            job("a", 3, hard=1),
            *[pod(f"a-{cpu}", "a", cpu=str(cpu)) for cpu in (1, 2, 4)],
        ],
        binds={"a-1": "r0-0", "a-2": "r0-0", "a-4": "r0-1"},
    ),
    Scenario(
        name="different pods that repel each other, beside one that does not",
        conf=ALLOCATE,
        cluster=[
            *rack("r0", 2, 5, 4),
            job("a", 4, hard=1),
            pod("a-0", "a", cpu="2"),
            *[
                labelled(pod(f"a-{at}", "a", cpu=cpu, spec={"affinity": APART}), **{"is": "apart"})
                for at, cpu in ((1, "2"), (2, "3"), (3, "3"))
            ],
        ],
        bind_counts={"a": 4},
    ),
    Scenario(
        name="parts of different sizes: the first leaves the large rack to the second",
        conf=ALLOCATE,
        cluster=[
            *rack("r0", 3, 4),
            *rack("r1", 2, 3),
            hyper_node("s", 2, "r0", "r1"),
            job("a", 4, hard=2, subGroupPolicy=[parts(2)]),
            *[part(f"a-{at}", number, cpu) for at, (number, cpu) in enumerate([(0, 2), (0, 3), (1, 2), (1, 3)])],
        ],
        bind_counts={"a": 4},
    ),
    Scenario(
        name="parts with topologies of two tiers: the smaller pods are in one rack, the larger ones in one spine",
        conf=ALLOCATE,
        cluster=[
            *rack("r0", 3, 4),
            *rack("r1", 2, 4),
            hyper_node("s", 2, "r0", "r1"),
            job("a", 4, soft=True, subGroupPolicy=[of_tier("x", 1), of_tier("y", 2)]),
            *[part(f"a-{at}", 0, cpu, tier="x") for at, cpu in ((0, 2), (1, 1))],
            *[part(f"a-{at}", 1, 4, tier="y") for at in (2, 3)],
        ],
        binds={"a-0": "r0-0", "a-1": "r0-0", "a-2": "r0-1", "a-3": "r1-1"},
    ),
    Scenario(
        name="with a minimum below the number of pods, those that fit together are taken",
        conf=ALLOCATE,
        cluster=[
            *rack("r0", 2, 2),
            job("a", 3, hard=1, minTaskMember={"x": 1, "y": 1}),
            pod("a-0", "a", role="x", cpu="2"),
            *[pod(f"a-{at}", "a", role="y", cpu="2" if at == 1 else "1") for at in (1, 2, 3)],
        ],
        bind_counts={"a": 3},
    ),
    Scenario(
        name="room that is being released is used, and the pods wait for it",
        conf=ALLOCATE,
        cluster=[
            *rack("r0", 3, 5),
            terminating(pod("b-0", "", cpu="2", on="r0-0", phase="Running")),
            job("a", 3, hard=1),
            *[pod(f"a-{cpu}", "a", cpu=str(cpu)) for cpu in (1, 2, 4)],
        ],
        pipelines={"a-2": "r0-0"},
    ),
)
def test_different_pods_are_placed_together(scenario: Scenario) -> None:
    scenario.check()


IDLE_APART = [
    labelled(pod(f"a-{at}", "a", role="x", spec={"affinity": APART}), **{"is": "apart", "part": "0"}) for at in range(2)
]


@scenarios(
    Scenario(
        name="two that repel each other fit in the second rack, after the first one had room for one of them",
        conf=ALLOCATE,
        cluster=[
            *rack("r0", 1),
            *rack("r1", 1, 1, pods="1"),
            job("a", 2, hard=1, minTaskMember={"x": 2}),
            *IDLE_APART,
        ],
        binds={"a-0": "r1-1", "a-1": "r1-0"},
    ),
    Scenario(
        name="so does a part of a gang",
        conf=ALLOCATE,
        cluster=[
            *rack("r0", 1),
            *rack("r1", 1, 1, pods="1"),
            group("a", 2, phase="Inqueue", minTaskMember={"x": 2}, subGroupPolicy=[parts(2)]),
            *IDLE_APART,
        ],
        binds={"a-0": "r1-1", "a-1": "r1-0"},
    ),
    Scenario(
        name="a further one leaves the full rack of its part where the topology is soft",
        conf=ALLOCATE,
        cluster=[
            *rack("r0", 1, pods="1"),
            *rack("r1", 1),
            group("a", 1, phase="Inqueue", subGroupPolicy=[{**parts(1), "networkTopology": {"mode": "soft"}}]),
            labelled(pod("a-0", "a", cpu="1", on="r0-0", phase="Running"), part="0"),
            labelled(pod("a-1", "a"), part="0"),
        ],
        binds={"a-1": "r1-0"},
    ),
    Scenario(
        name="two that repel each other wait where the last rack has room for one of them, too",
        conf=ALLOCATE,
        cluster=[*rack("r0", 1), *rack("r1", 1), job("a", 2, hard=1, minTaskMember={"x": 2}), *IDLE_APART],
        fit_errors={"a": "In hyperNode r1: 0/1 nodes are unavailable: 1 node(s) didn't match pod anti-affinity rules."},
    ),
)
def test_pods_that_request_nothing(scenario: Scenario) -> None:
    scenario.check()


@pytest.mark.parametrize(
    ("sizes", "minimum", "expected"),
    [
        pytest.param((1, 2, 2), 4, [{"r1"}, {"r2"}], id="each part in one rack"),
        pytest.param((1, 2, 1), 4, [], id="no part if one of those needed has no rack"),
        pytest.param((1, 2, 1), 2, [{"r1"}], id="no pod of a part beyond the minimum that has no rack"),
    ],
)
def test_parts_that_request_nothing(sizes: tuple[int, ...], minimum: int, expected: list[set[str]]) -> None:
    members = [labelled(pod(f"a-{at}", "a"), part=str(at // 2)) for at in range(4)]
    cluster = [one for at, size in enumerate(sizes) for one in rack(f"r{at}", *[1] * size, pods="1")]
    gang = group("a", minimum, phase="Inqueue", subGroupPolicy=[parts(2)])
    binds = World(*cluster, gang, *members, conf=ALLOCATE).run(2).binds
    racks_by_part: dict[int, set[str]] = {}
    for name, bound in binds.items():
        racks_by_part.setdefault(int(name[-1]) // 2, set()).add(bound.partition("-")[0])
    assert len(binds) == 2 * len(expected)
    assert sorted(racks_by_part.values(), key=min) == expected


def test_soft_mode_finds_the_free_rack_for_pods_that_repel_each_other() -> None:
    """The cluster of volcano-sh/volcano#5205: two racks have one free node each, the third has two."""
    full = [pod(f"full-{at}", "", cpu="4", on=f"r{at}-1", phase="Running") for at in (1, 2)]
    cluster = [*rack("r0", 4, 4), *rack("r1", 4, 4), *rack("r2", 4, 4), *full]
    gang = [labelled(pod(f"a-{at}", "a", cpu="1", spec={"affinity": APART}), **{"is": "apart"}) for at in range(2)]
    world = World(*cluster, job("a", 2, soft=True), *gang, conf=ALLOCATE).run()
    assert set(world.binds.values()) == {"r0-0", "r0-1"}


def test_sub_jobs_are_each_placed_in_one_rack() -> None:
    policy = {
        "name": "part",
        "matchLabelKeys": ["part"],
        "subGroupSize": 2,
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
    members = [pod(f"a-{at}", "a", cpu="1") for at in range(6)]
    for at, member in enumerate(members):
        member["metadata"]["labels"] = {"part": str(at // 2)}
    cluster = racks(3, 3, 3, spines=2)
    world = World(*cluster, job("a", 6, soft=True, subGroupPolicy=[policy]), *members, conf=ALLOCATE).run()
    parts = {bound.partition("-")[0] for bound in world.binds.values()}
    assert [world.binds[f"a-{at}"].partition("-")[0] for at in (0, 2, 4)] == [
        world.binds[f"a-{at}"].partition("-")[0] for at in (1, 3, 5)
    ]
    assert parts == {"r0", "r1", "r2"}


@pytest.mark.parametrize(
    "selector",
    [
        {"regexMatch": {"pattern": "^r1-[02]$"}},
        {"labelMatch": {"matchLabels": {"rack": "r1"}}},
        {"labelMatch": {"matchExpressions": [{"key": "rack", "operator": "NotIn", "values": ["r0"]}]}},
    ],
)
def test_nodes_are_selected_by_pattern_or_labels(selector: dict[str, Any]) -> None:
    nodes = [one for one in racks(2, 3) if one["kind"] == "Node"]
    world = World(*nodes, hyper_node("one", 1, **selector), job("a", 2, hard=1), *waiting("a", 2), conf=ALLOCATE).run()
    assert racks_of(world) == {"r1": 2}


def test_a_node_that_joins_a_hyper_node_gives_a_waiting_gang_room() -> None:
    rack = hyper_node("r", 1, labelMatch={"matchLabels": {"rack": "r"}})
    world = World(
        node("n0", "1", labels={"rack": "r"}), rack, job("a", 2, hard=1), *waiting("a", 2), conf=ALLOCATE
    ).run(2)
    assert world.binds == {}
    world.put(node("n1", "1"))
    assert world.run(2).binds == {}
    world.put(node("n1", "1", labels={"rack": "r"}))
    assert set(world.run(2).binds.values()) == {"n0", "n1"}


def test_a_hyper_node_that_changes_gives_a_waiting_gang_room() -> None:
    world = World(*racks(1, 1), job("a", 2, hard=1), *waiting("a", 2), conf=ALLOCATE).run(2)
    assert world.binds == {}
    world.put(hyper_node("r0", 1, "r0-0", "r1-0"))
    assert set(world.run(2).binds.values()) == {"r0-0", "r1-0"}
    world.remove(kinds.HYPER_NODE, "r0")
    world.put(pod("a-2", "a", cpu="1"))
    world.put(node("n", "1"))
    assert "a-2" not in world.run(2).binds  # no HyperNode of tier 1 contains all pods of the gang any more


def test_gangpreempt_evicts_within_one_rack() -> None:
    victims = [one for name, rack in (("b", "r0"), ("c", "r1")) for one in _gang(name, rack)]
    cluster = [*PRIORITY_CLASSES, *racks(3, 2), *victims]
    waiting_job = job("a", 2, hard=1, priorityClassName="high")
    world = World(*cluster, waiting_job, *waiting("a", 2), conf=EVICT).run(2)
    assert world.evictions == ["b-0"]  # r0 has a free node: one eviction is enough there, in r1 two
    world.remove_terminating_pods()
    world.run(2)
    assert racks_of(world) == {"r0": 2}


def test_gangpreempt_makes_room_for_pods_of_different_sizes() -> None:
    low = [group("b", 1, phase="Running", priorityClassName="low"), pod("b", "b", cpu="2", on="r0-0", phase="Running")]
    gang = [pod(f"a-{cpu}", "a", cpu=str(cpu)) for cpu in (1, 2, 4)]
    high = job("a", 3, hard=1, priorityClassName="high")
    world = World(*PRIORITY_CLASSES, *rack("r0", 3, 5), *low, high, *gang, conf=EVICT).run(2)
    assert world.evictions == ["b"]
    world.remove_terminating_pods()
    assert world.run(2).binds == {"a-1": "r0-0", "a-2": "r0-0", "a-4": "r0-1"}


def _gang(name: str, rack: str) -> list[Manifest]:
    members = [pod(f"{name}-{at}", name, cpu="1", on=f"{rack}-{at}", phase="Running") for at in range(2)]
    return [group(name, 1, phase="Running", priorityClassName="low"), *members]


def test_the_pod_group_names_the_hyper_node_that_contains_its_pods() -> None:
    world = World(*racks(2, 1, spines=2), job("a", 2, hard=2), *waiting("a", 2), conf=ALLOCATE).run(3)
    assert world.group("a").metadata.annotations["volcano.sh/job-allocated-hypernode"] == "r0"
    world.put(pod("a-2", "a", cpu="1"))
    world.run(6)
    assert world.binds["a-2"] == "r1-0"
    assert world.group("a").metadata.annotations["volcano.sh/job-allocated-hypernode"] == "s0"


def test_jobs_without_a_topology_fill_one_rack_after_the_other() -> None:
    jobs = [one for name in "acde" for one in (group(name, 1, phase="Inqueue"), *waiting(name, 1))]
    world = World(*racks(3, 3, 3), group("b", 1, phase="Running"), *running("b", 1, on="r1-0"), *jobs, conf=ALLOCATE)
    assert sorted(racks_of(world.run()).values()) == [2, 2]
    assert racks_of(world)["r1"] == 2
    world.put(group("f", 1, phase="Inqueue"))
    world.put(pod("f-0", "f", cpu="1"))
    assert sorted(racks_of(world.run()).values()) == [2, 3]  # in the rack that the first cycle began


def test_a_gang_that_may_spread_evicts_where_an_alike_one_must_not_spread() -> None:
    victims = [one for name, rack in (("b", "r0"), ("c", "r1")) for one in _gang(name, rack)]
    gangs = [
        *(job("a", 3, hard=1, priorityClassName="high"), *waiting("a", 3)),
        *(job("d", 3, soft=True, priorityClassName="high"), *waiting("d", 3)),
    ]
    world = World(*PRIORITY_CLASSES, *racks(2, 2), *victims, *gangs, conf=EVICT).run()
    assert len(world.evictions) == 3
    world.remove_terminating_pods()
    assert sorted(world.run(2).binds) == ["d-0", "d-1", "d-2"]
