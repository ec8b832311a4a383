"""Clusters of running victims and waiting preemptors."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import World, group
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


def rank(name: str, value: int) -> Manifest:
    """A PriorityClass."""
    meta = {"name": name, "uid": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}


LOW, MIDDLE, HIGH = rank("low", 10), rank("middle", 100), rank("high", 1000)


def job(name: str, minimum: int, *members: Manifest, priority: str = "low", **more: Any) -> list[Manifest]:
    """A PodGroup of that priority with its pods."""
    phase = more.pop("phase", "Running" if members and members[0]["spec"]["nodeName"] else "Inqueue")
    return [group(name, minimum, phase=phase, priorityClassName=priority, **more), *members]


def world(*objects: Manifest, conf: str = CONF) -> World:
    return World(LOW, MIDDLE, HIGH, *objects, conf=conf)


def labelled(manifest: Manifest, **labels: str) -> Manifest:
    manifest["metadata"]["labels"] = labels
    return manifest
