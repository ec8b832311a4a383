"""Metrics of a cycle: opening, plugins, actions, close; and the latency of tasks."""

from __future__ import annotations

import pytest

from tests.scenario.scheduling.harness import World, group, node, pods
from tests.unit.runtime.virtual_time import VirtualClock
from volcanoio.engine.scheduling.session.cycle import Checkpoint, CycleResult, run_cycle
from volcanoio.framework.probe import NoProbe
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.runtime.scheduler.cycle_timing import CycleMetrics


class Samples(NoProbe):
    def __init__(self) -> None:
        self.samples: dict[str, float] = {}

    def observe(self, name: str, value: float, times: int = 1, **labels: str) -> None:
        self.samples[" ".join((name.removeprefix("volcano_"), *labels.values()))] = value


async def test_time_before_plugins_and_at_the_close_is_not_counted_as_theirs() -> None:
    clock, probe = VirtualClock(), Samples()
    metrics = CycleMetrics(probe, clock)
    metrics.open()
    for seconds, point in (
        (1.0, Checkpoint("", ())),
        (0.5, Checkpoint("", (), "gang")),
        (0.25, Checkpoint("", (), "gang")),
        (2.0, Checkpoint("allocate", ())),
        (4.0, Checkpoint("", ())),
    ):
        await clock.advance(seconds)
        metrics.reached(point)
        metrics.resumed()
    metrics.close(CycleResult(), "")
    assert probe.samples == {
        "plugin_scheduling_latency_milliseconds gang OnSessionOpen": pytest.approx(750),
        "open_session_duration_milliseconds": pytest.approx(1750),
        "action_scheduling_latency_milliseconds allocate": pytest.approx(2000),
        "e2e_scheduling_latency_milliseconds": pytest.approx(7750),
    }


async def test_a_task_is_as_late_as_its_pod_is_old() -> None:
    clock, probe = VirtualClock(), Samples()
    metrics = CycleMetrics(probe, clock)
    metrics.task_reached("Bound", "1970-01-01T00:00:00Z")
    metrics.task_reached("Assumed", "")
    metrics.task_reached("Assumed", "yesterday")
    assert probe.samples == {"task_scheduling_latency_milliseconds Bound": pytest.approx(clock.now() * 1000)}


def test_a_session_reports_opened_plugins() -> None:
    world = World(node("n1"), group("pg", 1), *pods("p", 1, "pg", cpu="1"))
    opening = CycleOpened(cycle=1, upto=0, seed=1, at=world.now)
    opened = [point.opened for point in run_cycle(world.state, world.profile, opening)]
    assert opened[0] == ""
    assert {"gang", "proportion"} <= set(opened)
