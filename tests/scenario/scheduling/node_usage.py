"""Node metrics for scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.scenario.scheduling.harness import Scenario, World
from volcanoio.framework.scheduling_events import FactsSaid


def busy(of: World, **by_node: tuple[float, float]) -> None:
    """Report the current utilization of nodes: percent of cpu and memory."""
    facts = {
        name: {"cpu": cpu, "memory": memory, "at": of.now, "every": 30.0} for name, (cpu, memory) in by_node.items()
    }
    of.fold(FactsSaid(source="node-metrics", facts=facts, whole=True))


@dataclass(frozen=True, kw_only=True)
class MeasuredScenario(Scenario):
    """A cluster with node metrics, which are reported before each cycle."""

    metrics: Mapping[str, tuple[float, float]]
    """Utilization of nodes: percent of cpu and memory."""
    period: float = 1.0
    """Seconds between cycles."""

    def run(self) -> World:
        """Report the metrics and run a cycle, as often as the scenario has cycles."""
        world = World(*self.cluster, conf=self.conf, period=self.period)
        for _ in range(self.cycles):
            busy(world, **self.metrics)
            world.run()
        return world
