"""Action preempt: an eviction on one node can make room for a later task on another node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.scenario.scheduling.harness import Scenario, labelled, node, queue, running, scenarios, waiting
from tests.scenario.scheduling.podrules import ZONE, apart, term, zoned
from tests.scenario.scheduling.preemption_clusters import CONF, DRY_RUN, PRIORITY_CLASSES, job
from volcanoio.model.base import Manifest

GANG_THEN_PRIORITY = """
actions: "preempt"
tiers:
- plugins:
  - name: gang
  - name: capacity
- plugins:
  - name: priority
  - name: predicates
"""


def repelling(members: list[Manifest], app: str) -> list[Manifest]:
    """Give the last pod required anti-affinity to pods of an app in its zone."""
    members[-1]["spec"]["affinity"] = apart(term(ZONE, app=app))
    return members


@scenarios(
    Scenario(
        name="a pod that repels the gang from a whole zone is evicted once for all of its tasks",
        cluster=[
            zoned("n1", "z", cpu="3"),
            zoned("n2", "z", cpu="2"),
            *job("old", 1, *repelling(running("old", 3, on="n1"), app="new")),
            *job("calm", 1, *running("calm", 1, on="n2")),
            *job("new", 2, *(labelled(one, app="new") for one in waiting("new", 2)), priority="high"),
        ],
        evicts=["old-2"],
        pipelines={"new-0": "n1", "new-1": "n2"},
    ),
    common=PRIORITY_CLASSES,
)
@pytest.mark.parametrize("conf", [CONF, DRY_RUN], ids=["one by one", "dry run"])
def test_zones(scenario: Scenario, conf: str) -> None:
    replace(scenario, conf=conf).check()


@scenarios(
    Scenario(
        name="one large victim brings the queue below its limit for two tasks on different nodes",
        cluster=[
            node("n1", cpu="2", memory="1Gi"),
            node("n2", cpu="3", memory="4Gi"),
            queue("q", capability={"cpu": "4"}),
            *job("old", 0, *running("old", 1, on="n1", cpu="2", memory="1Gi"), queue="q"),
            *job("calm", 2, *running("calm", 2, on="n2"), queue="q"),
            *job("new", 2, *waiting("new", 2, memory="1Gi"), queue="q", priority="high"),
        ],
        evicts=["old-0"],
        pipelines={"new-0": "n1", "new-1": "n2"},
    ),
    common=PRIORITY_CLASSES,
)
@pytest.mark.parametrize("conf", [CONF, DRY_RUN], ids=["one by one", "dry run"])
def test_queue_limits(scenario: Scenario, conf: str) -> None:
    replace(scenario, conf=conf.replace("  - name: nodeorder\n", "")).check()


@scenarios(
    # gang offers one task of `old`, which is too little on n2; once it is evicted, gang offers none and priority `low`.
    Scenario(
        name="where the first tier has no victims left, the next tier chooses them",
        cluster=[
            node("n1", cpu="3"),
            node("n2", cpu="4"),
            queue("q", capability={"cpu": "4"}),
            *job("calm", 1, *running("calm", 1, on="n2")),
            *job(
                "old",
                2,
                *running("old", 1, cpu="500m"),
                *running("old", 3, on="n2", cpu="500m")[1:],
                queue="q",
                priority="middle",
            ),
            *job("low", 1, *running("low", 1, on="n2", cpu="2"), queue="q"),
            *job("new", 3, *waiting("new", 3), queue="q", priority="middle"),
        ],
        evicts=["old-0", "low-0"],
        pipelines={"new-0": "n1", "new-1": "n2", "new-2": "n2"},
    ),
    conf=GANG_THEN_PRIORITY,
    common=PRIORITY_CLASSES,
)
def test_tiers(scenario: Scenario) -> None:
    scenario.check()
