"""Figures of scheduling cycles, under Volcano's names where it has them (`pkg/scheduler/metrics`)."""

from __future__ import annotations

from volcanoio.engine.scheduling.cycle import CycleResult
from volcanoio.framework.probe import Probe
from volcanoio.kube.clock import Clock

_MILLISECONDS = 1000


class CycleMetrics:
    """Times one cycle after the other; what the loop did at its checkpoints does not count."""

    def __init__(self, probe: Probe, clock: Clock) -> None:
        self._probe = probe
        self._clock = clock
        self._mark = 0.0
        self._total = 0.0
        self._actions: dict[str, float] = {}

    def open(self) -> None:
        """A cycle opens."""
        self._mark = self._clock.monotonic()
        self._total = 0.0
        self._actions = {}

    def reached(self, action: str) -> None:
        """A checkpoint within an action."""
        elapsed = self._clock.monotonic() - self._mark
        self._total += elapsed
        self._actions[action] = self._actions.get(action, 0.0) + elapsed

    def resumed(self) -> None:
        """The cycle goes on after a checkpoint."""
        self._mark = self._clock.monotonic()

    def close(self, result: CycleResult, fault: str) -> None:
        """The cycle has ended."""
        self._total += self._clock.monotonic() - self._mark
        probe, stats = self._probe, result.stats
        probe.observe("volcano_e2e_scheduling_latency_milliseconds", self._total * _MILLISECONDS)
        for action, seconds in sorted(self._actions.items()):
            probe.observe("volcano_action_scheduling_latency_milliseconds", seconds * _MILLISECONDS, action=action)
        probe.count("volcanoio_cycles_total", end="fault" if fault else "cut" if result.where else "complete")
        if stats.placed:
            probe.count("volcanoio_tasks_placed_total", stats.placed)
        if stats.gangs:
            probe.count("volcanoio_gangs_committed_total", stats.gangs)
