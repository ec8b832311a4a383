"""Configurations of the plugin capacity, and queues and jobs for its scenarios."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import group, pods, queue
from volcanoio.model.base import Manifest

FLAT = """
actions: "enqueue, allocate, reclaim"
tiers:
- plugins:
  - name: gang
    enableReclaimable: false
  - name: capacity
"""
TREE = FLAT + "    enableHierarchy: true\n"
NO_RECLAIM = FLAT.replace(", reclaim", "")
NO_RECLAIM_TREE = NO_RECLAIM + "    enableHierarchy: true\n"


def with_ancestor_reclaim_level(number: int) -> str:
    """Return the configuration of a tree with that `ancestorReclaimLevel`."""
    return TREE + f"    arguments: {{ancestorReclaimLevel: {number}}}\n"


ROOT = queue("root")
GPU: dict[str, Any] = {"nvidia.com/gpu": "1"}


def waiting_job(name: str, where: str, count: int = 1, minimum: int = 1, **requests: str) -> list[Manifest]:
    """Return an enqueued job of a queue with pending pods."""
    return [group(name, minimum, queue=where, phase="Inqueue"), *pods(name, count, name, **requests)]


def running_job(name: str, where: str, count: int = 1, minimum: int = 0, **requests: str) -> list[Manifest]:
    """Return a job of a queue whose pods run on n1."""
    members = pods(name, count, name, on="n1", phase="Running", **requests)
    return [group(name, minimum, queue=where, phase="Running"), *members]


def guarantee(**resources: str) -> Manifest:
    """Return the guarantee of a queue."""
    return {"resource": resources}
