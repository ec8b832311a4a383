"""Configurations of capacity, queues and jobs in them, in few words, for its scenarios."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import group, pods, queue

FLAT = """
actions: "enqueue, allocate, reclaim"
tiers:
- plugins:
  - name: gang
    enableReclaimable: false
  - name: capacity
"""
TREE = FLAT + "    enableHierarchy: true\n"
ADMIT = FLAT.replace(", reclaim", "")


def level(number: int) -> str:
    return TREE + f"    arguments: {{ancestorReclaimLevel: {number}}}\n"


def root(**spec: Any) -> dict[str, Any]:
    return queue("root", **spec)


GPU: dict[str, Any] = {"nvidia.com/gpu": "1"}


def ask(name: str, where: str, count: int = 1, minimum: int = 1, **requests: str) -> list[dict[str, Any]]:
    """A job in a queue whose pods wait."""
    return [group(name, minimum, queue=where, phase="Inqueue"), *pods(name, count, name, **requests)]


def run(name: str, where: str, count: int = 1, minimum: int = 0, **more: str) -> list[dict[str, Any]]:
    """A job in a queue whose pods run on n1."""
    running = pods(name, count, name, on="n1", phase="Running", **more)
    return [group(name, minimum, queue=where, phase="Running"), *running]


def guarantee(**resources: str) -> dict[str, Any]:
    return {"resource": resources}
