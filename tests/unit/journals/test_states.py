"""Past states: the rows at any time of a journal, whether the index is new, loaded or grows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.unit.journals.writing import Writer, cluster_objects, group, job, pod
from volcanoio.bus.journal import JournalError
from volcanoio.compose.journals import states
from volcanoio.compose.journals.states import INDEX, PastStates
from volcanoio.engine.overview import Changes, Overview
from volcanoio.framework.events import Change, Event, Synced
from volcanoio.model import kinds


def record(directory: Path) -> Writer:
    """Two pods of a job are created at 10, bound at 20 and end at 30; the job goes at 40."""
    sched = Writer(directory, "scheduler")
    sched.see(*cluster_objects(), change=Change.APPEARED, at=1.0)
    sched.see(group(), pod(0), pod(1), change=Change.APPEARED, at=10.0)
    sched.see(pod(0, "Running", "node-1"), pod(1, "Running", "node-2"), at=20.0)
    sched.see(pod(0, "Succeeded", "node-1"), pod(1, "Succeeded", "node-2"), at=30.0)
    sched.see(pod(0, "Succeeded", "node-1"), pod(1, "Succeeded", "node-2"), group(), change=Change.GONE, at=40.0)
    return sched


def shown(state: Changes) -> tuple[object, ...]:
    """Return the pods of the job and the cores that are requested on each node."""
    row = state.jobs.get("default/train")
    pods = row and (row.pending, row.running, row.succeeded)
    return pods, *(node and node.requested.get("cpu", 0) for node in state.nodes.values())


EXPECTED = {
    5.0: (None, 0, 0),
    15.0: ((2, 0, 0), 0, 0),
    25.0: ((0, 2, 0), 1000, 1000),
    35.0: ((0, 0, 2), 0, 0),
    45.0: (None, 0, 0),
}


def read(directory: Path) -> PastStates:
    found = PastStates(directory)
    found.refresh()
    return found


def test_the_state_at_each_time_is_that_of_then(tmp_path: Path) -> None:
    record(tmp_path)
    past = read(tmp_path)
    assert past.span == (1.0, 40.0)
    assert {at: shown(past.at(at)) for at in EXPECTED} == EXPECTED


def test_the_directory_of_the_scheduler_alone_serves_too(tmp_path: Path) -> None:
    record(tmp_path)
    past = read(tmp_path / "scheduler")
    assert {at: shown(past.at(at)) for at in EXPECTED} == EXPECTED


def test_jobs_come_from_the_journal_of_the_controllers(tmp_path: Path) -> None:
    record(tmp_path)
    ctl = Writer(tmp_path, "controllers")
    ctl.see(job("Pending"), pod(0, "Failed"), change=Change.APPEARED, at=9.0)
    ctl.see(job("Running"), at=21.0)
    row = read(tmp_path).at(25.0).jobs["default/train"]
    assert row is not None
    assert (row.kind, row.phase, row.replicas, row.failed) == ("Job", "Running", 2, 0)


def test_what_a_running_process_writes_is_added(tmp_path: Path) -> None:
    sched = record(tmp_path)
    past = read(tmp_path)
    sched.see(group(), pod(0, life=2), change=Change.APPEARED, at=50.0)
    assert shown(past.at(60.0))[0] is None
    past.refresh()
    assert shown(past.at(60.0))[0] == (1, 0, 0)
    assert shown(past.at(25.0)) == EXPECTED[25.0]


def test_a_line_that_is_being_written_is_read_later(tmp_path: Path) -> None:
    sched = record(tmp_path)
    segment = tmp_path / "scheduler" / "00000001.jsonl"
    sched.see(group(), pod(0, life=2), change=Change.APPEARED, at=50.0)
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-9])
    past = read(tmp_path)
    assert shown(past.at(60.0))[0] == (0, 0, 0), "the group alone"
    segment.write_bytes(whole)
    past.refresh()
    assert shown(past.at(60.0))[0] == (1, 0, 0)


def test_after_a_restart_objects_that_are_not_listed_are_gone(tmp_path: Path) -> None:
    sched = Writer(tmp_path, "scheduler")
    sched.see(*cluster_objects(), group(), pod(0, "Running", "node-1"), pod(1), change=Change.APPEARED, at=1.0)
    sched.now = 50.0
    sched.start()
    sched.see(*cluster_objects(), group(), pod(1), change=Change.APPEARED)
    for kind in (kinds.NODE, kinds.QUEUE, kinds.POD_GROUP, kinds.POD):
        sched.event(Synced(resource=kind.resource))
    past = read(tmp_path)
    assert shown(past.at(40.0)) == ((1, 1, 0), 1000, 0)
    assert shown(past.at(60.0)) == ((1, 0, 0), 0, 0)


def test_more_frames_than_are_kept_become_longer_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "MAX_FRAMES", 4)
    monkeypatch.setattr(states, "KEY_EVERY", 3)
    sched = record(tmp_path)
    for moment in range(50, 80):
        index = moment % 2
        sched.see(pod(index, "Running", "node-1", life=moment), change=Change.APPEARED, at=float(moment))
    past = read(tmp_path)
    assert len(past.totals()) <= 4
    assert past.at(80.0).nodes["node-1"].requested == {"cpu": 30_000}  # type: ignore[union-attr]
    assert past.totals()[-1].running == 30
    assert past.at(0.0).nodes.keys() == {"node-1", "node-2"}, "before the beginning: the first frame"


def test_the_index_file_is_read_instead_of_a_journal_that_has_not_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "_SAVE_AFTER", 0)
    sched = record(tmp_path)
    read(tmp_path)
    segment = tmp_path / "scheduler" / "00000001.jsonl"
    whole = segment.read_bytes()
    segment.write_bytes(b"\n" * len(whole))
    loaded = read(tmp_path)
    assert {at: shown(loaded.at(at)) for at in EXPECTED} == EXPECTED, "the journal was not read again"
    segment.write_bytes(whole)
    sched.see(group(), pod(0, life=2), change=Change.APPEARED, at=50.0)
    loaded.refresh()
    assert shown(loaded.at(60.0))[0] == (1, 0, 0)
    assert {at: shown(loaded.at(at)) for at in EXPECTED} == EXPECTED
    (tmp_path / INDEX).write_bytes(b"broken")
    assert shown(read(tmp_path).at(60.0))[0] == (1, 0, 0), "a broken index is built again"


def test_a_loaded_index_stays_until_something_is_written_and_is_shown_while_the_new_one_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "_SAVE_AFTER", 0)
    sched = record(tmp_path)
    read(tmp_path)
    loaded = read(tmp_path)
    during: list[tuple[object, ...]] = []
    folding = Overview.fold

    def fold(overview: Overview, events: Iterable[Event]) -> None:
        during.append(shown(loaded.at(25.0)))
        folding(overview, events)

    monkeypatch.setattr(Overview, "fold", fold)
    loaded.refresh()
    assert during == [], "nothing was written"
    sched.see(group(), pod(0, life=2), change=Change.APPEARED, at=50.0)
    loaded.refresh()
    assert set(during) == {EXPECTED[25.0]}
    assert shown(loaded.at(60.0))[0] == (1, 0, 0)


def test_without_events_there_are_no_rows(tmp_path: Path) -> None:
    Writer(tmp_path, "scheduler")
    past = PastStates(tmp_path)
    assert not past.at(10.0), "before the first refresh"
    past.refresh()
    assert not past.at(10.0)
    assert (past.span, past.totals()) == (None, [])


def test_a_directory_without_a_journal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal; give the directory of --journal"):
        PastStates(tmp_path)
