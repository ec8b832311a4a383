"""A journal's records come back as runs: one for each start of its process, over as many segments as it took."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from volcanoio.bus.event_bus import EventBus
from volcanoio.bus.journal import Journal, JournalError, JournalOptions, read_runs
from volcanoio.framework.effects import StartTimer
from volcanoio.framework.events import Synced


def written(journal: Journal) -> None:
    """Wait until the thread has written the segment, which is full after every batch here."""
    for _ in range(2000):
        if journal._segment_is_full:
            return
        threading.Event().wait(0.001)
    raise AssertionError


def record(directory: Path, *resources: str) -> None:
    """One start of a process: a batch and a segment for each resource, and a decision about it."""
    journal = Journal(directory, process="p", now=lambda: 5.0, options=JournalOptions(segment_bytes=1))
    journal.configured("conf", f"text of {resources[0]}")
    journal.plugin("g", "n", "o")
    bus = EventBus(lambda: 9.0)
    bus.subscribe(journal.events)
    for resource in resources:
        (event,) = bus.publish([Synced(resource=resource)])
        journal.decided("actor", resource, event.seq, ((StartTimer(name="t", due=1.0),),))
        written(journal)
    journal.close()


def test_each_start_is_a_run_over_all_of_its_segments(tmp_path: Path) -> None:
    record(tmp_path, "a", "b", "c")
    record(tmp_path, "d")
    first, second = read_runs(tmp_path)
    assert [event.seq for event in first.events] == [1, 2, 3]
    assert [decided.key for decided in first.decided] == ["a", "b", "c"]
    assert first.configured == {"conf": "text of a"}
    assert first.plugins == {("g", "n"): "o"}
    assert [event.seq for event in second.events] == [1]
    assert second.configured == {"conf": "text of d"}
    assert first.by_seq[2] == first.events[1]


def test_decisions_are_complete_up_to_the_last_events_that_were_written_together(tmp_path: Path) -> None:
    record(tmp_path, "a", "b", "c")
    assert read_runs(tmp_path)[0].complete_until == 2
    last = tmp_path / "00000003.jsonl"
    last.write_bytes(last.read_bytes()[:-5])
    (run,) = read_runs(tmp_path)
    assert [decided.key for decided in run.decided] == ["a", "b"]
    assert run.complete_until == 2


def test_a_missing_segment_is_named(tmp_path: Path) -> None:
    record(tmp_path, "a", "b", "c")
    (tmp_path / "00000002.jsonl").unlink()
    with pytest.raises(JournalError, match="events 2 to 2 are missing"):
        read_runs(tmp_path)
    (tmp_path / "00000001.jsonl").unlink()
    with pytest.raises(JournalError, match="begins in the middle of a run"):
        read_runs(tmp_path)
