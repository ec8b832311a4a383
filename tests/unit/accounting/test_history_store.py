"""The file of finished jobs: bounded, versioned, readable while it is written, and never changed by a reader."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.unit.accounting.histories import START, finished
from volcanoio.engine.accounting.finished_jobs import OpenAccount, Place
from volcanoio.runtime.accounting.history_store import (
    VERSION,
    HistoryError,
    HistoryStore,
    Limits,
    Selection,
    read_history,
)


def uids(path: Path, *selections: Selection) -> list[str]:
    return [job.uid for job in read_history(path, *selections)]


def test_what_is_written_is_read_while_the_file_is_open(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    store = HistoryStore(path)
    job = finished("1", used={"cpu": 3.5}, exit_code=0)
    places = (Place("n1", START + 10, START + 70), Place("n2", START + 10, START + 70))
    store.write([replace(job, places=places)], {}, (), START)
    assert read_history(path) == [job]
    assert [each.places for each in read_history(path, with_places=True)] == [places]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    store.close()


def test_a_job_that_finishes_again_replaces_its_row_and_a_repetition_does_not(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    store = HistoryStore(path)
    store.write([finished("1", phase="Aborted", restarts=5)], {}, (), START)
    store.write([finished("1", phase="Aborted", restarts=0)], {}, (), START)  # seen again after a restart
    assert [job.restarts for job in read_history(path)] == [5]
    store.write([finished("1", finished=START + 500)], {}, (), START)
    assert [(job.phase, job.finished) for job in read_history(path)] == [("Completed", START + 500)]
    store.close()


def test_open_accounts_are_read_by_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    first = HistoryStore(path)
    first.write([], {"1": OpenAccount(requested={"cpu": 2.0}), "2": OpenAccount()}, (), START)
    first.write([], {}, ["2"], START)
    first.close()
    again = HistoryStore(path)
    assert again.accounts() == {"1": OpenAccount(requested={"cpu": 2.0})}
    again.close()


def test_rows_are_bounded_by_number_and_by_age(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    store = HistoryStore(path, Limits(rows=2, age=100))
    store.write([finished(str(number), finished=START + number) for number in range(5)], {}, (), START)
    assert uids(path) == ["3", "4"]
    store.write([], {}, (), START + 104)
    assert uids(path) == ["4"]
    store.close()


@pytest.mark.parametrize(
    ("selection", "found"),
    [
        (Selection(), ["old", "bob", "new"]),
        (Selection(since=START + 100), ["bob", "new"]),
        (Selection(until=START + 100), ["old"]),
        (Selection(owner="bob"), ["bob"]),
        (Selection(namespace="other"), ["new"]),
        (Selection(queue="gold", most=1), ["new"]),
        (Selection(name="nothing"), []),
    ],
)
def test_jobs_are_selected(tmp_path: Path, selection: Selection, found: list[str]) -> None:
    path = tmp_path / "history.sqlite"
    store = HistoryStore(path)
    jobs = [
        finished("new", finished=START + 300, namespace="other"),
        finished("old", finished=START + 50),
        finished("bob", finished=START + 100, owner="bob"),
    ]
    store.write(jobs, {}, (), START)
    assert uids(path, selection) == found
    store.close()


def test_a_newer_schema_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    HistoryStore(path).close()
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {VERSION + 1}")
    database.close()
    before = path.read_bytes()
    with pytest.raises(HistoryError, match=f"version {VERSION + 1} .* reads up to {VERSION}; use the volcanoio that"):
        HistoryStore(path)
    with pytest.raises(HistoryError, match="its schema has version"):
        read_history(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_history_is_named(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no database, but long enough to be looked at as one" * 9)
    with pytest.raises(HistoryError, match=r"notes.txt: file is not a database; give a history file"):
        read_history(text)
    with pytest.raises(HistoryError, match=r"missing: there is no such file"):
        read_history(tmp_path / "missing")
