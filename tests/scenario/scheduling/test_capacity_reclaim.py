"""Plugin capacity: which queues lose tasks to which, by what they deserve and are guaranteed."""

from __future__ import annotations

import pytest

from tests.scenario.scheduling.capacityworlds import FLAT, GPU, TREE, ask, guarantee, level, root, run
from tests.scenario.scheduling.harness import World, node, queue


def test_a_queue_below_what_it_deserves_takes_from_one_above() -> None:
    world = World(
        node("n1", cpu="4"),
        queue("a", deserved={"cpu": "2"}),
        queue("b", deserved={"cpu": "2"}),
        *run("a", "a", 4, cpu="1"),
        *ask("b", "b", 4, 2, cpu="1"),
        conf=FLAT,
    )
    world.cycle()
    assert len(world.evictions) == 2


def test_a_guarantee_is_never_taken() -> None:
    world = World(
        node("n1", cpu="4"),
        queue("a", deserved={"cpu": "1"}, guarantee=guarantee(cpu="3")),
        queue("b", deserved={"cpu": "3"}),
        *run("a", "a", 4, cpu="1"),
        *ask("b", "b", 3, 1, cpu="1"),
        conf=FLAT,
    )
    world.run(5)
    assert len(world.evictions) == 1


def test_a_guarantee_of_a_branch_is_never_taken_either() -> None:
    world = World(
        node("n1", cpu="4"),
        root(),
        queue("x", deserved={"cpu": "1"}, guarantee=guarantee(cpu="3")),
        queue("x1", parent="x"),
        queue("b", deserved={"cpu": "3"}),
        *run("a", "x1", 4, cpu="1"),
        *ask("b", "b", 3, 1, cpu="1"),
        conf=TREE,
    )
    world.run(5)
    assert len(world.evictions) == 1


def test_a_task_without_resources_that_the_preemptor_needs_stays() -> None:
    world = World(
        node("n1", cpu="4", memory="4Gi", **GPU),
        queue("a"),
        queue("b", deserved={"nvidia.com/gpu": "1"}),
        *run("a", "a", 1, cpu="4"),
        *run("g", "a", 1, **GPU),
        *ask("b", "b", 1, **GPU),
        conf=FLAT,
    )
    world.cycle()
    assert world.evictions == ["g-0"]


def test_a_queue_that_would_pass_its_limit_takes_nothing() -> None:
    world = World(
        node("n1", cpu="4"),
        queue("a"),
        queue("b", deserved={"cpu": "4"}, capability={"cpu": "1"}),
        *run("a", "a", 4, cpu="1"),
        *ask("b", "b", 1, cpu="2"),
        conf=FLAT,
    )
    world.cycle()
    assert not world.evictions


@pytest.mark.parametrize(("ancestors", "evicted"), [(0, 0), (1, 1)])
def test_a_parent_below_its_deserved_share_moves_its_children_forward(ancestors: int, evicted: int) -> None:
    world = World(
        node("n1", cpu="2"),
        root(),
        queue("x", deserved={"cpu": "1"}),
        queue("x1", parent="x"),
        queue("y"),
        *run("y", "y", 2, cpu="1"),
        *ask("a", "x1", 1, cpu="1"),
        conf=level(ancestors),
    )
    world.cycle()
    assert len(world.evictions) == evicted


@pytest.mark.parametrize(("ancestors", "evicted"), [(0, 1), (1, 0)])
def test_a_queue_whose_parent_is_within_what_it_deserves_is_spared_where_that_counts(
    ancestors: int, evicted: int
) -> None:
    world = World(
        node("n1", cpu="2"),
        root(),
        queue("x", deserved={"cpu": "1"}),
        queue("y", deserved={"cpu": "2"}),
        queue("y1", parent="y", deserved={"cpu": "1"}),
        *run("y", "y1", 2, cpu="1"),
        *ask("a", "x", 1, cpu="1"),
        conf=level(ancestors),
    )
    world.cycle()
    assert len(world.evictions) == evicted


def test_the_nearest_relatives_lose_first() -> None:
    """X1 takes from its sibling rather than from another branch."""
    world = World(
        node("n1", cpu="2"),
        root(),
        queue("x"),
        queue("x1", parent="x", deserved={"cpu": "1"}),
        queue("x2", parent="x"),
        queue("y"),
        *run("far", "y", 1, cpu="1"),
        *run("near", "x2", 1, cpu="1"),
        *ask("a", "x1", 1, cpu="1"),
        conf=TREE,
    )
    world.cycle()
    assert world.evictions == ["near-0"]
