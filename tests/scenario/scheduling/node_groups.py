"""Node groups, and queues with affinity to them, for scenarios."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import node, queue
from volcanoio.model.base import Manifest


def conf(switch: str = "") -> str:
    """Return a configuration with nodegroup, and a switch or arguments of it."""
    return f"""
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: nodegroup
    {switch}
"""


def grouped(name: str, of: str = "", **more: str) -> Manifest:
    """Return a node of a node group, or of none."""
    return node(name, labels={"volcano.sh/nodegroup-name": of} if of else {}, **more)


def affine(name: str, *, limits: str = "", parent: str = "", **parts: list[str]) -> Manifest:
    """Return a queue; `required`, `preferred`, `forbidden` and `avoided` are node groups."""
    keys = {
        "required": ("nodeGroupAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
        "preferred": ("nodeGroupAffinity", "preferredDuringSchedulingIgnoredDuringExecution"),
        "forbidden": ("nodeGroupAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
        "avoided": ("nodeGroupAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution"),
    }
    affinity: dict[str, Any] = {}
    for part, groups in parts.items():
        outer, inner = keys[part]
        affinity.setdefault(outer, {})[inner] = groups
    spec: dict[str, Any] = {"affinity": affinity} if affinity else {}
    manifest = queue(name, **spec, **({"parent": parent} if parent else {}))
    if limits:
        manifest["metadata"]["annotations"] = {"volcano.sh/nodegroup-resource-limits": limits}
    return manifest
