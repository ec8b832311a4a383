"""Finished jobs reach the file from events; a file that cannot be written never stops anything, and is reported."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import pytest
import structlog.testing

from tests.unit.accounting.histories import START, at, finished, job, pod
from tests.unit.runtime.virtual_time import VirtualClock
from volcanoio.bus.event_bus import EventBus
from volcanoio.framework.events import Change, Observed
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.core import Pod
from volcanoio.runtime.accounting import history_recorder
from volcanoio.runtime.accounting.history_recorder import (
    DROPPED,
    ERRORS,
    WAITING,
    WRITTEN,
    HistoryRecorder,
    HistorySettings,
)
from volcanoio.runtime.accounting.history_store import HistoryStore, Limits, read_history
from volcanoio.runtime.metrics import PrometheusProbe

RUNNING = job("Running")


class World:
    """A bus with a recorder; `pods` are those of all jobs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = VirtualClock(START)
        self.bus = EventBus(self.clock.now)
        self.probe = PrometheusProbe(process=False)
        self.pods: list[Pod] = []
        self.recorder = HistoryRecorder(
            HistorySettings(path=path, limits=Limits()), lambda _: self.pods, clock=self.clock, probe=self.probe
        )

    def see(self, obj: ApiObject, before: ApiObject | None = None, *, gone: bool = False) -> None:
        change = Change.GONE if gone else Change.CHANGED if before else Change.APPEARED
        event = Observed(resource=kinds.of(obj).resource, change=change, object=obj, previous=before)
        self.bus.publish((event,))

    def value(self, name: str, **labels: str) -> float | None:
        return self.probe.value(name, **labels)


@asynccontextmanager
async def recording(path: Path) -> AsyncIterator[World]:
    world = World(path)
    async with world.recorder.recording(world.bus):
        yield world


