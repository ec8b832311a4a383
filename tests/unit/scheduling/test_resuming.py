"""Jobs that wait for their victims are given their places whole: it comes to what placing task by task comes to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scenario.scheduling.harness import World, group, node, pods
from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.session.session import CycleSession, pipeline_on_nominated
from volcanoio.framework.scheduling_effects import SchedulerEffect
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate, backfill, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""
HIGH: Manifest = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high", "uid": "high"},
    "value": 100,
}
gangs = st.fixed_dictionaries({"size": st.integers(1, 4), "least": st.integers(1, 4), "cpu": st.sampled_from("12")})


def cluster(nodes: int, takers: list[dict[str, Any]]) -> list[Manifest]:
    """Nodes full of elastic jobs, and gangs of a higher priority."""
    objects: list[Manifest] = [HIGH]
    for number in range(nodes):
        objects += [node(f"n{number}", cpu="4"), group(f"old{number}", 1, phase="Running")]
        objects += pods(f"old{number}", 4, f"old{number}", cpu="1", on=f"n{number}", phase="Running")
    for number, taker in enumerate(takers):
        least = min(taker["least"], taker["size"])
        objects.append(group(f"new{number}", least, phase="Inqueue", priorityClassName="high"))
        objects += pods(f"new{number}", taker["size"], f"new{number}", cpu=taker["cpu"])
    return objects


def history(objects: list[Manifest], gone: list[int], *, whole: bool) -> list[tuple[list[SchedulerEffect], Any, int]]:
    """What each of some cycles decided, how it ended, and how many jobs were resumed; between them victims go."""
    resumed: list[str] = []

    def told(session: CycleSession, job: JobInfo) -> bool:
        if whole and pipeline_on_nominated(session, job):
            resumed.append(job.key)
            return True
        return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("volcanoio.engine.scheduling.session.session.pipeline_on_nominated", told)
        world, found = World(*objects, conf=CONF), []
        for count in gone:
            world.cycle()
            found.append((list(world.last), world.snapshot, len(resumed)))
            world.echo()
            ending = [
                key
                for (resource, key), obj in world.objects.items()
                if resource == kinds.POD.resource and obj.metadata.deletion_timestamp
            ]
            for key in sorted(ending)[:count]:
                world.remove(kinds.POD, key)
    return found


@examples(40)
@given(
    nodes=st.integers(1, 3),
    takers=st.lists(gangs, min_size=1, max_size=3),
    gone=st.lists(st.sampled_from([0, 0, 1, 2, 9]), min_size=4, max_size=8),
)
@example(  # the last of them had a place at once, until the one before it took that
    nodes=3,
    takers=[{"size": 1, "least": 1, "cpu": "1"}, *({"size": 2, "least": 2, "cpu": cpu} for cpu in "21")],
    gone=[1, 0, 1, 0],
)
def test_the_same_is_decided(nodes: int, takers: list[dict[str, Any]], gone: list[int]) -> None:
    objects = cluster(nodes, takers)
    whole, singly = history(objects, gone, whole=True), history(objects, gone, whole=False)
    assert [(decided, picture) for decided, picture, _ in whole] == [
        (decided, picture) for decided, picture, _ in singly
    ]


def test_it_is_done_while_victims_terminate_and_no_longer() -> None:
    objects = cluster(2, [{"size": 4, "least": 4, "cpu": "1"}])
    found = history(objects, [0, 0, 0, 9, 0], whole=True)
    assert [resumed for _, _, resumed in found] == [0, 1, 2, 3, 3]
