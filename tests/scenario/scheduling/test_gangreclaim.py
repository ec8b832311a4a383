"""Action gangreclaim: a queue below its share evicts tasks of other queues for a whole gang at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.scenario.scheduling.harness import (
    Scenario,
    World,
    group,
    node,
    pods,
    queue,
    running,
    scenarios,
    waiting,
    with_uids,
)
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate, backfill, gangreclaim"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}]
"""
GANG_THEN_CAPACITY = """
actions: "enqueue, allocate, gangreclaim"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity}]
"""
ONLY_CAPACITY = """
actions: "allocate, gangreclaim"
tiers:
- plugins: [{name: gang, enablePreemptable: false}, {name: capacity}]
- plugins: [{name: predicates}]
"""
NODES = (node("n1", cpu="4"), node("n2", cpu="4"))
AB = (queue("a"), queue("b"))
DESERVED = (queue("a", deserved={"cpu": "4"}), queue("b", deserved={"cpu": "4"}))


def holds(name: str, count: int, minimum: int, *, on: str = "n1", where: str = "a", **more: Any) -> list[Manifest]:
    """Return a running job of a queue."""
    return [group(name, minimum, queue=where, phase="Running"), *running(name, count, on=on, **more)]


def wants(count: int, minimum: int | None = None, *, where: str = "b", cpu: str = "1", **more: Any) -> list[Manifest]:
    """Return a waiting job of another queue; its minimum is all of its pods by default."""
    minimum = count if minimum is None else minimum
    return [group("new", minimum, queue=where, phase="Inqueue"), *waiting("new", count, cpu=cpu, **more)]