async def test_a_finished_job_is_written_with_its_pods_also_those_deleted_before(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    async with recording(path) as world:
        world.see(job("Pending"))
        world.see(RUNNING, job("Pending"))
        world.see(pod("killed", 10, 15), gone=True)
        world.see(pod("of another job", 10, 15, owner="job-9"), gone=True)
        world.recorder.add_usage("job-1", {"cpu": 12.0}, 30.0)
        world.pods = [pod("a", 20, 70), pod("of another job", 10, 70, owner="job-9")]
        world.see(job("Completed"), RUNNING)
        await world.recorder.flush()
        (written,) = read_history(path)
        assert written.requested["cpu"] == 2 * (5 + 50)
        assert (written.used, written.measured_seconds, written.wait) == ({"cpu": 12.0}, 30.0, 10)
        assert (world.value(WRITTEN), world.value(WAITING)) == (1, 0)
        world.see(world.pods[0], gone=True)  # the job has ended: its pods are accounted for
        world.see(job("Completed"), gone=True)
    assert read_history(path) == [written]


async def test_a_process_continues_the_account_of_the_one_before_and_repeats_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    async with recording(path) as world:
        world.see(RUNNING)
        world.see(pod("killed", 10, 15), gone=True)
    restarted = job("Running", status={"conditions": [{"status": "Running", "lastTransitionTime": at(40)}]})
    async with recording(path) as world:
        world.see(restarted)
        world.pods = [pod("a", 40, 70)]
        ended = job("Completed", status={"conditions": [{"status": "Running", "lastTransitionTime": at(40)}]})
        world.see(ended, restarted)
    async with recording(path) as world:
        world.see(ended)  # the last process reads it in the list
    (written,) = read_history(path)
    assert written.requested["cpu"] == 2 * (5 + 30)
    assert written.started == START + 10


async def test_a_job_deleted_before_its_end_is_written(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    async with recording(path) as world:
        world.see(RUNNING)
        world.clock._now = START + 30
        world.see(RUNNING, gone=True)
        world.see(pod("a", 10), gone=True)
    assert [(each.phase, each.finished) for each in read_history(path)] == [("Deleted", START + 30)]
    store = HistoryStore(path)
    assert store.accounts() == {}
    store.close()


async def test_a_corrupt_file_is_set_aside_and_a_new_one_begun(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    path.write_text("this was a database once" * 50)
    with structlog.testing.capture_logs() as logs:
        async with recording(path) as world:
            world.see(job("Completed"))
            await world.recorder.flush()
            assert (world.value(ERRORS, reason="corrupt"), world.value(WAITING)) == (1, 1)
            await world.recorder.flush()
            assert (world.value(WRITTEN), world.value(WAITING)) == (1, 0)
    assert [each.name for each in read_history(path)] == ["train-7"]
    assert path.with_name("history.sqlite.corrupt").read_text().startswith("this was")
    assert [(line["log_level"], line["event"][:35]) for line in logs] == [
        ("error", "the history of jobs is not written;"), ("info", "the history is written again"),
    ]  # fmt: skip


async def test_a_file_with_an_account_that_cannot_be_read_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    HistoryStore(path).close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("INSERT INTO open (uid, account, changed) VALUES ('u', '{\"started\": \"soon\"}', 0)")
    async with recording(path) as world:
        world.see(job("Completed"))
        await world.recorder.flush()
        assert (world.value(ERRORS, reason="corrupt"), world.value(WAITING)) == (1, 1)
        await world.recorder.flush()
    assert [each.name for each in read_history(path)] == ["train-7"]
    assert path.with_name("history.sqlite.corrupt").exists()


async def test_a_full_disk_delays_writing_and_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite reports a full disk as here, also in the middle of a transaction."""
    path = tmp_path / "history.sqlite"
    monkeypatch.setattr(history_recorder, "MOST_WAITING", 2)
    with structlog.testing.capture_logs() as logs:
        async with recording(path) as world:
            await world.recorder.flush()
            _limit_pages(monkeypatch)
            for number in range(3):
                state = {"phase": "Completed", "lastTransitionTime": at(70 + number)}
                large = {"uid": f"job-{number}", "name": "x" * 9000}
                world.see(job("Completed", metadata=large, status={"state": state}))
            await world.recorder.flush()
            await world.recorder.flush()
            assert world.value(ERRORS, reason="write") == 2
            assert (world.value(WAITING), world.value(DROPPED), world.value(WRITTEN)) == (2, 1, 0)
            monkeypatch.undo()
            await world.recorder.flush()
            assert (world.value(WAITING), world.value(WRITTEN)) == (0, 2)
    assert [each.uid for each in read_history(path)] == ["job-1", "job-2"]
    assert [line["error"] for line in logs if line["log_level"] == "error"] == ["database or disk is full"]


async def test_a_directory_that_does_not_exist_stops_nothing(tmp_path: Path) -> None:
    async with recording(tmp_path / "missing" / "history.sqlite") as world:
        world.see(job("Completed"))
        await world.recorder.flush()
        assert world.value(ERRORS, reason="write") == 1


async def test_an_unexpected_error_costs_one_job_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.sqlite"

    def fails(*_: object) -> None:
        raise RuntimeError("not foreseeable")

    async with recording(path) as world:
        with monkeypatch.context() as broken, structlog.testing.capture_logs() as logs:
            broken.setattr(history_recorder, "account", fails)
            world.see(job("Completed"))
            await world.recorder.flush()
            broken.setattr(world.recorder, "_pods_of", fails)
            world.see(job("Completed", metadata={"uid": "job-2"}))  # raises nothing into the bus
        assert (world.value(DROPPED), [line["log_level"] for line in logs]) == (2, ["error", "error"])
        world.see(job("Completed", metadata={"uid": "job-3"}))
    assert [each.uid for each in read_history(path)] == ["job-3"]


async def test_batches_are_written_periodically_without_waiting(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    async with recording(path) as world:
        world.see(job("Completed"))
        assert not path.exists()  # nothing is written where events are taken
        await world.clock.advance(1)
        with anyio.fail_after(20):
            while not world.value(WRITTEN):
                await anyio.lowlevel.checkpoint()
        assert len(read_history(path)) == 1


def test_a_row_that_a_killed_process_committed_survives(tmp_path: Path) -> None:
    """The log beside the file is part of it: a reader of a copy taken while the writer lived sees the rows."""
    path, copy = tmp_path / "history.sqlite", tmp_path / "copy"
    store = HistoryStore(path)
    store.write([finished("1")], {}, (), START)
    copy.mkdir()
    for file in tmp_path.glob("history.sqlite*"):
        (copy / file.name).write_bytes(file.read_bytes())
    store.close()
    again = HistoryStore(copy / path.name)
    assert again.count() == 1
    again.close()


def _limit_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every database that is opened from now on be full."""
    connect = sqlite3.connect

    def limited(path: Path, **options: Any) -> sqlite3.Connection:
        database: sqlite3.Connection = connect(path, **options)
        database.execute("PRAGMA max_page_count = 10")
        return database

    monkeypatch.setattr(sqlite3, "connect", limited)
