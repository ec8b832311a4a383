"""Figures of a cycle."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class CycleStats:
    """Figures of a cycle: tasks placed, bound and evicted, gangs committed and boundaries passed, jobs enqueued.

    `evictions` counts statements that evicted, by action; `attempts` the nodes on which victims were looked for,
    `victims` how many the last of these had.
    """

    placed: int = 0
    bound: int = 0
    gangs: int = 0
    boundaries: int = 0
    enqueued: int = 0
    evicted: int = 0
    evictions: dict[str, int] = field(default_factory=dict)
    attempts: int = 0
    victims: int = 0
