"""`Journal`: what a process learned and decided, on disk, so that it can be explained and replayed.

Off unless asked for. The loop only appends to a queue; one thread encodes, writes and syncs what has gathered (group
commit). A disk that fails or falls behind turns the journal off, loudly, and never holds up the engine. A segment is a
file of JSON lines that begins with a snapshot, so that replay can begin at any of them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec
import structlog

from volcanoio import __version__
from volcanoio.bus.bus import Batch
from volcanoio.bus.journal_codec import Codec
from volcanoio.bus.records import Configured, Opened, PluginSource, Snapshot, Told
from volcanoio.framework.probe import NoProbe, Probe

_LOG = structlog.get_logger(__name__)
SUFFIX = ".jsonl"
SEGMENT_BYTES = 64 << 20
MOST_WAITING = 200_000
"""Records that may wait for the disk (some seconds of the busiest scheduler)."""

_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class _Decision(msgspec.Struct, frozen=True):
    """A decision that is not encoded yet."""

    actor: str
    key: str
    cause: int
    effects: Any


class Journal:
    """Writes segments `00000001.jsonl`, … into `directory`, after those that are there.

    `now` gives epoch seconds, `snapshot` the state of the process: plain values that may hold ApiObjects, which later
    may not change. It is asked when a segment begins, before the batch at hand is folded: subscribe `events` first.
    """

    def __init__(
        self,
        directory: Path,
        *,
        process: str,
        now: Callable[[], float],
        snapshot: Callable[[], Any] = lambda: None,
        codec: Codec | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        most_waiting: int = MOST_WAITING,
        probe: Probe | None = None,
    ) -> None:
        self._directory = directory
        self._process = process
        self._now = now
        self._snapshot = snapshot
        self._codec = codec or Codec()
        self._segment_bytes = segment_bytes
        self._most_waiting = most_waiting
        self._probe = probe or NoProbe()
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._active = True
        self._segment_is_full = True  # the first begins with the first batch
        self._in_force: list[Configured | PluginSource] = []
        self._file = -1
        self._number = 0
        self._started = False
        self._bytes = 0
        self._probe.gauge("volcanoio_journal_on", 1.0, process=process)
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    @property
    def active(self) -> bool:
        """Whether it still records."""
        return self._active

    def events(self, batch: Batch) -> None:
        """Record a batch: the bus's first subscriber."""
        if self._segment_is_full and self._active:
            self._segment_is_full = False
            self._put(Snapshot(before=batch[0].seq, state=self._snapshot()))
        for event in batch:
            self._put(Told(event=event))

    def decided(self, actor: str, key: str, cause: int, effects: Any) -> None:
        """Record what was decided about the event `cause`: effects, or stages of them."""
        self._put(_Decision(actor, key, cause, effects))

    def configured(self, name: str, text: str) -> None:
        """Record a configuration that is in force; it is repeated in every later segment."""
        self._keep(Configured(name=name, text=text))

    def plugin(self, group: str, name: str, origin: str) -> None:
        """Record where a plugin comes from; it is repeated in every later segment."""
        self._keep(PluginSource(group=group, name=name, origin=origin))

    def close(self, timeout: float = 5.0) -> None:
        """Write what waits and end the thread; blocks for at most `timeout` seconds: call it off the loop."""
        self._queue.put(None)
        self._thread.join(timeout)
        self._active = False

    def _keep(self, record: Configured | PluginSource) -> None:
        same = (type(record), record.name, getattr(record, "group", ""))
        self._in_force = [
            kept for kept in self._in_force if (type(kept), kept.name, getattr(kept, "group", "")) != same
        ]
        self._in_force.append(record)
        self._put(record)

    def _put(self, record: Any) -> None:
        if not self._active:
            return
        if self._queue.qsize() >= self._most_waiting:
            self._turn_off(f"the disk is {self._queue.qsize()} records behind")
            return
        self._queue.put(record)

    def _turn_off(self, reason: str) -> None:
        """Stop recording for good; what was written stays readable."""
        if self._active:
            self._active = False
            self._probe.gauge("volcanoio_journal_on", 0.0, process=self._process)
            self._probe.count("volcanoio_journal_failures_total", process=self._process)
            _LOG.error(
                "the journal is off: what happens from here on cannot be replayed",
                process=self._process,
                directory=str(self._directory),
                reason=reason,
            )

    def _run(self) -> None:
        """The thread: gather, encode, write, sync."""
        try:
            while self._active:
                gathered = [self._queue.get()]
                while not self._queue.empty():
                    gathered.append(self._queue.get())
                last = gathered[-1] is None
                self._write([record for record in gathered if record is not None])
                if last:
                    break
        except Exception as error:  # the disk's, or a value that cannot be encoded: either way recording ends
            self._turn_off(f"{type(error).__name__}: {error}")
        finally:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def _write(self, records: Iterable[Any]) -> None:
        lines: list[bytes] = []
        for record in records:
            if isinstance(record, Snapshot):
                self._flush(lines)
                lines = self._begin()
            elif isinstance(record, _Decision):
                record = self._codec.decided(record.actor, record.key, record.cause, record.effects)
            lines.append(self._codec.encode(record))
        self._flush(lines)
        if self._bytes >= self._segment_bytes:
            self._bytes = 0
            self._segment_is_full = True

    def _begin(self) -> list[bytes]:
        """Open the next segment; gives its first lines."""
        if self._file >= 0:
            os.close(self._file)
        else:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            numbers = [int(path.stem) for path in self._directory.glob(f"*{SUFFIX}") if path.stem.isdigit()]
            self._number = max(numbers, default=0)
        self._number += 1
        starts, self._started = not self._started, True
        path = self._directory / f"{self._number:08}{SUFFIX}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._bytes = 0
        opened = Opened(process=self._process, version=__version__, at=self._now(), starts=starts)
        return [self._codec.encode(record) for record in (opened, *self._in_force)]

    def _flush(self, lines: list[bytes]) -> None:
        if not lines or self._file < 0:
            return
        data = b"\n".join(lines) + b"\n"
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        _sync(self._file)
        self._bytes += len(data)
