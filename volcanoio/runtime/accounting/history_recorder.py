"""`HistoryRecorder`: writes finished jobs to the history, from the events of the controllers' bus.

On the event loop changes are only noted; accounts are computed and written on a thread, in batches. Nothing waits for
the file: when it cannot be written, accounts are kept in memory up to a limit, and job control goes on.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import anyio.to_thread
import msgspec
import structlog

from volcanoio.bus.event_bus import Batch, EventBus
from volcanoio.engine.accounting.finished_jobs import FINAL_PHASES, FinishedJob, OpenAccount, account, earliest_start
from volcanoio.framework.events import Change, Observed
from volcanoio.framework.probe import Probe
from volcanoio.kube.clock import Clock
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import Job, JobPhase
from volcanoio.model.core import Pod
from volcanoio.runtime.accounting.history_store import HistoryError, HistoryStore, Limits, is_corrupt, set_aside

INTERVAL: Final = 1.0
"""Seconds between two batches: what a killed process loses at most."""
LAST_RETRY: Final = 60.0
"""Longest time in seconds between attempts to write."""
MOST_WAITING: Final = 10_000
"""Finished jobs that are kept in memory while the file cannot be written."""
FLUSH_SECONDS: Final = 5.0
"""Longest time in seconds for the last batch when the process ends."""
WRITTEN, DROPPED = "volcanoio_history_jobs_total", "volcanoio_history_dropped_total"
ERRORS, WAITING = "volcanoio_history_errors_total", "volcanoio_history_waiting_jobs"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class HistorySettings:
    """The file of the history, and its bounds."""

    path: Path
    limits: Limits = field(default_factory=Limits)


class JobNote(NamedTuple):
    """A job that appeared, entered another phase or is gone; `pods` are its pods if it has ended."""

    job: Job
    pods: tuple[Pod, ...]
    is_gone: bool
    at: float


class PodNote(NamedTuple):
    """A pod that is gone, with the uid of its job."""

    job: str
    pod: Pod
    at: float


class UsageNote(NamedTuple):
    """Measured unit-seconds of pods of a job, and the pod-seconds that they cover."""

    job: str
    used: Mapping[str, float]
    seconds: float


class Failure(NamedTuple):
    """Why a batch could not be written: `corrupt`, `schema` or `write`, and the text."""

    reason: str
    text: str


class Outcome(NamedTuple):
    """Result of a batch: finished jobs written, dropped and still waiting, and what went wrong."""

    written: int
    dropped: int
    waiting: int
    failure: Failure | None


class HistoryRecorder:
    """Notes the events of a bus and writes the history; `pods_of` returns the pods of a job by its key."""

    def __init__(
        self,
        settings: HistorySettings,
        pods_of: Callable[[str], Iterable[ApiObject]],
        *,
        clock: Clock,
        probe: Probe,
    ) -> None:
        self._settings = settings
        self._pods_of = pods_of
        self._clock = clock
        self._probe = probe
        self._notes: list[JobNote | PodNote | UsageNote] = []
        self._writer = HistoryWriter(settings)
        self._limiter = anyio.CapacityLimiter(1)
        self._failures = 0
        self._retry_at = 0.0
        self._problem = ""

    @asynccontextmanager
    async def recording(self, bus: EventBus) -> AsyncIterator[None]:
        """Record while open; the last batch is written at the end."""
        unsubscribe = bus.subscribe(self._take)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._run)
                yield
                tasks.cancel_scope.cancel()
        finally:
            unsubscribe()
            with anyio.move_on_after(FLUSH_SECONDS, shield=True):
                await self.flush()
                await anyio.to_thread.run_sync(self._writer.close, limiter=self._limiter)

    def add_usage(self, uid: str, used: Mapping[str, float], seconds: float) -> None:
        """Note measured usage of a job: unit-seconds of pods that ran for so many pod-seconds together."""
        self._notes.append(UsageNote(uid, used, seconds))

    def _take(self, batch: Batch) -> None:
        """Note a batch. An error here must not reach the bus: it would end job control."""
        try:
            self._note(batch)
        except Exception:
            self._probe.count(DROPPED)
            _log.exception("an end of a job could not be noted for the history")

    def _note(self, batch: Batch) -> None:
        for event in batch:
            if not isinstance(event, Observed):
                continue
            gone = event.change is Change.GONE
            if event.resource == kinds.JOB.resource:
                self._note_job(event, gone)
            elif gone and isinstance(event.object, Pod) and (owner := event.object.metadata.controller) is not None:
                self._notes.append(PodNote(owner.uid, event.object, event.at))

    def _note_job(self, event: Observed, gone: bool) -> None:
        job, before = event.object, event.previous
        assert isinstance(job, Job)
        phase = job.status.state.phase
        if not gone and before is not None and before.status.state.phase == phase:
            return
        has_ended = gone or phase in FINAL_PHASES
        pods = tuple(pod for pod in self._pods_of(job.metadata.key) if isinstance(pod, Pod)) if has_ended else ()
        self._notes.append(JobNote(job, pods, gone, event.at))

    async def _run(self) -> None:
        while True:
            await self._clock.idle(INTERVAL)
            if self._clock.monotonic() >= self._retry_at:
                await self.flush()

    async def flush(self) -> None:
        """Write what was noted."""
        notes, self._notes = self._notes, []
        if not notes and not self._writer.is_waiting:
            return
        outcome = await anyio.to_thread.run_sync(
            self._writer.write, notes, self._clock.now(), limiter=self._limiter, abandon_on_cancel=False
        )
        self._report(outcome)

    def _report(self, outcome: Outcome) -> None:
        self._probe.count(WRITTEN, outcome.written)
        self._probe.count(DROPPED, outcome.dropped)
        self._probe.gauge(WAITING, outcome.waiting)
        failure, path = outcome.failure, str(self._settings.path)
        if failure is None:
            self._failures, self._retry_at = 0, 0.0
            if self._problem:
                _log.info("the history is written again", file=path)
            self._problem = ""
            return
        self._failures += 1
        self._retry_at = self._clock.monotonic() + min(INTERVAL * 2**self._failures, LAST_RETRY)
        self._probe.count(ERRORS, reason=failure.reason)
        if failure.text != self._problem:
            self._problem = failure.text
            _log.error(
                "the history of jobs is not written; jobs are controlled as before, and what has finished is kept in "
                "memory for a while",
                file=path, reason=failure.reason, error=failure.text, waiting=outcome.waiting,
            )  # fmt: skip


@dataclass
class HistoryWriter:
    """The part on the thread: accounts of jobs, and the open file. It is called by one thread at a time."""

    settings: HistorySettings
    store: HistoryStore | None = None
    jobs: dict[str, bool] = field(default_factory=dict)
    """Whether each existing job has ended, by uid: only pods of living jobs are added up."""
    accounts: dict[str, OpenAccount] = field(default_factory=dict)
    waiting: list[FinishedJob] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)

    @property
    def is_waiting(self) -> bool:
        """Whether an earlier batch has to be written."""
        return bool(self.waiting or self.changed or self.closed)

    def write(self, notes: Sequence[JobNote | PodNote | UsageNote], now: float) -> Outcome:
        """Account for what was noted, and write it."""
        failure = None
        try:
            self._open()
        except (HistoryError, OSError, sqlite3.Error, msgspec.DecodeError) as error:
            failure = self._failed(error)
        lost = sum(not self._is_accounted(note) for note in notes)
        written = len(self.waiting)
        if self.store is not None:
            try:
                changed = {uid: self.accounts[uid] for uid in self.changed if uid in self.accounts}
                self.store.write(self.waiting, changed, self.closed, now)
                self.waiting, self.changed, self.closed = [], set(), set()
            except Exception as error:  # whatever it is, job control goes on
                failure = self._failed(error)
        dropped = max(0, len(self.waiting) - MOST_WAITING)
        del self.waiting[:dropped]
        return Outcome(written if not self.waiting and not dropped else 0, dropped + lost, len(self.waiting), failure)

    def close(self) -> None:
        """Close the file."""
        if self.store is not None:
            with suppress(sqlite3.Error):
                self.store.close()
            self.store = None

    def _open(self) -> None:
        if self.store is not None:
            return
        self.store = HistoryStore(self.settings.path, self.settings.limits)
        self.accounts = {**self.store.accounts(), **self.accounts}

    def _failed(self, error: Exception) -> Failure:
        """Close the file, so that it is opened again; one that is no database is set aside."""
        self.close()
        if isinstance(error, HistoryError):
            return Failure("schema", str(error))
        if not is_corrupt(error):
            return Failure("write", str(error))
        try:
            aside = set_aside(self.settings.path)
        except OSError as problem:
            return Failure("corrupt", f"{error}; it could not be renamed either: {problem.strerror}")
        self.changed |= self.accounts.keys()
        return Failure("corrupt", f"{error}; it was renamed to {aside}, and a new file is begun")

    def _is_accounted(self, note: JobNote | PodNote | UsageNote) -> bool:
        """Account for a note; an object that cannot be accounted for is logged, and the others are written."""
        try:
            self._account(note)
        except Exception:
            _log.exception("a job is missing in the history, as its account could not be made")
            return False
        return True

    def _account(self, note: JobNote | PodNote | UsageNote) -> None:
        match note:
            case PodNote(job=uid, pod=pod, at=at):
                if self.jobs.get(uid) is False:
                    self._open_account(uid).add_pods((pod,), at)
            case UsageNote(job=uid, used=used, seconds=seconds):
                if self.jobs.get(uid) is False:
                    self._open_account(uid).add_usage(used, seconds)
            case JobNote():
                self._account_job(note)

    def _account_job(self, note: JobNote) -> None:
        job, uid = note.job, note.job.metadata.uid
        has_ended, was_ended = job.status.state.phase in FINAL_PHASES, self.jobs.get(uid, False)
        if (has_ended or note.is_gone) and not (note.is_gone and was_ended):
            own = [pod for pod in note.pods if (owner := pod.metadata.controller) is not None and owner.uid == uid]
            self.waiting.append(account(job, own, self.accounts.get(uid, OpenAccount()), note.at))
        if note.is_gone:
            self.jobs.pop(uid, None)
            self.accounts.pop(uid, None)
            self.closed.add(uid)
            return
        self.jobs[uid] = has_ended
        if job.status.state.phase == JobPhase.RUNNING and (kept := self._open_account(uid)).started is None:
            kept.started = earliest_start(job)

    def _open_account(self, uid: str) -> OpenAccount:
        self.changed.add(uid)
        return self.accounts.setdefault(uid, OpenAccount())
