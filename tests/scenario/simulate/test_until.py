"""`volcanoio simulate --until running|completed`: when groups run or end, and that some never do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.scenario.scheduling.harness import group, node, pods, priority_class, queue, running
from tests.scenario.simulate.command import NOW, Ended, Simulate
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate, backfill, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""
NODE = (node("n1", cpu="4"), queue("default"))
OLD = (group("old", 1, phase="Running"), *running("old", 4, on="n1", cpu="1"))
CONTROLLER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "old", "uid": "u", "controller": True}
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: new, namespace: ns}
spec:
  minAvailable: 2
  runningEstimate: 5m
  tasks:
  - {name: w, replicas: 2, template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "2"}}}]}}}
"""


def ran(simulate: Simulate, *words: str, state: tuple[Manifest, ...], conf: str = CONF) -> Ended:
    """Run the command on a state."""
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(state)})
    files = ("-f", simulate.file("state.json", listed), "--conf", simulate.file("c.conf", conf), "--now", NOW)
    return simulate.run(*files, *words)


def first_line(ended: Ended) -> str:
    return ended.out.partition("\n")[0]


def until(ended: Ended) -> list[dict[str, Any]]:
    """Return the groups of the JSON output."""
    groups: list[dict[str, Any]] = json.loads(ended.out)["until"]["groups"]
    return groups


def test_a_group_runs_once_the_pods_before_it_have_ended(simulate: Simulate) -> None:
    state = (*NODE, *OLD, group("g", 4, phase="Inqueue"), *pods("g", 4, "g", cpu="1"))
    done = ran(simulate, "--until", "running", "--run-time", "1h", state=state)
    assert done.code == 0
    assert first_line(done).startswith("ns/g runs after 1h")
    completed = ran(simulate, "--until", "completed", "--run-time", "1h", state=state)
    assert first_line(completed).startswith("ns/g has completed after 2h")


def test_a_group_that_never_runs_is_said_so_with_the_reason(simulate: Simulate) -> None:
    state = (*NODE, group("g", 1, phase="Inqueue"), *pods("g", 1, "g", cpu="9"))
    done = ran(simulate, "--until", "running", "--run-time", "1h", state=state)
    assert done.code == 1
    expected = "ns/g never runs: LargerThanAnyNode: 0/1 nodes are unavailable: 1 Insufficient cpu."
    assert first_line(done) == expected
    assert until(ran(simulate, "--until", "running", "-o", "json", state=state))[0]["code"] == "LargerThanAnyNode"


def test_pods_that_do_not_end_are_in_the_way_for_ever(simulate: Simulate) -> None:
    state = (*NODE, *OLD, group("g", 4, phase="Inqueue"), *pods("g", 4, "g", cpu="1"))
    done = ran(simulate, "--until", "running", state=state)
    assert (done.code, first_line(done)[:15]) == (1, "ns/g never runs")
    ends = ran(simulate, "--until", "completed", state=(*NODE, group("h", 1, phase="Inqueue"), *pods("h", 1, "h")))
    assert first_line(ends) == "ns/h never completes: its pods run and do not end; give their --run-time"


def test_nothing_waits(simulate: Simulate) -> None:
    done = ran(simulate, "--until", "running", state=(*NODE, *OLD))
    assert (done.code, done.out) == (
        0,
        "no group waits\n\n1 cycle: 0 bound, 0 evicted, 0 waiting for pods that are ending\n",
    )


def test_a_limit_of_cycles_is_not_called_never(simulate: Simulate) -> None:
    state = (*NODE, *OLD, group("g", 4, phase="Inqueue"), *pods("g", 4, "g", cpu="1"))
    done = ran(simulate, "--until", "running", "--cycles", "2", "--run-time", "1h", state=state)
    assert done.code == 1
    assert first_line(done).startswith("ns/g is not running within 2 cycles: InsufficientResource")


def test_victims_are_replaced_and_wait_in_turn(simulate: Simulate) -> None:
    victims = [dict(each) for each in OLD[1:]]
    for each in victims:
        each["metadata"] = {**each["metadata"], "ownerReferences": [CONTROLLER]}
    urgent = (priority_class("high", 1000), group("g", 2, phase="Inqueue", priorityClassName="high"))
    state = (*NODE, OLD[0], *victims, *urgent, *pods("g", 2, "g", cpu="1"))
    done = ran(simulate, "--until", "running", "-o", "json", state=state)
    assert done.code == 0
    assert json.loads(done.out)["taskStatus"]["ns/old"] == {"Running": 2, "Pending": 2}


def test_only_submitted_jobs_are_waited_for_and_their_estimate_is_used(simulate: Simulate) -> None:
    state = (*NODE, group("big", 1, phase="Inqueue"), *pods("big", 1, "big", cpu="9"))
    file = str(simulate.file("job.yaml", JOB))
    done = ran(simulate, "--until", "completed", "--submit", file, "-o", "json", state=state)
    (new,) = until(done)
    assert done.code == 0
    assert new["target"].startswith("ns/new-")
    assert 300 <= new["after"] <= 310


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--run-time", "1h"], "--run-time: without --until no pod runs"),
        (["--until", "running", "--run-time", "soon"], '--run-time: "soon" is not a duration above 0'),
        (["--until", "running", "--compare", "c.conf"], "--until: it cannot be compared"),
        (["--until", "later"], "'later' is not one of 'running', 'completed'"),
    ],
)
def test_options_that_cannot_be_used(simulate: Simulate, words: list[str], error: str) -> None:
    done = ran(simulate, *words, state=NODE)
    assert done.code == 2
    assert error in done.err
