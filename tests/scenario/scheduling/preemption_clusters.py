"""Configurations and jobs with priorities for the scenarios of preempt and gangpreempt."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import World, group, priority_class
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate, backfill, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
"""


DRY_RUN = f"""{CONF}
configurations:
- name: preempt
  arguments: {{enableTopologyAwarePreemption: true, minCandidateNodesPercentage: 100}}
"""


PRIORITY_CLASSES = (priority_class("low", 10), priority_class("middle", 100), priority_class("high", 1000))


def job(name: str, minimum: int, *members: Manifest, priority: str = "low", **more: Any) -> list[Manifest]:
    """Return a PodGroup of that priority with its pods."""
    phase = more.pop("phase", "Running" if members and members[0]["spec"]["nodeName"] else "Inqueue")
    return [group(name, minimum, phase=phase, priorityClassName=priority, **more), *members]


def preemption_world(*objects: Manifest, conf: str = CONF) -> World:
    """Return a world that has the priority classes."""
    return World(*PRIORITY_CLASSES, *objects, conf=conf)
