"""preempt: who is evicted on one node may make room for the next task on another, where nobody need be evicted then."""

from __future__ import annotations

import pytest

from tests.scenario.scheduling.harness import node, queue
from tests.scenario.scheduling.podrules import ZONE, apart, term, zoned
from tests.scenario.scheduling.preemption_worlds import CONF, DRY_RUN, job, labelled, world
from tests.scenario.scheduling.victims import running, waiting


@pytest.mark.parametrize("conf", [CONF, DRY_RUN])
def test_who_kept_tasks_out_of_the_whole_zone_is_evicted_once(conf: str) -> None:
    guard = running("old", 3, on="n1")
    guard[2]["spec"]["affinity"] = apart(term(ZONE, app="new"))
    it = world(
        zoned("n1", "z", cpu="3"),
        zoned("n2", "z", cpu="2"),
        *job("old", 1, *guard),
        *job("calm", 1, *running("calm", 1, on="n2")),
        *job("new", 2, *(labelled(one, app="new") for one in waiting("new", 2)), priority="high"),
        conf=conf,
    )
    it.cycle()
    assert it.evictions == ["old-2"]
    assert it.snapshot is not None
    assert it.snapshot.pipelined == {"ns/new-0": "n1", "ns/new-1": "n2"}


@pytest.mark.parametrize("conf", [CONF, DRY_RUN])
def test_a_large_victim_brings_the_queue_below_its_limit_for_several(conf: str) -> None:
    it = world(
        node("n1", cpu="2", memory="1Gi"),
        node("n2", cpu="3", memory="4Gi"),
        queue("q", capability={"cpu": "4"}),
        *job("old", 0, *running("old", 1, on="n1", cpu="2", memory="1Gi"), queue="q"),
        *job("calm", 2, *running("calm", 2, on="n2"), queue="q"),
        *job("new", 2, *waiting("new", 2, memory="1Gi"), queue="q", priority="high"),
        conf=conf.replace("  - name: nodeorder\n", ""),
    )
    it.cycle()
    assert it.snapshot is not None
    assert it.snapshot.pipelined == {"ns/new-0": "n1", "ns/new-1": "n2"}
    assert it.evictions == ["old-0"]


IN_TURN = """
actions: "preempt"
tiers:
- plugins:
  - name: gang
  - name: capacity
- plugins:
  - name: priority
  - name: predicates
"""


def test_a_tier_without_victims_leaves_it_to_the_next() -> None:
    """At first gang gives one of `old`, which is too little on n2; once that one is gone, priority gives `low`."""
    old = [*running("old", 1, cpu="500m"), *running("old", 3, on="n2", cpu="500m")[1:]]
    it = world(
        node("n1", cpu="3"),
        node("n2", cpu="4"),
        queue("q", capability={"cpu": "4"}),
        *job("calm", 1, *running("calm", 1, on="n2")),
        *job("old", 2, *old, queue="q", priority="middle"),
        *job("low", 1, *running("low", 1, on="n2", cpu="2"), queue="q"),
        *job("new", 3, *waiting("new", 3), queue="q", priority="middle"),
        conf=IN_TURN,
    )
    it.cycle()
    assert it.evictions == ["old-0", "low-0"]
    assert it.snapshot is not None
    assert it.snapshot.pipelined == {"ns/new-0": "n1", "ns/new-1": "n2", "ns/new-2": "n2"}
