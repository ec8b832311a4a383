"""Pipelining a waiting preemptor to its nominated nodes as a whole equals placing its tasks one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scenario.scheduling.harness import World, group, node, pods, priority_class
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
HIGH = priority_class("high", 100)
gangs = st.fixed_dictionaries({"size": st.integers(1, 4), "least": st.integers(1, 4), "cpu": st.sampled_from("12")})


def cluster(nodes: int, preemptors: list[dict[str, Any]]) -> list[Manifest]:
    """Return nodes full of elastic jobs, and gangs of a higher priority."""
    objects: list[Manifest] = [HIGH]
    for number in range(nodes):
        objects += [node(f"n{number}", cpu="4"), group(f"old{number}", 1, phase="Running")]
        objects += pods(f"old{number}", 4, f"old{number}", cpu="1", on=f"n{number}", phase="Running")
    for number, preemptor in enumerate(preemptors):
        least = min(preemptor["least"], preemptor["size"])
        objects.append(group(f"new{number}", least, phase="Inqueue", priorityClassName="high"))
        objects += pods(f"new{number}", preemptor["size"], f"new{number}", cpu=preemptor["cpu"])
    return objects


def history(objects: list[Manifest], gone: list[int], *, whole: bool) -> list[tuple[list[SchedulerEffect], Any, int]]:
    """Return the decisions, the snapshot and the number of resumed jobs of each cycle.

    After each cycle as many terminating victims as `gone` has are removed.
    """
    resumed: list[str] = []

    def recorded(session: CycleSession, job: JobInfo) -> bool:
        if whole and pipeline_on_nominated(session, job):
            resumed.append(job.key)
            return True
        return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("volcanoio.engine.scheduling.session.session.pipeline_on_nominated", recorded)
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
    preemptors=st.lists(gangs, min_size=1, max_size=3),
    gone=st.lists(st.sampled_from([0, 0, 1, 2, 9]), min_size=4, max_size=8),
)
@example(  # the last one fitted at once, until the one before it was placed there
    nodes=3,
    preemptors=[{"size": 1, "least": 1, "cpu": "1"}, *({"size": 2, "least": 2, "cpu": cpu} for cpu in "21")],
    gone=[1, 0, 1, 0],
)
def test_decisions_are_the_same_as_task_by_task(nodes: int, preemptors: list[dict[str, Any]], gone: list[int]) -> None:
    objects = cluster(nodes, preemptors)
    whole, singly = history(objects, gone, whole=True), history(objects, gone, whole=False)
    assert [(decided, snapshot) for decided, snapshot, _ in whole] == [
        (decided, snapshot) for decided, snapshot, _ in singly
    ]


def test_a_preemptor_is_pipelined_as_a_whole_only_while_its_victims_terminate() -> None:
    objects = cluster(2, [{"size": 4, "least": 4, "cpu": "1"}])
    found = history(objects, [0, 0, 0, 9, 0], whole=True)
    assert [resumed for _, _, resumed in found] == [0, 1, 2, 3, 3]
