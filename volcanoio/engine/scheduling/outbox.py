"""The decisions of a cycle on their way out, in the order they were made."""

from __future__ import annotations

from collections.abc import Sequence

from volcanoio.framework.scheduling_effects import BindBatch, BindRequest, SchedulerEffect


class Outbox:
    """Decisions since the last checkpoint. Successive binds of one group become one batch."""

    def __init__(self, cycle: int) -> None:
        self._cycle = cycle
        self._decisions: list[SchedulerEffect] = []
        self._group = ""
        self._binds: list[BindRequest] = []
        self.said = 0
        """Counts decisions other than binds."""

    def put(self, decision: SchedulerEffect) -> None:
        """Add a decision."""
        self._seal()
        self._decisions.append(decision)
        self.said += 1

    def bind(self, group: str, binds: Sequence[BindRequest]) -> None:
        """Add binds of a group; with those just before of the same group they are one batch."""
        if group != self._group:
            self._seal()
            self._group = group
        self._binds.extend(binds)

    def take(self) -> tuple[SchedulerEffect, ...]:
        """Hand out what came since the last call."""
        self._seal()
        decisions = tuple(self._decisions)
        self._decisions.clear()
        return decisions

    def _seal(self) -> None:
        if self._binds:
            self._decisions.append(BindBatch(group=self._group, cycle=self._cycle, binds=tuple(self._binds)))
            self._binds = []
        self._group = ""
