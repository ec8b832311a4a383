"""Random full clusters for preempt and reclaim: tasks that can be evicted, and jobs that need their room."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.oracle.worlds import (
    APPS,
    CLASSES,
    HOST,
    RARELY,
    RULES,
    ZONE,
    Draw,
    Mix,
    Room,
    copy_of,
    drawn,
    one_queue,
)
from tests.scenario.scheduling.harness import group, node, pod, queue
from volcanoio.model.base import Manifest

CPUS = st.sampled_from(["1", "500m", "2"])
VICTIMS = st.fixed_dictionaries(
    {
        "places": st.lists(st.integers(0, 3), min_size=3, max_size=5),
        "cpu": CPUS,
        "minimum": st.sampled_from([1, 1, 0, 2]),
        "rank": st.sampled_from(["low", "low", "mid"]),
        "queue": st.sampled_from(["q0", "q1", "q0", "q2"]),
    }
)
PREEMPTORS = st.fixed_dictionaries(
    {
        "size": st.sampled_from([2, 1, 3]),
        "cpu": CPUS,
        "minimum": st.sampled_from([2, 1, 3, 0]),
        "rank": st.sampled_from(["high", "high", "mid", "low"]),
        "queue": st.sampled_from(["q0", "q0", "q1"]),
    }
)


@st.composite
def contested(draw: Draw, mix: Mix) -> list[Manifest]:
    """Draw a cluster full of tasks that can be evicted, and jobs that need their room."""
    nodes = [_node(draw, mix, at) for at in range(draw(st.sampled_from([3, 2, 1])))]
    objects: list[Manifest] = [*CLASSES, *nodes, *(one_queue(draw, mix, at) for at in range(3))]
    if mix.tree:
        objects.append(queue("root", reclaimable=False))
    room = Room(nodes)
    for at, job in enumerate(draw(st.lists(VICTIMS, min_size=2, max_size=4))):
        pods = [_pod(draw, mix, f"v{at}-r-{index}", f"v{at}", job["cpu"]) for index in range(len(job["places"]))]
        there = [one for one, place in zip(pods, job["places"], strict=True) if _reserve(draw, room, one, place)]
        objects += [_group(draw, mix, f"v{at}", job, "Running"), *there]
    for at, job in enumerate(draw(st.lists(PREEMPTORS, min_size=1, max_size=3))):
        objects.append(_group(draw, mix, f"t{at}", job, "Inqueue"))
        model = _pod(draw, mix, "model", f"t{at}", job["cpu"])
        objects += [copy_of(model, f"t{at}-r-{index}") for index in range(job["size"])]
    return objects


def _reserve(draw: Draw, room: Room, one: Manifest, place: int) -> bool:
    """Put a pod on a node or on the next one with room, and return whether there was one."""
    phase, releasing = "Pending" if draw(RARELY) else "Running", draw(RARELY)
    return any(room.place(one, place + step, phase=phase, releasing=releasing) for step in range(3))


def _node(draw: Draw, mix: Mix, at: int) -> Manifest:
    labels = {HOST: f"n{at}", ZONE: draw(st.sampled_from(["x", "y"])), **drawn(draw, mix.node_labels)}
    taints = draw(st.sampled_from([[], [], [{"key": "soft", "effect": "PreferNoSchedule"}]]))
    return node(f"n{at}", cpu=str(draw(st.sampled_from([3, 2, 4]))), memory="8Gi", labels=labels, taints=taints)


def _pod(draw: Draw, mix: Mix, name: str, owner: str, cpu: str) -> Manifest:
    made = pod(name, owner, cpu=cpu, spec={"priority": draw(st.sampled_from([1, 5]))})
    made["metadata"]["annotations"] |= drawn(draw, mix.pod_annotations)
    made["metadata"]["labels"] = {"app": draw(APPS)}
    if mix.rules and draw(st.booleans()):
        rules = draw(RULES)
        if port := rules.pop("port", None):
            made["spec"]["containers"][0]["ports"] = [port]
        if spread := rules.pop("topologySpreadConstraints", None):
            made["spec"]["topologySpreadConstraints"] = spread
        made["spec"]["affinity"] = rules
    if draw(RARELY):
        made["spec"]["preemptionPolicy"] = "Never"
    return made


def _group(draw: Draw, mix: Mix, name: str, job: dict[str, Any], phase: str) -> Manifest:
    made = group(
        name, min(job["minimum"], job.get("size", 9)), queue=job["queue"], phase=phase, priorityClassName=job["rank"]
    )
    made["metadata"]["annotations"] = drawn(draw, mix.job_annotations)
    return made
