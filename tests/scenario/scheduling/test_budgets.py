"""pdb: disruption budgets hold over all that is decided, not over each decision."""

from __future__ import annotations

import pytest

from tests.scenario.scheduling.harness import World, group, node, pods
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
RANKS = {"low": 10, "high": 1000}


def rank(name: str, value: int) -> Manifest:
    meta = {"name": name, "uid": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}


def budget(allowed: int) -> Manifest:
    """A budget of the pods of app old."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "old", "namespace": "ns", "uid": "budget"},
        "spec": {"selector": {"matchLabels": {"app": "old"}}},
        "status": {"disruptionsAllowed": allowed},
    }


def full(allowed: int) -> list[Manifest]:
    """A node full of four pods of a budget."""
    old = pods("old", 4, "old", cpu="1", on="n1", phase="Running")
    for pod in old:
        pod["metadata"]["labels"] = {"app": "old"}
    ranks = [rank(name, value) for name, value in RANKS.items()]
    return [
        *ranks,
        node("n1", cpu="4"),
        budget(allowed),
        group("old", 0, phase="Running", priorityClassName="low"),
        *old,
    ]


def wanting(name: str, size: int) -> list[Manifest]:
    """A gang of higher priority."""
    return [group(name, size, phase="Inqueue", priorityClassName="high"), *pods(name, size, name, cpu="1")]


def ending() -> tuple[World, str]:
    """A world in which a budget's only victim ends, and somebody else would evict another, had a cycle to; and that
    victim.
    """
    world = World(*full(1), *wanting("a", 1), conf=CONF)
    world.cycle()
    (victim,) = world.evictions
    world.set_pod(victim.partition("/")[2] or victim, deleting=True)
    for manifest in wanting("b", 1):
        world.put(manifest)
    world.cycle()
    return world, victim


@pytest.mark.parametrize(("allowed", "evicted"), [(1, 0), (2, 2), (4, 2)])
def test_a_gang_takes_all_it_needs_within_the_budget_or_nothing(allowed: int, evicted: int) -> None:
    world = World(*full(allowed), *wanting("new", 2), conf=CONF)
    world.cycle()
    assert len(world.evictions) == evicted


def test_jobs_of_one_cycle_share_the_budget() -> None:
    world = World(*full(2), *[manifest for name in "abc" for manifest in wanting(name, 1)], conf=CONF)
    world.cycle()
    assert len(world.evictions) == 2


def test_what_was_decided_counts_until_the_pods_show_it() -> None:
    """The next cycle comes long before whoever keeps the budget has seen the pod go."""
    world = World(*full(1), *wanting("a", 1), conf=CONF)
    world.cycle()
    assert len(world.evictions) == 1
    for manifest in wanting("b", 1):
        world.put(manifest)
    world.cycle()
    assert len(world.evictions) == 1


def test_a_pod_that_ends_counts_until_its_budget_was_written_again() -> None:
    """Who keeps the budget learns of the end no sooner than we do."""
    world, victim = ending()
    assert world.evictions == [victim]
    world.put(budget(1))
    world.cycle()
    assert len(world.evictions) == 2


def test_a_budget_that_is_never_written_again_holds_for_a_while_only() -> None:
    world, _ = ending()
    world.now += 60
    world.cycle()
    assert len(world.evictions) == 2
