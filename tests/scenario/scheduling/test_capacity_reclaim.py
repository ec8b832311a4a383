"""Plugin capacity: which queues lose tasks to which, by what they deserve and are guaranteed."""

from __future__ import annotations

from tests.scenario.scheduling.capacity_clusters import (
    FLAT,
    GPU,
    ROOT,
    TREE,
    guarantee,
    running_job,
    waiting_job,
    with_ancestor_reclaim_level,
)
from tests.scenario.scheduling.harness import Scenario, node, queue, scenarios

PARENT_BELOW_DESERVED = [
    node("n1", cpu="2"),
    ROOT,
    queue("x", deserved={"cpu": "1"}),
    queue("x1", parent="x"),
    queue("y"),
    *running_job("y", "y", 2, cpu="1"),
    *waiting_job("a", "x1", 1, cpu="1"),
]
PARENT_WITHIN_DESERVED = [
    node("n1", cpu="2"),
    ROOT,
    queue("x", deserved={"cpu": "1"}),
    queue("y", deserved={"cpu": "2"}),
    queue("y1", parent="y", deserved={"cpu": "1"}),
    *running_job("y", "y1", 2, cpu="1"),
    *waiting_job("a", "x", 1, cpu="1"),
]


@scenarios(
    Scenario(
        name="a queue below what it deserves evicts tasks of a queue above",
        conf=FLAT,
        cluster=[
            node("n1", cpu="4"),
            queue("a", deserved={"cpu": "2"}),
            queue("b", deserved={"cpu": "2"}),
            *running_job("a", "a", 4, cpu="1"),
            *waiting_job("b", "b", 4, 2, cpu="1"),
        ],
        evicts=["a-2", "a-3"],
    ),
    Scenario(
        name="no queue falls below its guarantee",
        conf=FLAT,
        cluster=[
            node("n1", cpu="4"),
            queue("a", deserved={"cpu": "1"}, guarantee=guarantee(cpu="3")),
            queue("b", deserved={"cpu": "3"}),
            *running_job("a", "a", 4, cpu="1"),
            *waiting_job("b", "b", 3, 1, cpu="1"),
        ],
        cycles=5,
        evicts=["a-3"],
    ),
    Scenario(
        name="no branch of queues falls below its guarantee",
        conf=TREE,
        cluster=[
            node("n1", cpu="4"),
            ROOT,
            queue("x", deserved={"cpu": "1"}, guarantee=guarantee(cpu="3")),
            queue("x1", parent="x"),
            queue("b", deserved={"cpu": "3"}),
            *running_job("a", "x1", 4, cpu="1"),
            *waiting_job("b", "b", 3, 1, cpu="1"),
        ],
        cycles=5,
        evicts=["a-3"],
    ),
    Scenario(
        name="a task without the resources that the preemptor needs is not evicted",
        conf=FLAT,
        cluster=[
            node("n1", cpu="4", memory="4Gi", **GPU),
            queue("a"),
            queue("b", deserved={"nvidia.com/gpu": "1"}),
            *running_job("a", "a", 1, cpu="4"),
            *running_job("g", "a", 1, **GPU),
            *waiting_job("b", "b", 1, **GPU),
        ],
        evicts=["g-0"],
    ),
    Scenario(
        name="a queue that would exceed its capability evicts nothing",
        conf=FLAT,
        cluster=[
            node("n1", cpu="4"),
            queue("a"),
            queue("b", deserved={"cpu": "4"}, capability={"cpu": "1"}),
            *running_job("a", "a", 4, cpu="1"),
            *waiting_job("b", "b", 1, cpu="2"),
        ],
    ),
    Scenario(
        name="a queue without a deserved amount evicts nothing where ancestors do not count",
        conf=with_ancestor_reclaim_level(0),
        cluster=PARENT_BELOW_DESERVED,
    ),
    Scenario(
        name="a queue whose parent is below what it deserves evicts where one level of ancestors counts",
        conf=with_ancestor_reclaim_level(1),
        cluster=PARENT_BELOW_DESERVED,
        evicts=["y-1"],
    ),
    Scenario(
        name="a queue above what it deserves loses tasks where ancestors do not count",
        conf=with_ancestor_reclaim_level(0),
        cluster=PARENT_WITHIN_DESERVED,
        evicts=["y-1"],
    ),
    Scenario(
        name="a queue whose parent is within what it deserves loses nothing where one level of ancestors counts",
        conf=with_ancestor_reclaim_level(1),
        cluster=PARENT_WITHIN_DESERVED,
    ),
    Scenario(
        name="a sibling loses tasks before a queue of another branch",
        conf=TREE,
        cluster=[
            node("n1", cpu="2"),
            ROOT,
            queue("x"),
            queue("x1", parent="x", deserved={"cpu": "1"}),
            queue("x2", parent="x"),
            queue("y"),
            *running_job("far", "y", 1, cpu="1"),
            *running_job("near", "x2", 1, cpu="1"),
            *waiting_job("a", "x1", 1, cpu="1"),
        ],
        evicts=["near-0"],
    ),
)
def test_capacity_chooses_the_queue_that_loses(scenario: Scenario) -> None:
    scenario.check()
