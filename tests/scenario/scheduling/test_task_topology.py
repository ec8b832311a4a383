"""Plugin task-topology: affinity, anti-affinity and order between the tasks of one job."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.topology.tasktopology import Buckets, affinities_of

from tests.scenario.scheduling.harness import Scenario, World, group, node, pod, scenarios
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
    """Return PodGroup g with annotations of the plugin."""
    manifest = group("g", minimum)
    manifest["metadata"]["annotations"] = {KEY + key.replace("_", "-"): value for key, value in annotations.items()}
    return manifest


def task(role: str, index: int = 0, cpu: str = "1", **more: str) -> Manifest:
    """Return a pod of a role of job g."""
    return pod(f"g-{role}-{index}", "g", role=role, cpu=cpu, **more)


def binds(world: World) -> dict[str, str]:
    """Run a cycle, and return all binds."""
    world.cycle()
    return world.binds


@scenarios(
    Scenario(
        name="a task is placed beside a running task of a role that it has affinity to",
        cluster=[
            *(node(f"n{at}") for at in range(3)),
            pod("other", on="n0", phase="Running", cpu="6"),  # by binpack alone n0 would be best
            job(1, affinity="ps,worker"),
            task("ps", on="n2", phase="Running"),
            task("worker"),
        ],
        binds={"g-worker-0": "n2"},
    ),
    Scenario(
        name="task-order decides which task is placed first",
        cluster=[
            node("n0", cpu="1"),
            job(1, affinity="a,b,c", task_order="c,b,a"),
            task("a"),
            task("b"),
            task("c"),
        ],
        binds={"g-c-0": "n0"},
    ),
    conf=CONF,
)
def test_placement(scenario: Scenario) -> None:
    scenario.check()


def test_roles_with_affinity_share_nodes_and_roles_with_anti_affinity_do_not() -> None:
    nodes = [node(f"n{at}", cpu="2") for at in range(4)]
    tasks = [task(role, at) for role in ("ps", "worker") for at in range(3)]
    bound = binds(World(*nodes, job(6, affinity="ps,worker", anti_affinity="ps"), *tasks, conf=CONF))
    on = {role: [bound[f"g-{role}-{at}"] for at in range(3)] for role in ("ps", "worker")}
    assert sorted(on["ps"]) == sorted(on["worker"])
    assert len(set(on["ps"])) == 3


def test_tasks_of_a_role_with_anti_affinity_to_itself_are_spread() -> None:
    nodes = [node(f"n{at}", cpu="4") for at in range(3)]
    bound = binds(World(*nodes, job(3, anti_affinity="w"), *[task("w", at) for at in range(3)], conf=CONF))
    assert len(set(bound.values())) == 3


@pytest.mark.parametrize("affinity", ["a,x", "a,a", ""], ids=["missing role", "a role twice", "no role"])
def test_invalid_annotations_are_ignored(affinity: str) -> None:
    assert affinities_of({KEY + "affinity": affinity, KEY + "task-order": "a,x"}, {"a", "b"}) is None


def test_placements_of_a_gang_that_did_not_fit_have_no_effect_on_the_next_attempt() -> None:
    nodes = [node(f"n{at}", cpu="2") for at in range(2)]
    world = World(*nodes, job(5, affinity="ps,worker"), *[task("worker", at) for at in range(4)], task("ps"), conf=CONF)
    assert binds(world) == {}
    world.put(node("n2", cpu="2"))
    assert len(binds(world)) == 5


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=12), st.booleans())
def test_every_task_of_a_role_with_affinity_is_in_exactly_one_bucket(roles: list[str], alone: bool) -> None:
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
