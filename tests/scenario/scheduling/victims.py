"""What scenarios of evictions have in common: pods that run or wait, who is evicted, and victims that are gone."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import World, pods
from volcanoio.model import kinds
from volcanoio.model.base import Manifest


def running(name: str, count: int, *, on: str = "n1", cpu: str = "1", **more: Any) -> list[Manifest]:
    """Running pods of the group of that name."""
    return pods(name, count, name, cpu=cpu, on=on, phase="Running", **more)


def waiting(name: str, count: int, *, cpu: str = "1", **more: Any) -> list[Manifest]:
    """Pending pods of the group of that name."""
    return pods(name, count, name, cpu=cpu, **more)


def evicted(world: World) -> list[str]:
    """Who is evicted in one cycle."""
    world.cycle()
    return sorted(world.evictions)


def bury(world: World) -> None:
    """Terminating pods are gone."""
    for (resource, key), obj in list(world.objects.items()):
        if resource == kinds.POD.resource and obj.metadata.deletion_timestamp:
            world.remove(kinds.POD, key)
