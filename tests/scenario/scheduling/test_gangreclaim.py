"""gangreclaim: a queue takes room for a whole gang back from other queues, gangs whole where need be."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.scheduling.harness import World, group, node, pods, queue
from tests.scenario.scheduling.victims import bury
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate, backfill, gangreclaim"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}]
"""
DESERVED = """
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


def holds(name: str, count: int, minimum: int, *, on: str = "n1", where: str = "a", **more: Any) -> list[Manifest]:
    """A running job of a queue."""
    members = pods(name, count, name, cpu=more.pop("cpu", "1"), on=on, phase="Running", **more)
    return [group(name, minimum, queue=where, phase="Running"), *members]


def wants(count: int, minimum: int | None = None, *, where: str = "b", cpu: str = "1", **more: Any) -> list[Manifest]:
    """A job of another queue that waits."""
    minimum = count if minimum is None else minimum
    return [group("new", minimum, queue=where, phase="Inqueue"), *pods("new", count, "new", cpu=cpu, **more)]


def evicted(*objects: Manifest, conf: str = CONF) -> list[str]:
    """Who is evicted in the first cycle."""
    it = World(*objects, conf=conf)
    it.cycle()
    return sorted(it.evictions)


AB = (queue("a"), queue("b"))


def test_a_gang_takes_back_what_its_queue_deserves_from_a_gang() -> None:
    it = World(*NODES, *AB, *holds("x", 4, 4), *holds("y", 4, 4, on="n2"), *wants(4), conf=CONF)
    it.cycle()
    assert sorted(it.evictions) in ([f"x-{at}" for at in range(4)], [f"y-{at}" for at in range(4)])
    assert any(message == "gangreclaim" for _, _, message in it.told)
    it.echo()
    bury(it)
    it.run()
    assert sorted(it.binds) == ["new-0", "new-1", "new-2", "new-3"]


def test_what_jobs_can_spare_goes_first() -> None:
    assert evicted(*NODES, *AB, *holds("x", 4, 4), *holds("y", 4, 2, on="n2"), *wants(2)) == ["y-0", "y-1"]


def test_a_queue_takes_no_more_than_it_deserves() -> None:
    assert evicted(*NODES, *AB, *holds("x", 8, 0, cpu="1"), *wants(5)) == [], "its half is four"


OPEN = (*NODES, queue("b"), *holds("x", 4, 4), *holds("y", 4, 4, on="n2"), *wants(4))


@pytest.mark.parametrize(
    "objects",
    [
        [*OPEN, queue("a", reclaimable=False)],
        [*NODES, *AB, *holds("x", 4, 4, where="b"), *holds("y", 4, 4, on="n2", where="b"), *wants(4)],  # its own queue
        [*OPEN, queue("a", guarantee={"resource": {"cpu": "8"}})],
        [*OPEN, queue("a", guarantee={"resource": {"cpu": "5"}})],  # not even one gang of four can go
        [*NODES, *AB, *holds("x", 4, 4), *holds("y", 4, 4, on="n2"), *wants(4, spec={"preemptionPolicy": "Never"})],
    ],
)
def test_who_is_spared(objects: list[Manifest]) -> None:
    assert evicted(*objects) == []


def test_a_guarantee_is_kept_task_by_task_of_what_can_be_spared() -> None:
    a = queue("a", guarantee={"resource": {"cpu": "7"}})
    assert evicted(*NODES, a, queue("b"), *holds("x", 4, 0), *holds("y", 4, 0, on="n2"), *wants(1)) in (
        ["x-0"],
        ["y-0"],
    )
    assert evicted(*NODES, a, queue("b"), *holds("x", 4, 0), *holds("y", 4, 0, on="n2"), *wants(2)) == []


def test_pods_that_do_not_run_yet_are_not_reclaimed() -> None:
    bound = [group("x", 0, queue="a", phase="Running"), *pods("x", 4, "x", cpu="1", on="n1")]
    assert evicted(node("n1", cpu="4"), *AB, *bound, *wants(2)) == []


@pytest.mark.parametrize("uids", ["abc", "cba", "bca"])
@pytest.mark.parametrize("minimum", [0, 2], ids=["spare pods", "whole gangs"])
def test_of_jobs_worth_the_same_the_one_whose_name_comes_first_goes_first(minimum: int, uids: str) -> None:
    holders = [holds(name, 2, minimum) for name in ("first", "second", "third")]
    for (owner, *_), uid in zip(holders, uids, strict=True):
        owner["metadata"]["uid"] = uid
    jobs = [each for holder in holders for each in holder]
    assert evicted(node("n1", cpu="6"), *AB, *jobs, *wants(2)) == ["first-0", "first-1"]


def test_the_gang_that_frees_most_of_what_is_needed_for_what_is_lost_goes_first() -> None:
    """Of two gangs of equal standing one loses much that the taker has no use for."""
    far = [group("x", 4, queue="a", phase="Running"), *pods("x", 2, "x", cpu="2", on="n1", phase="Running"),
           *pods("xx", 2, "x", cpu="2", on="n3", phase="Running")]  # fmt: skip
    near = holds("y", 2, 2, on="n2", cpu="2")
    nodes = node("n1", cpu="4"), node("n2", cpu="4"), node("n3", cpu="4", labels={"other": "yes"})
    need = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "other", "operator": "DoesNotExist"}]}]}}}  # fmt: skip
    mine = wants(4, spec={"affinity": need})
    assert evicted(*nodes, *AB, *far, *near, *mine) == ["y-0", "y-1"]


def test_the_queue_that_loses_first_is_the_one_furthest_above_its_share() -> None:
    objects = [queue("a"), queue("b"), queue("c"), node("n1", cpu="4"), node("n2", cpu="4"), node("n3", cpu="4")]
    held = [*holds("x", 4, 4, where="a"), *holds("y", 4, 4, on="n2", where="c"), *holds("z", 4, 4, on="n3", where="c")]
    gone = evicted(*objects, *held, *wants(4))
    assert gone in ([f"y-{at}" for at in range(4)], [f"z-{at}" for at in range(4)])


def test_what_is_deserved_is_kept_where_capacity_decides() -> None:
    """A queue at what it deserves loses nothing, one above it what it has too much."""
    deserved = [queue("a", deserved={"cpu": "4"}), queue("b", deserved={"cpu": "4"})]
    at_it = [*deserved, node("n1", cpu="4"), *holds("x", 4, 0), *wants(2)]
    assert evicted(*at_it, conf=ONLY_CAPACITY) == []
    above = [*deserved, node("n1", cpu="6"), *holds("x", 6, 0), *wants(2)]
    assert evicted(*above, conf=ONLY_CAPACITY) == ["x-0", "x-1"]


def test_the_evicted_could_not_take_it_back() -> None:
    """Where only gang has a say, both queues may have all of the cluster: each could end the other's gang for ever."""
    deserved = [queue("a", deserved={"cpu": "4"}), queue("b", deserved={"cpu": "4"})]
    objects = [*deserved, node("n1", cpu="4"), *holds("x", 4, 4), *wants(4)]
    it = World(*objects, conf=DESERVED).run()
    assert it.evictions == []


def test_an_overused_queue_takes_nothing() -> None:
    full = [*holds("x", 4, 4), *holds("y", 4, 4, on="n2", where="b")]
    assert evicted(*NODES, *AB, *full, *wants(2)) == []
