"""The engine places as Volcano's own loop does: random small clusters through both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.loop import Oracle
from tests.oracle.model import OCluster, OJob, ONode, OQueue, OTask
from tests.scenario.scheduling.harness import World, group, node, pod, queue
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

MI = 1 << 20
DEFAULTS = {"cpu": 100, "memory": 200 * MI}
"""What a scorer counts for a container that asks for nothing."""

cpus, memories = st.integers(0, 30).map(lambda n: n * 100), st.integers(0, 16).map(lambda n: n * 128 * MI)
pod_specs = st.fixed_dictionaries(
    {
        "cpu": cpus,
        "memory": memories,
        "gpu": st.sampled_from([0, 0, 0, 1]),
        "role": st.sampled_from(["", "a", "b"]),
        "priority": st.sampled_from([1, 1, 5]),
        "selector": st.sampled_from([{}, {}, {}, {"disk": "ssd"}]),
        "tolerations": st.sampled_from([[], [], ["hard"], ["soft"]]),
        "prefers": st.sampled_from([[], [], [], [(10, "disk", "ssd")], [(3, "zone", "1"), (7, "disk", "ssd")]]),
        "count": st.integers(1, 4),
    }
)
node_specs = st.fixed_dictionaries(
    {
        "cpu": st.integers(1, 8).map(lambda n: n * 1000),
        "memory": st.integers(1, 8).map(lambda n: n * 1024 * MI),
        "gpu": st.sampled_from([0, 0, 2]),
        "pods": st.sampled_from([2, 110]),
        "labels": st.sampled_from([{}, {"disk": "ssd"}, {"zone": "1"}, {"disk": "ssd", "zone": "1"}]),
        "taints": st.sampled_from([[], [], [], [("hard", "", "NoSchedule")], [("soft", "", "PreferNoSchedule")]]),
        "unschedulable": st.sampled_from([False, False, False, True]),
    }
)
job_specs = st.fixed_dictionaries(
    {
        "queue": st.integers(0, 2),
        "runs": st.lists(pod_specs, min_size=1, max_size=2),
        "minimum": st.integers(1, 6),
        "demand": st.sampled_from([None, 0, 500, 2000, 6000]),
        "phase": st.sampled_from(["Pending", "Pending", "Inqueue"]),
    }
)
old_pods = st.fixed_dictionaries(
    {"cpu": cpus, "memory": memories, "node": st.integers(0, 4), "deleting": st.sampled_from([False, False, True])}
)
clusters = st.fixed_dictionaries(
    {
        "nodes": st.lists(node_specs, min_size=1, max_size=5),
        "queues": st.lists(
            st.tuples(st.integers(1, 4), st.sampled_from([None, 2000, 9000]), st.sampled_from([0, 0, 5])),
            min_size=3,
            max_size=3,
        ),
        "jobs": st.lists(job_specs, min_size=1, max_size=5),
        "old": st.lists(old_pods, max_size=4),
    }
)


def task_of(name: str, spec: Mapping[str, Any]) -> OTask:
    requests = {key: spec[key] for key in ("cpu", "memory") if spec[key]}
    if spec.get("gpu"):
        requests["nvidia.com/gpu"] = spec["gpu"] * 1000
    return OTask(
        name=name,
        requests={**requests, "pods": 1},
        nonzero={key: requests.get(key, DEFAULTS[key]) for key in DEFAULTS},
        role=spec.get("role", ""),
        priority=spec.get("priority", 1),
        selector=spec.get("selector", {}),
        tolerations=spec.get("tolerations", []),
        prefers=spec.get("prefers", []),
    )


def plain(spec: Mapping[str, Any]) -> OCluster:
    """The cluster as the oracle sees it."""
    nodes = [
        ONode(
            name=f"n{at}",
            allocatable={
                "cpu": item["cpu"],
                "memory": item["memory"],
                "pods": item["pods"],
                **({"nvidia.com/gpu": item["gpu"] * 1000} if item["gpu"] else {}),
            },
            labels=item["labels"],
            taints=item["taints"],
            unschedulable=item["unschedulable"],
        )
        for at, item in enumerate(spec["nodes"])
    ]
    for at, item in enumerate(spec["old"]):
        home = nodes[item["node"] % len(nodes)]
        old = task_of(f"old-{at}", item)
        old.state, old.node = "releasing" if item["deleting"] else "running", home.name
        if all(home.idle(name) >= amount for name, amount in old.requests.items()):
            home.tasks.append(old)
    queues = [
        OQueue(f"q{at}", weight, priority, {"cpu": limit} if limit else {})
        for at, (weight, limit, priority) in enumerate(spec["queues"])
    ]
    jobs = []
    for at, item in enumerate(spec["jobs"]):
        tasks = [
            task_of(f"j{at}-r{part}-{index}", run)
            for part, run in enumerate(item["runs"])
            for index in range(run["count"])
        ]
        demand = None if item["demand"] is None else {"cpu": item["demand"]}
        jobs.append(
            OJob(f"j{at}", f"q{item['queue']}", item["minimum"], tasks, phase=item["phase"], minimum_resources=demand)
        )
    return OCluster(nodes, [*queues, OQueue("default")], jobs)


def pod_manifest(task: OTask, job: str) -> Manifest:
    spec: dict[str, Any] = {
        "nodeSelector": task.selector,
        "tolerations": [{"key": key, "operator": "Exists"} for key in task.tolerations],
        "priority": task.priority,
    }
    if task.prefers:
        terms = [
            {"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}}
            for weight, key, value in task.prefers
        ]
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    requests = {
        name: f"{amount}m" if name != "memory" else str(amount)
        for name, amount in task.requests.items()
        if name != "pods"
    }
    manifest = pod(task.name, job, role=task.role, on=task.node, spec=spec, **requests)
    if task.state in ("running", "releasing"):
        manifest["status"]["phase"] = "Running"
    if task.state == "releasing":
        manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return manifest


def world_of(cluster: OCluster) -> World:
    """The same cluster as objects."""
    objects: list[Manifest] = []
    for item in cluster.nodes:
        amounts = {
            name: f"{amount}m" if name in ("cpu", "nvidia.com/gpu") else str(amount)
            for name, amount in item.allocatable.items()
        }
        taints = [{"key": key, "value": value, "effect": effect} for key, value, effect in item.taints]
        objects.append(node(item.name, labels=item.labels, taints=taints, unschedulable=item.unschedulable, **amounts))
        objects += [pod_manifest(task, "") for task in item.tasks]
    for share in cluster.queues[:-1]:
        capability = {name: f"{amount}m" for name, amount in share.capability.items()}
        objects.append(queue(share.name, weight=share.weight, capability=capability, priority=share.priority))
    for job in cluster.jobs:
        demand = job.minimum_resources
        more = {} if demand is None else {"minResources": {"cpu": f"{demand['cpu']}m"}}
        objects.append(group(job.name, job.minimum, queue=job.queue, phase=job.phase, **more))
        objects += [pod_manifest(task, job.name) for task in job.tasks]
    return World(*objects)


def compare(world: World, cluster: OCluster) -> dict[str, str]:
    """One cycle of both; gives what both bind."""
    before = set(world.binds)
    world.cycle()
    state = world.state

    def tie(task: OTask, where: ONode) -> int:
        shape = state.ledger.tasks[f"ns-{task.name}"].shape
        rows = np.array([state.ledger.columns.rows[where.name]], np.intp)
        return int(state.placer._tie_keys(shape, rows)[0])

    expected = Oracle(cluster, tie).run()
    assert {name: where for name, where in world.binds.items() if name not in before} == expected
    return expected


@settings(max_examples=150, deadline=None)
@given(clusters)
def test_the_engine_places_as_the_loop_does(spec: Mapping[str, Any]) -> None:
    cluster = plain(spec)
    compare(world_of(cluster), cluster)


def settle(world: World, cluster: OCluster) -> None:
    """What was bound runs, and nothing else has happened: reservations of a kept statement end with their cycle."""
    world.echo()
    for job in cluster.jobs:
        job.phase = world.phase(job.name)
        for task in job.tasks:
            if task.state == "allocated" and task.name in world.binds:
                task.state = "running"
            elif task.state in ("allocated", "pipelined"):
                next(node for node in cluster.nodes if node.name == task.node).tasks.remove(task)
                task.state, task.node = "pending", ""


def end_one(world: World, cluster: OCluster, choice: int) -> None:
    """A running pod is gone."""
    running = [(job, task) for job in cluster.jobs for task in job.tasks if task.state == "running"]
    if running:
        job, task = running[choice % len(running)]
        job.tasks.remove(task)
        next(node for node in cluster.nodes if node.name == task.node).tasks.remove(task)
        world.remove(kinds.POD, f"ns/{task.name}")


@settings(max_examples=60, deadline=None)
@given(clusters, st.lists(st.tuples(st.booleans(), st.integers(0, 50)), min_size=1, max_size=3))
def test_what_lives_across_cycles_changes_nothing(spec: Mapping[str, Any], steps: list[tuple[bool, int]]) -> None:
    cluster = plain(spec)
    world = world_of(cluster)
    compare(world, cluster)
    for ends, choice in steps:
        settle(world, cluster)
        if ends:
            end_one(world, cluster, choice)
        world.now -= 0.99 * world.period
        compare(world, cluster)
