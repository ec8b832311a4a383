"""Plugin capacity: trees of queues, invalid ones included, enqueue verdicts in them, and the order of queues."""

from __future__ import annotations

import pytest

from tests.scenario.scheduling.capacity_clusters import FLAT, NO_RECLAIM, NO_RECLAIM_TREE, ROOT, TREE, waiting_job
from tests.scenario.scheduling.harness import Scenario, World, group, node, pods, queue, running, scenarios
from volcanoio.model.base import Manifest


@pytest.mark.parametrize(
    ("queues", "reason"),
    [
        pytest.param(
            [queue("bad", parent="nowhere")],
            'queue "bad" has the parent "nowhere", which does not exist',
            id="missing parent",
        ),
        pytest.param(
            [queue("bad", parent="b1"), queue("b1", parent="b2"), queue("b2", parent="b1")],
            "queues are their own ancestors: b1 -> b2 -> b1",
            id="cycle of parents",
        ),
        pytest.param(
            [queue("bad"), queue("below", parent="bad")],
            'queue "bad" has queues below it; submit to one of these: below',
            id="job in a queue that is not a leaf",
        ),
    ],
)
def test_only_jobs_of_an_invalid_branch_wait_and_their_reason_names_the_error(
    queues: list[Manifest], reason: str
) -> None:
    world = World(
        node("n1"),
        ROOT,
        *queues,
        queue("good", parent="root"),
        *waiting_job("bad", "bad", cpu="1"),
        *waiting_job("good", "good", cpu="1"),
        conf=TREE,
    )
    world.run(4)
    assert world.binds == {"good-0": "n1"}
    assert reason in world.state.ledger.jobs["ns/bad"].attempts.reason.text


def test_jobs_wait_until_the_root_queue_exists() -> None:
    world = World(node("n1"), queue("q"), *waiting_job("a", "q", cpu="1"), conf=TREE)
    world.run(2)
    assert not world.binds
    world.put(ROOT)
    world.run(2)
    assert world.binds == {"a-0": "n1"}


def test_jobs_of_a_branch_run_once_its_missing_parent_is_created() -> None:
    world = World(node("n1"), ROOT, queue("q", parent="later"), *waiting_job("a", "q", cpu="1"), conf=TREE)
    world.run(2)
    world.put(queue("later"))
    world.run(2)
    assert world.binds == {"a-0": "n1"}


@scenarios(
    # Job old uses 3 cpus, of which 2 are above its minimum and do not count.
    Scenario(
        name="a job is enqueued if the limit allows it beside used and enqueued amounts less elastic ones",
        cluster=[
            node("n1"),
            queue("q", capability={"cpu": "4"}),
            group("old", 1, queue="q", phase="Running", minResources={"cpu": "1"}),
            *running("old", 3),
            group("a", 1, queue="q", minResources={"cpu": "3"}),
            group("b", 1, queue="q", minResources={"cpu": "1"}),
        ],
        phases={"a": "Inqueue", "b": "Pending"},
    ),
    Scenario(
        name="the demand of gated pods does not keep other jobs from being enqueued",
        cluster=[
            node("n1"),
            queue("q", capability={"cpu": "3"}),
            group("a", 1, queue="q", phase="Inqueue", minResources={"cpu": "3"}),
            *pods("a", 3, "a", cpu="1", spec={"schedulingGates": [{"name": "example.com/later"}]}),
            group("b", 1, queue="q", minResources={"cpu": "3"}),
        ],
        phases={"b": "Inqueue"},
    ),
    conf=NO_RECLAIM,
)
def test_which_jobs_are_enqueued(scenario: Scenario) -> None:
    scenario.check()


def test_an_enqueue_refusal_names_the_ancestor_and_the_resource() -> None:
    world = World(
        node("n1"),
        ROOT,
        queue("top", capability={"cpu": "4"}),
        queue("a", parent="top"),
        queue("b", parent="top"),
        group("a", 1, queue="a", minResources={"cpu": "3"}),
        group("b", 1, queue="b", minResources={"cpu": "3"}),
        conf=NO_RECLAIM_TREE,
    )
    world.run(3)
    assert (world.phase("a"), world.phase("b")) == ("Inqueue", "Pending")
    amounts = "queue top, above queue b: needs cpu 3, in use 0, admitted 3, limit 4"
    text = f"queue resource quota insufficient: insufficient cpu ({amounts})"
    assert ("b", "Unschedulable", text) in world.recorded


@scenarios(
    Scenario(
        name="a queue without a deserved amount is served after queues that use no more than theirs",
        conf=FLAT,
        cluster=[
            node("n1", cpu="5"),
            queue("a"),
            queue("b", deserved={"cpu": "3"}),
            *waiting_job("a", "a", 4, cpu="1"),
            *waiting_job("b", "b", 4, cpu="1"),
        ],
        bind_order=["b-0", "b-1", "b-2", "b-3", "a-0"],
    ),
    Scenario(
        name="two queues of one branch together get as much as the only queue of another branch",
        conf=TREE,
        cluster=[
            node("n1", cpu="8"),
            ROOT,
            queue("x", deserved={"cpu": "4"}),
            queue("x1", parent="x", deserved={"cpu": "4"}),
            queue("x2", parent="x", deserved={"cpu": "4"}),
            queue("y", deserved={"cpu": "4"}),
            queue("y1", parent="y", deserved={"cpu": "4"}),
            *waiting_job("one", "x1", 8, cpu="1"),
            *waiting_job("two", "x2", 8, cpu="1"),
            *waiting_job("three", "y1", 8, cpu="1"),
        ],
        bind_counts={"one": 2, "two": 2, "three": 4},
    ),
)
def test_order_of_queues(scenario: Scenario) -> None:
    scenario.check()
