"""Queues get what the oracle gives them: proportion, capacity and drf without and with a tree, and fair shares."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.oracle.changes import CHANGES, change
from tests.oracle.compare import compare
from tests.oracle.confs import confs
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
def test_capacity_decides_as_the_oracle(conf: str, objects: list[Manifest]) -> None:
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
def test_capacity_with_a_tree_of_queues_decides_as_the_oracle(
    conf: str, objects: list[Manifest], changes: list[Any], data: st.DataObject
) -> None:
    world = World(*objects, conf=conf)
    compare(world, conf)
    for number, each in enumerate(changes):
        world.echo()
        change(world, each, data.draw, TREE, 10 + number)
        compare(world, conf)


@examples(40)
@given(confs(ACTIONS, ("gang", "predicates", "proportion"), ("drf", *OTHERS)), worlds(FLAT))
def test_proportion_decides_as_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


@examples(60)
@given(
    confs(ACTIONS, ("gang", "predicates", "drf"), OTHERS, entries={"drf": {"enableHierarchy": True}}),
    worlds(Mix(running=True, queue_annotations=WAYS)),
)
def test_drf_with_a_tree_of_queues_decides_as_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


USERS = confs(
    ("enqueue, allocate, backfill", "allocate", "enqueue, backfill, allocate"),
    ("namespace-fairshare", "predicates"),
    ("priority", "gang", "overcommit", "drf", "proportion", "nodeorder", "sla"),
)


@examples(60)
@given(USERS, of_users(worlds(Mix(running=True))))
def test_namespace_fairshare_decides_as_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


@examples(40)
@given(
    USERS,
    of_users(worlds(Mix(running=True, jobs=3))),
    st.lists(st.tuples(CHANGES, st.sampled_from([0, 1, 31, 61, 400])), min_size=1, max_size=5),
    st.data(),
)
def test_namespace_fairshare_decides_as_the_oracle_over_several_cycles(
    conf: str, objects: list[Manifest], changes: list[Any], data: st.DataObject
) -> None:
    """Time passes between the cycles, as a long wait makes the other namespaces wait too."""
    world, memory = World(*objects, conf=conf), dict[str, Any]()
    compare(world, conf, memory)
    for number, (each, later) in enumerate(changes):
        world.echo()
        change(world, each, data.draw, Mix(), 10 + number)
        world.now += later
        compare(world, conf, memory)


def _in_one_queue(objects: list[Manifest]) -> list[Manifest]:
    """Return the same jobs, all in the first queue, which is open and as large as the cluster."""
    for each in objects:
        if each["kind"] == "PodGroup":
            each["spec"]["queue"] = "q0"
        elif each["kind"] == "Queue" and each["metadata"]["name"] == "q0":
            each["spec"].pop("capability", None)
            each["status"]["state"] = "Open"
    return objects


@examples(40)
@given(
    confs(
        ("enqueue, allocate, backfill", "allocate"),
        ("namespace-fairshare", "predicates", "gang", "overcommit"),
        ("priority", "drf", "sla"),
        given={
            "namespace-fairshare": st.sampled_from([{"patience": "30s"}, {"patience": "10s"}]),
            "overcommit": st.sampled_from([{"overcommit-factor": 0.3}, {}]),
        },
    ),
    of_users(worlds(Mix(running=True, jobs=6))).map(_in_one_queue),
    st.lists(
        st.tuples(st.sampled_from(["nothing", "end", "end", "delete", "job"]), st.integers(0, 50), st.integers(5, 40)),
        min_size=3,
        max_size=7,
    ),
    st.data(),
)
def test_patience_of_namespace_fairshare_decides_as_the_oracle(
    conf: str, objects: list[Manifest], changes: list[Any], data: st.DataObject
) -> None:
    """Some users of a queue wait for long, so that the others wait, continue, and wait again."""
    world, memory = World(*objects, conf=conf), dict[str, Any]()
    compare(world, conf, memory)
    for number, (kind, choice, later) in enumerate(changes):
        world.echo()
        change(world, (kind, choice), data.draw, Mix(), 10 + number)
        world.now += later
        compare(world, conf, memory)
