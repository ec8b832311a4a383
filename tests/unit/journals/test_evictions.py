"""Evictions in a journal: the scheduler's own memory of them, from a replay."""

from __future__ import annotations

from pathlib import Path

from tests.scenario.scheduling.harness import group, node, priority_class, queue, running, waiting
from tests.unit.journals.writing import Writer
from tests.unit.scheduling.journal_recorder import Recorder
from volcanoio.bus.records import EventRecord
from volcanoio.compose.journals.replay import replayed_evictions
from volcanoio.runtime.loading.registry import discover

CONF = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: predicates}, {name: proportion}]
"""


def test_evictions_name_action_cycle_and_the_job_that_profits(tmp_path: Path) -> None:
    world = Recorder(
        queue("default"),
        node("n1", cpu="2"),
        priority_class("high", 1000),
        group("low", 1, phase="Running"),
        *running("low", 2, spec={"priority": 0}),
        group("urgent", 1, phase="Inqueue", priorityClassName="high"),
        *waiting("urgent", 1, spec={"priority": 1000}),
        conf=CONF,
    )
    world.sync()
    world.run(2)
    writer = Writer(tmp_path, "scheduler")
    writer.write(*(EventRecord(event=event) for event in world.journal))
    registry = discover()
    (found,) = replayed_evictions(tmp_path / "scheduler", registry, "low", "ns")
    assert (found.action, found.node, found.by and found.by.job) == ("preempt", "n1", "ns/urgent")
    assert found.cycle > 0
    assert replayed_evictions(tmp_path / "scheduler", registry, found.pod.partition("/")[2], "ns") == (found,)
    assert replayed_evictions(tmp_path / "scheduler", registry, "urgent", "ns") == ()
