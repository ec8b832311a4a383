"""A nominatedNodeName that another process wrote is a nomination while pods that terminate there can make room."""

from __future__ import annotations

from tests.scenario.scheduling.harness import CREATED, Scenario, group, node, pod, priority_class, running, scenarios
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: proportion
"""
PREEMPTED = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}


def terminating(manifest: Manifest) -> Manifest:
    """Set the deletion timestamp of a pod, and return it."""
    manifest["metadata"]["deletionTimestamp"] = CREATED
    return manifest


def nominated(cpu: str) -> Manifest:
    """Return a pod of high priority that is nominated to n1."""
    return pod("new", "new", cpu=cpu, spec={"priority": 1000}, status={"nominatedNodeName": "n1"})


TWO_CPUS = (
    priority_class("high", 1000),
    node("n1", cpu="2"),
    group("old", 0, phase="Running"),
    group("new", 1, phase="Inqueue", priorityClassName="high"),
)
A, B = running("old", 2)


@scenarios(
    Scenario(
        name="a nominated pod waits for terminating pods that make enough room",
        cluster=[*TWO_CPUS, *map(terminating, running("old", 2)), nominated(cpu="2")],
        pipelines={"new": "n1"},
    ),
    Scenario(
        name="a nominated pod waits for preempted pods even if their room is not enough",
        cluster=[*TWO_CPUS, *map(terminating, running("old", 1, status=PREEMPTED)), B, nominated(cpu="2")],
    ),
    Scenario(
        name="a nominated pod evicts where no pod terminates",
        cluster=[*TWO_CPUS, A, B, nominated(cpu="1")],
        evicts=["old-1"],
    ),
    Scenario(
        name="a nominated pod evicts where terminating pods that were not preempted make too little room",
        cluster=[*TWO_CPUS, *map(terminating, running("old", 1)), B, nominated(cpu="2")],
        evicts=["old-1"],
    ),
    conf=CONF,
)
def test_nominations(scenario: Scenario) -> None:
    scenario.check()
