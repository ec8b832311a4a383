"""Action defragment: small jobs are moved out of a rack for a gang that must be in one."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import Scenario, World, group, labelled, node, pod, scenarios, waiting
from tests.scenario.scheduling.networks import hyper_node, racks
from tests.scenario.scheduling.preemption_clusters import PRIORITY_CLASSES
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate, defragment"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: network-topology-aware}]
"""
YOUNG = (
    CONF
    + """
configurations:
- {name: defragment, arguments: {minAge: 3h}}
"""
)
NOW = 1767225600.0 + 7200.0
"""Two hours after the pods of the harness were created."""


def small(name: str, on: str, **more: Any) -> list[Manifest]:
    """Return a running job of one pod."""
    spec = {key: more.pop(key) for key in ("priorityClassName",) if key in more}
    return [group(name, 1, phase="Running", **spec), pod(name, name, cpu="1", on=on, phase="Running", **more)]


TOGETHER = {"mode": "hard", "highestTierAllowed": 1}


def parts(*sizes: int, hard: int | None = None) -> list[Manifest]:
    """Return a waiting gang of parts with so many pods, each of which must be in one rack; `hard` is the job's tier."""
    topology = {"mode": "soft"} if hard is None else {"mode": "hard", "highestTierAllowed": hard}
    policy = {"name": "part", "matchLabelKeys": ["part"], "subGroupSize": min(sizes), "networkTopology": TOGETHER}
    members = [
        labelled(pod(f"a-{part}-{at}", "a", cpu="1"), part=str(part))
        for part, size in enumerate(sizes)
        for at in range(size)
    ]
    return [group("a", sum(sizes), phase="Inqueue", networkTopology=topology, subGroupPolicy=[policy]), *members]


def gang(size: int) -> list[Manifest]:
    """Return a waiting gang that must be in one rack."""
    topology = {"mode": "hard", "highestTierAllowed": 1}
    return [group("a", size, phase="Inqueue", networkTopology=topology), *waiting("a", size)]


@scenarios(
    Scenario(
        name="the fewest pods are moved, to nodes elsewhere",
        now=NOW,
        conf=CONF,
        cluster=[*racks(4, 4), *small("b", "r0-0"), *small("c", "r0-1"), *small("d", "r1-0"), *gang(4)],
        evicts=["d"],
    ),
    Scenario(
        name="nothing is moved that would fit nowhere else",
        now=NOW,
        conf=CONF,
        cluster=[*racks(3, 1), *small("b", "r0-0"), *small("c", "r1-0"), *gang(3)],
    ),
    Scenario(
        name="nothing is moved if that is not enough",
        now=NOW,
        conf=CONF,
        cluster=[*racks(3, 3), *small("b", "r0-0"), *gang(4)],
    ),
    Scenario(
        name="a pod with annotation preemptable false stays",
        now=NOW,
        conf=CONF,
        cluster=[
            *racks(2, 1),
            *small("b", "r0-0", annotations={"volcano.sh/preemptable": "false"}),
            *gang(2),
        ],
    ),
    Scenario(
        name="a job of higher priority stays",
        now=NOW,
        conf=CONF,
        cluster=[*PRIORITY_CLASSES, *racks(2, 1), *small("b", "r0-0", priorityClassName="high"), *gang(2)],
    ),
    Scenario(
        name="a large job stays",
        now=NOW,
        conf=CONF,
        cluster=[
            *racks(2, 6),
            group("b", 1, phase="Running"),
            pod("b-0", "b", cpu="1", on="r0-0", phase="Running"),
            *[pod(f"b-{at}", "b", cpu="1", on=f"r1-{at}", phase="Running") for at in range(1, 6)],
            *gang(2),
        ],
    ),
    Scenario(
        name="parts: one takes the free rack, and a job is moved out of another rack for the second",
        now=NOW,
        conf=CONF,
        cluster=[*racks(2, 2, 1), *small("b", "r1-0"), *parts(2, 2)],
        evicts=["b"],
    ),
    Scenario(
        name="parts: a job is moved for each of two",
        now=NOW,
        conf=CONF,
        cluster=[*racks(2, 3, 1, 1), *[one for at in range(2) for one in small(f"b{at}", f"r{at}-0")], *parts(2, 3)],
        evicts=["b0", "b1"],
    ),
    Scenario(
        name="parts: nothing is moved that would fit nowhere outside their racks",
        now=NOW,
        conf=CONF,
        cluster=[*racks(2, 2), *small("b", "r1-0"), *parts(2, 2)],
    ),
    Scenario(
        name="parts: nothing is moved for one where the other finds no rack",
        now=NOW,
        conf=CONF,
        cluster=[*racks(2, 2, 1), *small("b", "r1-0"), *parts(2, 3)],
    ),
    Scenario(
        name="parts of a gang that must be in one spine: the job is moved to the other spine",
        now=NOW,
        conf=CONF,
        cluster=[*racks(2, 2, 2, spines=2), *small("b", "r1-0"), *parts(2, 2, hard=2)],
        evicts=["b"],
    ),
    Scenario(
        name="pods of different sizes: a search shows that they fit without the job",
        now=NOW,
        conf=CONF,
        cluster=[
            node("n0", "3"),
            node("n1", "5"),
            node("n2", "2"),
            hyper_node("r0", 1, "n0", "n1"),
            group("b", 1, phase="Running"),
            pod("b", "b", cpu="2", on="n0", phase="Running"),
            group("a", 3, phase="Inqueue", networkTopology=TOGETHER),
            *[pod(f"a-{cpu}", "a", cpu=str(cpu)) for cpu in (1, 2, 4)],
        ],
        evicts=["b"],
    ),
    Scenario(
        name="a young pod stays",
        now=NOW,
        conf=YOUNG,
        cluster=[*racks(2, 1), *small("b", "r0-0"), *gang(2)],
    ),
)
def test_small_jobs_are_moved(scenario: Scenario) -> None:
    scenario.check()


def test_the_gang_and_the_moved_pod_get_their_nodes() -> None:
    world = World(*racks(2, 1), *small("b", "r0-0"), *gang(2), conf=CONF, now=NOW).run()
    assert world.evictions == ["b"]
    world.remove_terminating_pods()
    world.put(pod("b-again", "b", cpu="1"))
    world.run(2)
    assert world.binds.pop("b-again") == "r1-0"
    assert {world.binds["a-0"], world.binds["a-1"]} == {"r0-0", "r0-1"}


def test_the_parts_of_a_gang_and_the_moved_pod_get_their_nodes() -> None:
    world = World(*racks(2, 2, 1), *small("b", "r1-0"), *parts(2, 2), conf=CONF, now=NOW).run()
    assert world.evictions == ["b"]
    world.remove_terminating_pods()
    world.put(pod("b-again", "b", cpu="1"))
    world.run(2)
    binds = world.binds
    assert binds.pop("b-again") == "r2-0"
    assert len(binds) == 4
    assert len({(name[:3], bound[:2]) for name, bound in binds.items()}) == 2


def test_a_gang_that_may_be_anywhere_moves_nothing() -> None:
    cluster = [node("n0", "1"), node("n1", "1"), hyper_node("r0", 1, "n0"), *small("b", "n0")]
    world = World(*cluster, group("a", 2, phase="Inqueue"), *waiting("a", 2), conf=CONF, now=NOW).run(2)
    assert world.evictions == []
