"""Plugin pdb: a PodDisruptionBudget limits all evictions together, those of one cycle and of later ones."""

from __future__ import annotations

from tests.scenario.scheduling.harness import (
    Scenario,
    World,
    group,
    labelled,
    node,
    priority_class,
    running,
    scenarios,
    waiting,
)
from volcanoio.model.base import Manifest

CONF = """
actions: "allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: pdb
  - name: predicates
"""


def budget(allowed: int) -> Manifest:
    """Return a PodDisruptionBudget for the pods with label app=old."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "old", "namespace": "ns", "uid": "budget"},
        "spec": {"selector": {"matchLabels": {"app": "old"}}},
        "status": {"disruptionsAllowed": allowed},
    }


def full(allowed: int) -> list[Manifest]:
    """Return a node full of four pods, and the budget for them."""
    return [
        priority_class("low", 10),
        priority_class("high", 1000),
        node("n1", cpu="4"),
        budget(allowed),
        group("old", 0, phase="Running", priorityClassName="low"),
        *(labelled(each, app="old") for each in running("old", 4)),
    ]


def urgent(name: str, size: int) -> list[Manifest]:
    """Return a waiting gang of higher priority."""
    return [group(name, size, phase="Inqueue", priorityClassName="high"), *waiting(name, size)]


@scenarios(
    Scenario(
        name="a gang that needs more evictions than the budget allows evicts nothing",
        cluster=[*full(1), *urgent("new", 2)],
    ),
    Scenario(
        name="a gang that needs as many evictions as the budget allows evicts them",
        cluster=[*full(2), *urgent("new", 2)],
        evicts=["old-2", "old-3"],
    ),
    Scenario(
        name="a gang evicts no more than it needs where the budget allows more",
        cluster=[*full(4), *urgent("new", 2)],
        evicts=["old-2", "old-3"],
    ),
    Scenario(
        name="all jobs of a cycle share the budget",
        cluster=[*full(2), *urgent("a", 1), *urgent("b", 1), *urgent("c", 1)],
        evicts=["old-2", "old-3"],
    ),
    conf=CONF,
)
def test_budgets(scenario: Scenario) -> None:
    scenario.check()


def test_an_eviction_counts_before_the_pod_is_seen_to_terminate() -> None:
    """The next cycle comes long before the disruption controller has seen the pod terminate."""
    world = World(*full(1), *urgent("a", 1), conf=CONF)
    world.cycle()
    assert len(world.evictions) == 1
    for manifest in urgent("b", 1):
        world.put(manifest)
    world.cycle()
    assert len(world.evictions) == 1


def with_terminating_victim() -> tuple[World, str]:
    """Return a world where the only eviction of a budget terminates and a second job waits, and the victim."""
    world = World(*full(1), *urgent("a", 1), conf=CONF)
    world.cycle()
    (victim,) = world.evictions
    world.set_pod(victim, deleting=True)
    for manifest in urgent("b", 1):
        world.put(manifest)
    world.cycle()
    return world, victim


def test_a_terminating_pod_counts_until_the_status_of_its_budget_is_updated() -> None:
    """The disruption controller learns of the termination no sooner than the scheduler."""
    world, victim = with_terminating_victim()
    assert world.evictions == [victim]
    world.put(budget(1))
    world.cycle()
    assert len(world.evictions) == 2


def test_a_terminating_pod_counts_for_a_limited_time_if_its_budget_is_never_updated() -> None:
    world, _ = with_terminating_victim()
    world.now += 60
    world.cycle()
    assert len(world.evictions) == 2
