"""Multi-Instance GPU: geometries divide a card into instances, and each pod gets one instance.

Source: Volcano, pkg/scheduler/api/devices/nvidia/vgpu/mig.go. A card keeps a geometry while a pod uses one of its
instances; an unused card may be divided in another way, so that the first pod decides. An instance is named by its
geometry and its position there: `group2-3` is the fourth instance of group2, counted over its profiles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple


class Instance(NamedTuple):
    """An instance of a divided card."""

    name: str
    memory: int


class Profile(NamedTuple):
    """Instances of one size in a geometry; memory in the unit of requests."""

    name: str
    memory: int
    number: int


class Geometry(NamedTuple):
    """One way to divide a card into instances."""

    group: str
    profiles: tuple[Profile, ...]

    def instances(self) -> Iterator[Instance]:
        """Yield the instances by position."""
        position = 0
        for profile in self.profiles:
            for _ in range(profile.number):
                yield Instance(f"{self.group}-{position}", profile.memory)
                position += 1


def free_instance(geometries: Sequence[Geometry], used: Collection[str], memory: int) -> Instance | None:
    """Return the smallest free instance with that much memory, None without any.

    `used` are the names of used instances. Geometries of an unused card are tried in their order: the first one with
    such an instance is taken.
    """
    groups = {name.rpartition("-")[0] for name in used}
    for geometry in geometries:
        if groups and groups != {geometry.group}:
            continue
        free = (each for each in geometry.instances() if each.name not in used and each.memory >= memory)
        if (best := min(free, key=lambda each: each.memory, default=None)) is not None:
            return best
    return None


def memory_of(geometries: Iterable[Geometry], name: str) -> int:
    """Return the memory of an instance, 0 if no geometry has it."""
    return next((each.memory for one in geometries for each in one.instances() if each.name == name), 0)
