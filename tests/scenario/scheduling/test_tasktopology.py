"""Plugin task-topology: tasks that attract each other share nodes, tasks that repel each other do not."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.tasktopology import Buckets, affinities_of

from tests.scenario.scheduling.harness import World, group, node, pod
from tests.unit.scheduling_plugins.views import TaskView
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: task-topology
    arguments: {task-topology.weight: 10}
  - name: binpack
"""
KEY = "volcano.sh/task-topology-"


def job(minimum: int, **annotations: str) -> Manifest:
    manifest = group("g", minimum)
    manifest["metadata"]["annotations"] = {KEY + key.replace("_", "-"): value for key, value in annotations.items()}
    return manifest


def task(role: str, index: int = 0, cpu: str = "1", **more: str) -> Manifest:
    return pod(f"g-{role}-{index}", "g", role=role, cpu=cpu, **more)


def where(world: World) -> dict[str, str]:
    world.cycle()
    return world.binds


def test_tasks_that_attract_each_other_share_a_node() -> None:
    nodes = [node(f"n{at}", cpu="2") for at in range(4)]
    tasks = [task(role, at) for role in ("ps", "worker") for at in range(3)]
    binds = where(World(*nodes, job(6, affinity="ps,worker", anti_affinity="ps"), *tasks, conf=CONF))
    on = {name: [binds[f"g-{role}-{at}"] for at in range(3)] for name, role in (("ps", "ps"), ("worker", "worker"))}
    assert sorted(on["ps"]) == sorted(on["worker"])
    assert len(set(on["ps"])) == 3


def test_a_task_that_repels_itself_is_spread() -> None:
    nodes = [node(f"n{at}", cpu="4") for at in range(3)]
    binds = where(World(*nodes, job(3, anti_affinity="w"), *[task("w", at) for at in range(3)], conf=CONF))
    assert len(set(binds.values())) == 3


def test_a_task_follows_those_that_run_already() -> None:
    nodes = [node(f"n{at}", cpu="8") for at in range(3)]
    running = task("ps", on="n2", phase="Running")
    full = pod("other", on="n0", phase="Running", cpu="6")
    binds = where(World(*nodes, full, job(1, affinity="ps,worker"), running, task("worker"), conf=CONF))
    assert binds == {"g-worker-0": "n2"}, "binpack alone would have filled n0"


def test_the_order_of_names_is_the_order_of_tasks() -> None:
    tasks = [task("a"), task("b"), task("c")]
    order = {"affinity": "a,b,c", "task_order": "c,b,a"}
    assert set(where(World(node("n0", cpu="1"), job(1, **order), *tasks, conf=CONF))) == {"g-c-0"}


@pytest.mark.parametrize("affinity", ["a,x", "a,a", ""])
def test_what_makes_no_sense_says_nothing(affinity: str) -> None:
    assert affinities_of({KEY + "affinity": affinity, KEY + "task-order": "a,x"}, {"a", "b"}) is None


def test_a_discarded_gang_leaves_no_trace() -> None:
    nodes = [node(f"n{at}", cpu="2") for at in range(2)]
    world = World(*nodes, job(5, affinity="ps,worker"), *[task("worker", at) for at in range(4)], task("ps"), conf=CONF)
    assert where(world) == {}
    world.put(node("n2", cpu="2"))
    assert len(where(world)) == 5


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=12), st.booleans())
def test_every_task_with_a_bond_is_in_one_bucket(roles: list[str], alone: bool) -> None:
    names = set(roles)
    groups = ";".join(sorted(names)) if alone else ",".join(sorted(names))
    affinities = affinities_of({KEY + "affinity": groups, KEY + "anti-affinity": "a" if "a" in names else ""}, names)
    assert affinities is not None
    tasks = [TaskView(f"j-{role}-{at}", "ns/j", role=role) for at, role in enumerate(roles)]
    buckets = Buckets(tasks, affinities)
    assert set(buckets.of) == {each.uid for each in tasks}
    assert sum(len(bucket) for bucket in buckets.all) == len(tasks)
    assert buckets.largest == max(len(bucket) for bucket in buckets.all)
    counts = Counter(bucket.number for bucket in buckets.of.values())
    assert all(counts[bucket.number] == len(bucket) for bucket in buckets.all)
