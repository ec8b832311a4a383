"""Another configuration for a recorded scheduler: which cycles are compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenario.scheduling.harness import group, node, queue, waiting
from tests.unit.journals.writing import Writer
from tests.unit.scheduling.journal_recorder import Recorder
from volcanoio.bus.records import EventRecord
from volcanoio.compose.journals.comparison import compare_configuration
from volcanoio.framework.scheduling_events import CycleClosed, CycleOpened
from volcanoio.runtime.loading.registry import discover

CONF = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: proportion}]
"""


def recorded() -> Recorder:
    """Record one cycle, which binds two pods."""
    world = Recorder(
        queue("default"), node("n1", cpu="4"), group("one", 2, phase="Inqueue"), *waiting("one", 2), conf=CONF
    )
    world.sync()
    world.cycle()
    assert len(world.binds) == 2
    return world


@pytest.mark.parametrize("killed", [False, True])
def test_a_cycle_without_its_end_is_not_compared(tmp_path: Path, killed: bool) -> None:
    events = recorded().journal
    opened = next(event for event in events if isinstance(event, CycleOpened))
    writer = Writer(tmp_path, "scheduler")
    written = [event for event in events if not killed or event.seq <= opened.seq]
    writer.write(*(EventRecord(event=event) for event in written))
    until = None if killed else opened.seq
    found = compare_configuration(tmp_path / "scheduler", discover(), CONF, until=until)
    assert (found.cycles, found.first, found.queues) == (0, None, {})


def test_a_complete_cycle_is_compared(tmp_path: Path) -> None:
    events = recorded().journal
    assert isinstance(events[-1], CycleClosed)
    Writer(tmp_path, "scheduler").write(*(EventRecord(event=event) for event in events))
    found = compare_configuration(tmp_path / "scheduler", discover(), CONF)
    assert (found.cycles, found.same, found.first) == (1, 1, None)
    counts = found.queues["default"]
    assert (counts.bound, counts.other_bound) == (2, 2)