def not_on_nodes_labelled(key: str) -> Manifest:
    """Return a pod spec that excludes nodes with a label."""
    terms = [{"matchExpressions": [{"key": key, "operator": "DoesNotExist"}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


@scenarios(
    Scenario(
        name="spare tasks are evicted before a gang",
        cluster=[*NODES, *AB, *holds("x", 4, 4), *holds("y", 4, 2, on="n2"), *wants(2)],
        evicts=["y-0", "y-1"],
    ),
    Scenario(
        name="a gang larger than the share of its queue evicts nothing",
        cluster=[*NODES, *AB, *holds("x", 8, 0), *wants(5)],
    ),
    Scenario(
        name="a queue with reclaimable false loses nothing",
        cluster=[
            *NODES,
            queue("a", reclaimable=False),
            queue("b"),
            *holds("x", 4, 4),
            *holds("y", 4, 4, on="n2"),
            *wants(4),
        ],
    ),
    Scenario(
        name="a gang evicts nothing of its own queue",
        cluster=[*NODES, *AB, *holds("x", 4, 4, where="b"), *holds("y", 4, 4, on="n2", where="b"), *wants(4)],
    ),
    Scenario(
        name="a queue whose guarantee is all that it has loses nothing",
        cluster=[
            *NODES,
            queue("a", guarantee={"resource": {"cpu": "8"}}),
            queue("b"),
            *holds("x", 4, 4),
            *holds("y", 4, 4, on="n2"),
            *wants(4),
        ],
    ),
    Scenario(
        name="no gang is evicted that would bring its queue below the guarantee",
        cluster=[
            *NODES,
            queue("a", guarantee={"resource": {"cpu": "5"}}),
            queue("b"),
            *holds("x", 4, 4),
            *holds("y", 4, 4, on="n2"),
            *wants(4),
        ],
    ),
    Scenario(
        name="a gang of pods with preemptionPolicy Never evicts nothing",
        cluster=[
            *NODES,
            *AB,
            *holds("x", 4, 4),
            *holds("y", 4, 4, on="n2"),
            *wants(4, spec={"preemptionPolicy": "Never"}),
        ],
    ),
    Scenario(
        name="no spare tasks are evicted that would bring their queue below the guarantee",
        cluster=[
            *NODES,
            queue("a", guarantee={"resource": {"cpu": "7"}}),
            queue("b"),
            *holds("x", 4, 0),
            *holds("y", 4, 0, on="n2"),
            *wants(2),
        ],
    ),
    Scenario(
        name="a bound pod that does not run yet is not evicted",
        cluster=[
            node("n1", cpu="4"),
            *AB,
            group("x", 0, queue="a", phase="Running"),
            *pods("x", 4, "x", cpu="1", on="n1"),
            *wants(2),
        ],
    ),
    # Gang x also has pods on n3, where the preemptor cannot run.
    Scenario(
        name="of two gangs the one is evicted that loses less beyond what the preemptor needs",
        cluster=[
            node("n1", cpu="4"),
            node("n2", cpu="4"),
            node("n3", cpu="4", labels={"other": "yes"}),
            *AB,
            group("x", 4, queue="a", phase="Running"),
            *pods("x", 2, "x", cpu="2", on="n1", phase="Running"),
            *pods("xx", 2, "x", cpu="2", on="n3", phase="Running"),
            *holds("y", 2, 2, on="n2", cpu="2"),
            *wants(4, spec=not_on_nodes_labelled("other")),
        ],
        evicts=["y-0", "y-1"],
    ),
    Scenario(
        name="a queue at what it deserves loses nothing",
        conf=ONLY_CAPACITY,
        cluster=[*DESERVED, node("n1", cpu="4"), *holds("x", 4, 0), *wants(2)],
    ),
    Scenario(
        name="a queue above what it deserves loses the rest",
        conf=ONLY_CAPACITY,
        cluster=[*DESERVED, node("n1", cpu="6"), *holds("x", 6, 0), *wants(2)],
        evicts=["x-0", "x-1"],
    ),
    # gang alone chooses the victims, so that each queue could evict the other's gang without end.
    Scenario(
        name="no gang is evicted that could evict in return",
        conf=GANG_THEN_CAPACITY,
        cluster=[*DESERVED, node("n1", cpu="4"), *holds("x", 4, 4), *wants(4)],
    ),
    Scenario(
        name="a queue above its share evicts nothing",
        cluster=[*NODES, *AB, *holds("x", 4, 4), *holds("y", 4, 4, on="n2", where="b"), *wants(2)],
    ),
    conf=CONF,
)
def test_gangreclaim(scenario: Scenario) -> None:
    scenario.check()


@scenarios(
    Scenario(
        name="of jobs that lose equally the one whose name comes first is evicted",
        cluster=[
            node("n1", cpu="6"),
            *AB,
            *holds("first", 2, 0),
            *holds("second", 2, 0),
            *holds("third", 2, 0),
            *wants(2),
        ],
        evicts=["first-0", "first-1"],
    ),
    Scenario(
        name="of gangs that lose equally the one whose name comes first is evicted",
        cluster=[
            node("n1", cpu="6"),
            *AB,
            *holds("first", 2, 2),
            *holds("second", 2, 2),
            *holds("third", 2, 2),
            *wants(2),
        ],
        evicts=["first-0", "first-1"],
    ),
    conf=CONF,
)
@pytest.mark.parametrize("uids", ["abc", "cba", "bca"])
def test_uids_do_not_decide(scenario: Scenario, uids: str) -> None:
    names = ("first", "second", "third")
    replace(scenario, cluster=with_uids(scenario.cluster, names, uids)).check()


def test_a_gang_takes_what_its_queue_deserves_from_a_whole_gang() -> None:
    world = World(*NODES, *AB, *holds("x", 4, 4), *holds("y", 4, 4, on="n2"), *wants(4), conf=CONF)
    world.cycle()
    assert sorted(world.evictions) in ([f"x-{at}" for at in range(4)], [f"y-{at}" for at in range(4)])
    assert any(message == "gangreclaim" for _, _, message in world.recorded)
    world.echo()
    world.remove_terminating_pods()
    world.run()
    assert sorted(world.binds) == ["new-0", "new-1", "new-2", "new-3"]


def test_a_queue_loses_the_spare_task_that_it_has_above_its_guarantee() -> None:
    guaranteed = queue("a", guarantee={"resource": {"cpu": "7"}})
    world = World(*NODES, guaranteed, queue("b"), *holds("x", 4, 0), *holds("y", 4, 0, on="n2"), *wants(1), conf=CONF)
    world.cycle()
    assert world.evictions in (["x-0"], ["y-0"])


def test_the_queue_furthest_above_its_share_loses_first() -> None:
    world = World(
        *(queue(name) for name in "abc"),
        *(node(name, cpu="4") for name in ("n1", "n2", "n3")),
        *holds("x", 4, 4, where="a"),
        *holds("y", 4, 4, on="n2", where="c"),
        *holds("z", 4, 4, on="n3", where="c"),
        *wants(4),
        conf=CONF,
    )
    world.cycle()
    assert sorted(world.evictions) in ([f"y-{at}" for at in range(4)], [f"z-{at}" for at in range(4)])
