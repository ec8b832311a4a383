"""Parts of a day, one after another, are one journal: times go on, and the same state returns in each part."""

from __future__ import annotations

from pathlib import Path

from bench.journals import GAP, one_after_another, repeated
from tests.unit.journals.writing import Writer, cluster_objects, group, job, pod
from volcanoio.bus.journal import read_runs
from volcanoio.compose.journals.states import PastStates
from volcanoio.framework.events import Change


def part(directory: Path) -> Path:
    """Ten seconds in which a pod starts, recorded by both processes."""
    sched, controllers = Writer(directory / "part", "scheduler"), Writer(directory / "part", "controllers")
    sched.see(*cluster_objects(), group(), pod(0), change=Change.APPEARED, at=100.0)
    sched.see(pod(0, "Running", "node-1"), at=110.0)
    controllers.see(job("Running"), change=Change.APPEARED, at=101.0)
    return directory / "part"


def test_copies_begin_when_the_one_before_ended(tmp_path: Path) -> None:
    one_after_another(part(tmp_path), tmp_path / "day", 3)
    past = PastStates(tmp_path / "day")
    past.refresh()
    length = 10.0 + GAP
    assert past.span == (100.0, 110.0 + 2 * length)
    for number in range(3):
        row = past.at(105.0 + number * length).jobs["default/train"]
        assert row is not None
        assert (row.pending, row.running) == (1, 0)


def test_the_same_part_is_several_starts(tmp_path: Path) -> None:
    repeated(part(tmp_path), tmp_path / "day", 3)
    assert [len(run.events) for run in read_runs(tmp_path / "day" / "scheduler")] == [6, 6, 6]
