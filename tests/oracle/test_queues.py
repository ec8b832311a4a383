"""Queues get what the loop gives them: proportion, capacity flat and as a tree, drf flat and as a tree."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.changes import CHANGES, change
from tests.oracle.compare import compare
from tests.oracle.confs import confs
from tests.oracle.examples import examples
from tests.oracle.variants import of_users
from tests.oracle.worlds import Mix, worlds
from tests.scenario.scheduling.harness import World
from volcanoio.model.base import Manifest

ACTIONS = ("enqueue, allocate, backfill", "allocate")
OTHERS = ("priority", "overcommit", "nodeorder")
FLAT = Mix(limits=True, running=True)
TREE = Mix(limits=True, running=True, tree=True)
WAYS = {
    "volcano.sh/hierarchy": st.sampled_from([None, "root/a", "root/a/b", "root/a/c", "root/d"]),
    "volcano.sh/hierarchy-weights": st.sampled_from([None, "1/2", "1/2/3", "1/0/1"]),
}


@examples(40)
@given(confs(ACTIONS, ("gang", "predicates", "capacity"), ("drf", *OTHERS)), worlds(FLAT))
def test_capacity(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


@examples(60)
@given(
    confs(
        ACTIONS, ("gang", "predicates", "capacity"), ("drf", *OTHERS), entries={"capacity": {"enableHierarchy": True}}
    ),
    worlds(TREE),
    st.lists(CHANGES, max_size=2),
    st.data(),
)
def test_a_tree_of_capacity(conf: str, objects: list[Manifest], changes: list[Any], data: st.DataObject) -> None:
    world = World(*objects, conf=conf)
    compare(world, conf)
    for number, each in enumerate(changes):
        world.echo()
        change(world, each, data.draw, TREE, 10 + number)
        compare(world, conf)


@examples(40)
@given(confs(ACTIONS, ("gang", "predicates", "proportion"), ("drf", *OTHERS)), worlds(FLAT))
def test_proportion(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


@examples(60)
@given(
    confs(ACTIONS, ("gang", "predicates", "drf"), OTHERS, entries={"drf": {"enableHierarchy": True}}),
    worlds(Mix(running=True, queue_annotations=WAYS)),
)
def test_a_tree_of_shares(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


USERS = confs(
    ("enqueue, allocate, backfill", "allocate", "enqueue, backfill, allocate"),
    ("namespace-fairshare", "predicates"),
    ("priority", "gang", "overcommit", "drf", "proportion", "nodeorder", "sla"),
)


@examples(60)
@given(USERS, of_users(worlds(Mix(running=True))))
def test_users_of_a_queue(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


@examples(40)
@given(USERS, of_users(worlds(Mix(running=True, jobs=3))), st.lists(CHANGES, min_size=1, max_size=3), st.data())
def test_users_across_cycles(conf: str, objects: list[Manifest], changes: list[Any], data: st.DataObject) -> None:
    world = World(*objects, conf=conf)
    compare(world, conf)
    for number, each in enumerate(changes):
        world.echo()
        change(world, each, data.draw, Mix(), 10 + number)
        compare(world, conf)
