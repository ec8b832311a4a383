"""Node metrics for scenarios."""

from __future__ import annotations

from tests.scenario.scheduling.harness import World
from volcanoio.framework.scheduling_events import FactsSaid


def busy(of: World, **by_node: tuple[float, float]) -> None:
    """Report the current utilization of nodes: percent of cpu and memory."""
    facts = {
        name: {"cpu": cpu, "memory": memory, "at": of.now, "every": 30.0} for name, (cpu, memory) in by_node.items()
    }
    of.fold(FactsSaid(source="node-metrics", facts=facts, whole=True))
