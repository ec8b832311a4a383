"""drf with enableHierarchy: queues share by their place in the tree of annotations."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.scenario.scheduling.harness import World, group, node, pods, queue

CONF = """
actions: "allocate"
tiers:
- plugins:
  - name: drf
    enableHierarchy: true
"""
RECLAIM = """
actions: "allocate, reclaim"
tiers:
- plugins:
  - name: drf
    enableHierarchy: true
"""


def place(way: str, weights: str, **spec: Any) -> dict[str, Any]:
    """A queue at a place in the tree, named by it."""
    manifest = queue(way.replace("/", "-"), **spec)
    manifest["metadata"]["annotations"] = {
        "volcano.sh/hierarchy": way,
        "volcano.sh/hierarchy-weights": weights,
    }
    return manifest


def demand(name: str, where: str, count: int = 10, **requests: str) -> list[dict[str, Any]]:
    """A job without a minimum that asks for so many pods."""
    return [
        group(name, 0, queue=where.replace("/", "-"), phase="Inqueue"),
        *pods(name, count, name, **requests),
    ]


def placed(world: World) -> Counter[str]:
    """How many pods of each job were placed."""
    return Counter(name.rpartition("-")[0] for name in world.binds)


def test_what_one_child_cannot_use_is_not_counted_against_its_sibling() -> None:
    """Two children ask for different resources: their parent's share is the larger of both, not the sum."""
    world = World(
        node("n1", cpu="10", memory="10G", pods="50"),
        place("root/sci", "100/50"),
        place("root/eng/dev", "100/50/50"),
        place("root/eng/prod", "100/50/50"),
        *demand("sci", "root/sci", cpu="1", memory="1G"),
        *demand("dev", "root/eng/dev", cpu="1"),
        *demand("prod", "root/eng/prod", memory="1G"),
        conf=CONF,
    )
    world.cycle()
    assert placed(world) == {"sci": 5, "dev": 5, "prod": 5}


def test_a_queue_that_is_blocked_by_a_used_up_resource_does_not_block_its_siblings() -> None:
    """The cpus are used up by the first two; who asks for memory alone goes on."""
    world = World(
        node("n1", cpu="30", memory="30G", pods="200"),
        place("root/a", "100/30"),
        place("root/b", "100/30"),
        place("root/c/x", "100/30/50"),
        place("root/c/y", "100/30/50"),
        *demand("a", "root/a", 30, cpu="1"),
        *demand("b", "root/b", 30, cpu="1"),
        *demand("x", "root/c/x", 30, cpu="1"),
        *demand("y", "root/c/y", 30, memory="1G"),
        conf=CONF,
    )
    world.cycle()
    assert placed(world) == {"a": 10, "b": 10, "x": 10, "y": 30}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("root/a 1/2", ("root/b/x 1/1/1", "root/b/y 1/1/1"), {"first": 8, "x": 2, "y": 2}),
        ("root/b/a 1/1/4", ("root/b/x 1/1/1", "root/b/y 1/1/1"), {"first": 8, "x": 2, "y": 2}),
        ("root/a 1/1", ("root/b/x 1/1/1", "root/b/y 1/1/1"), {"first": 6, "x": 3, "y": 3}),
        ("root/a 1/0.1", ("root/b/x 1/1/1", "root/b/y 1/1/1"), {"first": 6, "x": 3, "y": 3}),
    ],
)
def test_weights_count_at_every_step_and_are_at_least_one(
    first: str, second: tuple[str, str], expected: dict[str, int]
) -> None:
    ways = {"first": first, "x": second[0], "y": second[1]}
    world = World(
        node("n1", cpu="12", memory="120G", pods="200"),
        *(place(*way.split()) for way in ways.values()),
        *(obj for name, way in ways.items() for obj in demand(name, way.split()[0], 20, cpu="1")),
        conf=CONF,
    )
    world.cycle()
    assert placed(world) == expected


def test_a_queue_without_a_place_is_below_the_root_with_weight_one() -> None:
    world = World(
        node("n1", cpu="8", memory="80G", pods="200"),
        place("root/a", "1/1"),
        *demand("a", "root/a", 20, cpu="1"),
        *demand("b", "default", 20, cpu="1"),
        conf=CONF,
    )
    world.cycle()
    assert placed(world) == {"a": 4, "b": 4}


@pytest.mark.parametrize(("minimum", "evicted"), [(3, 3), (4, 0)])
def test_a_queue_with_less_takes_from_one_with_more_while_it_stays_before_that(minimum: int, evicted: int) -> None:
    """Of eight cpus one queue has all; with four on each side neither is before the other."""
    world = World(
        node("n1", cpu="8", memory="80G", pods="200"),
        place("root/a", "1/1"),
        place("root/b", "1/1"),
        *[group("a", 0, queue="root-a", phase="Running"), *pods("a", 8, "a", on="n1", phase="Running", cpu="1")],
        group("b", minimum, queue="root-b", phase="Inqueue"),
        *pods("b", 6, "b", cpu="1"),
        conf=RECLAIM.replace("- plugins:", "- plugins:\n  - name: gang\n    enableReclaimable: false", 1),
    )
    world.cycle()
    assert len(world.evictions) == evicted


def test_two_cycles_agree_and_an_undone_gang_leaves_shares_as_they_were() -> None:
    """A gang that does not fit is tried and taken back; the others share as if it had not been there."""
    objects = [
        node("n1", cpu="8", memory="80G", pods="200"),
        place("root/a", "1/1"),
        place("root/b", "1/1"),
        group("big", 9, queue="root-a", phase="Inqueue"),
        *pods("big", 9, "big", cpu="1"),
        *demand("a", "root/a", 8, cpu="1"),
        *demand("b", "root/b", 8, cpu="1"),
    ]
    conf = CONF.replace("- plugins:", "- plugins:\n  - name: gang", 1)
    world = World(*objects, conf=conf)
    world.cycle()
    assert placed(world) == {"a": 4, "b": 4}
    again = World(*objects, conf=conf)
    again.cycle()
    assert again.binds == world.binds
