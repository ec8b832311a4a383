"""`Journal`: the events and decisions of a process on disk, to be replayed.

Off unless asked for. The loop only appends to a queue; one thread encodes, writes and syncs what has gathered (group
commit). A disk that fails or falls behind turns the journal off with an error in the log, and never delays the engine.
A segment is a file of JSON lines that begins with the configuration in force and the number of its first event, so that
a missing segment is noticed.

`read_runs` reads a directory back, one `Run` for each start of the process; `compare_decisions` finds the first
difference between the recorded decisions and those of a replay.
"""

import os
import re
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import msgspec
import structlog
from msgspec.structs import replace

from volcanoio import __version__
from volcanoio.bus.event_bus import Batch
from volcanoio.bus.records import (
    FORMAT,
    Codec,
    CodecError,
    Configured,
    Decided,
    EventRecord,
    Opened,
    PluginSource,
    Record,
    Snapshot,
)
from volcanoio.framework.events import Event
from volcanoio.framework.probe import NoProbe, Probe

_LOG = structlog.get_logger(__name__)
SUFFIX = ".jsonl"
SEGMENT_BYTES = 64 << 20
MAX_WAITING = 200_000
"""Records that may wait for the disk (some seconds of the busiest scheduler)."""

_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class _Decision(msgspec.Struct, frozen=True):
    """A decision that is not encoded yet."""

    actor: str
    key: str
    cause: int
    effects: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalOptions:
    """`segment_bytes`: size from which the next batch begins a new segment; `max_waiting`: records that may wait."""

    codec: Codec = field(default_factory=Codec)
    segment_bytes: int = SEGMENT_BYTES
    max_waiting: int = MAX_WAITING
    probe: Probe = field(default_factory=NoProbe)


class Journal:
    """Writes segments `00000001.jsonl`, … into `directory`, after existing ones; `now` returns epoch seconds."""

    def __init__(
        self, directory: Path, *, process: str, now: Callable[[], float], options: JournalOptions | None = None
    ) -> None:
        self._directory = directory
        self._process = process
        self._now = now
        self._options = options or JournalOptions()
        self._codec = self._options.codec
        self._probe = self._options.probe
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
            self._put(Snapshot(before=batch[0].seq))
        for event in batch:
            self._put(EventRecord(event=event))

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
        if self._queue.qsize() >= self._options.max_waiting:
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
        """Gather, encode, write and sync records; the body of the thread."""
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
        if self._bytes >= self._options.segment_bytes:
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


_RENUMBERED = frozenset({"id"})
"""Fields of effects that count through a process: a replay that begins at a later segment has other numbers."""


class JournalError(ValueError):
    """A journal that cannot be read; the message names file, line and next step."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Where a replay first departs from what was recorded.

    `position` counts decisions from 0; one side is None when the other goes on. `where` is the path to the first value
    that differs, such as `effects[0][1].manifest.spec.nodeName`. `chain` leads from the external event to the one that
    was decided about.
    """

    position: int
    recorded: Decided | None
    replayed: Decided | None
    where: str
    chain: tuple[Event, ...] = ()

    @property
    def cause(self) -> int:
        """The seq of the event that was decided about."""
        decided = self.recorded or self.replayed
        assert decided is not None
        return decided.cause

    def value(self, decided: Decided | None) -> Any:
        """Return what `recorded` or `replayed` has at `where`; None if it has nothing there."""
        value: Any = None if decided is None else _comparable(decided)
        rest = self.where
        while rest and value is not None:
            if isinstance(value, dict):  # its keys may contain dots
                key = max((key for key in value if _begins_with(rest, key)), key=len, default=None)
                value, rest = (None, "") if key is None else (value[key], rest[len(key) :].removeprefix("."))
            elif isinstance(value, list) and (found := _INDEX.match(rest)) is not None:
                index = int(found[1])
                value = value[index] if index < len(value) else None
                rest = rest[found.end() :].removeprefix(".")
            else:
                return None
        return value

    def __str__(self) -> str:
        decided = self.recorded or self.replayed
        assert decided is not None
        causes = " → ".join(f"{type(event).__name__} #{event.seq}" for event in self.chain) or "unknown"
        if self.recorded is None:
            what = "the replay decided what was not recorded"
        elif self.replayed is None:
            what = "the replay did not decide what was recorded"
        else:
            what = f"differs at {self.where}"
        return f"decision {self.position} of {decided.actor} for {decided.key}: {what}; caused by {causes}"


class Position(NamedTuple):
    """A place between two lines of a journal: the name of a segment, and an offset in bytes; "" is the start."""

    segment: str = ""
    offset: int = 0


_EVENT = f'{{"record":"{EventRecord.__struct_config__.tag}"'.encode()
"""How the lines of events begin."""
START = Position()
"""The start of a journal."""


_INDEX = re.compile(r"\[(\d+)\]")


def _begins_with(path: str, key: str) -> bool:
    return path.startswith(key) and path[len(key) : len(key) + 1] in ("", ".", "[")


def read_lines(path: Path, start: Position = START) -> Iterator[tuple[Position, bytes]]:
    """Yield the lines of a segment, or of all segments of a directory in order, each with the position after it.

    A last line that is not complete (the process writes it, or crashed) is omitted: reading on from the last position
    yields it later. Raises JournalError.
    """
    segments = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not segments:
        raise JournalError(f"{path}: holds no segments (*{SUFFIX}); give the directory a journal was written to")
    for segment in segments:
        if (name := segment.name) < start.segment:
            continue
        try:
            with segment.open("rb") as lines:
                offset = lines.seek(start.offset if name == start.segment else 0)
                for line in lines:
                    if not line.endswith(b"\n"):
                        break
                    offset += len(line)
                    yield Position(name, offset), line
        except OSError as error:
            msg = f"{segment}: {error.strerror}; give a journal's directory or one of its segments"
            raise JournalError(msg) from error


def read_journal(path: Path, codec: Codec | None = None) -> Iterator[Record]:
    """Yield the records of a segment, or of all segments of a directory in order; raises JournalError.

    A last line that was cut short by a crash is left out.
    """
    codec = codec or Codec()
    file, segment, number = path, "", 0
    is_directory = path.is_dir()
    for position, line in read_lines(path):
        number += 1
        if position.segment != segment:
            segment, number = position.segment, 1
            file = path / segment if is_directory else path
        try:
            record = codec.decode(line)
        except CodecError as error:
            raise JournalError(f"{file}, line {number}: {error}; replay the segments before it") from error
        if isinstance(record, Opened) and record.format != FORMAT:
            msg = f"{file}: format {record.format} is not ours ({FORMAT}); use volcanoio {record.version}"
            raise JournalError(msg)
        yield record


def compare_decisions(
    recorded: Iterable[Decided], replayed: Iterable[Decided], events: Mapping[int, Event] | None = None
) -> Difference | None:
    """Return the first decision that differs, None if all agree; `events` by seq give the chain of causes."""
    for position, (left, right) in enumerate(zip_longest(recorded, replayed)):
        if (found := compare_decision(position, left, right)) is not None:
            return replace(found, chain=cause_chain(found.cause, events or {}))
    return None


def compare_decision(position: int, recorded: Decided | None, replayed: Decided | None) -> Difference | None:
    """Return how two decisions differ, without the chain of causes; None if they agree."""
    if recorded is replayed:
        return None
    where = ""
    if recorded is not None and replayed is not None:
        found = first_difference(_comparable(recorded), _comparable(replayed))
        if found is None:
            return None
        where = found
    return Difference(position=position, recorded=recorded, replayed=replayed, where=where.lstrip("."))


def cause_chain(cause: int, events: Mapping[int, Event]) -> tuple[Event, ...]:
    """Return the events that led to `cause`, the external one first; unknown ones are skipped."""
    found: list[Event] = []
    while cause and (event := events.get(cause)) is not None:
        found.append(event)
        cause = event.cause if event.cause < cause else 0
    return tuple(reversed(found))


class Causes:
    """The causes of all events of a run, by seq, for chains of events that are not kept in memory."""

    def __init__(self) -> None:
        self._causes = array("q")

    def add(self, seq: int, cause: int) -> None:
        """Add an event."""
        self._causes.extend([0] * (seq + 1 - len(self._causes)))
        self._causes[seq] = cause

    def chain(self, seq: int) -> list[int]:
        """Return the seqs of the events that led to an event, the external one first, and of the event itself."""
        chain: list[int] = []
        while 0 < seq < len(self._causes):
            chain.append(seq)
            seq = cause if (cause := self._causes[seq]) < seq else 0
        return chain[::-1]


def _comparable(decided: Decided) -> Any:
    return {"actor": decided.actor, "key": decided.key, "cause": decided.cause, "effects": decided.effects}


def first_difference(left: Any, right: Any, path: str = "") -> str | None:
    """Return the path to the first difference of two plain values, None if they are equal."""
    if isinstance(left, dict) and isinstance(right, dict):
        numbered = _RENUMBERED if "effect" in left else frozenset[str]()
        for key in sorted({*left, *right} - numbered):
            if key not in left or key not in right:
                return f"{path}.{key}"
            if found := first_difference(left[key], right[key], f"{path}.{key}"):
                return found
        return None
    if isinstance(left, list) and isinstance(right, list):
        for index, (one, other) in enumerate(zip(left, right, strict=False)):
            if found := first_difference(one, other, f"{path}[{index}]"):
                return found
        return f"{path}[{min(len(left), len(right))}]" if len(left) != len(right) else None
    return None if left == right and type(left) is type(right) else path


@dataclass
class RunHeader:
    """What the records before the first event of a run contain."""

    opened: Opened
    configured: dict[str, str] = field(default_factory=dict)
    """Configurations in force, name to text."""
    plugins: dict[tuple[str, str], str] = field(default_factory=dict)
    """Where plugins came from, by group and name."""
    complete_until: int = 0
    """Seq up to which decisions are certain to be complete: a journal that ends while its process decides (it was
    killed, or stopped) may miss decisions about later events, never about earlier ones.
    """

    def add(self, record: Record) -> None:
        """Take over a configuration or the origin of a plugin."""
        match record:
            case Configured(name=name, text=text):
                self.configured[name] = text
            case PluginSource(group=group, name=name, origin=origin):
                self.plugins[group, name] = origin
            case _:
                pass


@dataclass
class Run(RunHeader):
    """Observations and decisions of one start of a process, in the order of its events."""

    events: list[Event] = field(default_factory=list)
    decided: list[Decided] = field(default_factory=list)

    @cached_property
    def by_seq(self) -> dict[int, Event]:
        """The events by seq."""
        return {event.seq: event for event in self.events}

    def records(self) -> Iterator[Event | Decided]:
        """Yield events and decisions."""
        yield from self.events
        yield from self.decided


class RunStream(RunHeader):
    """One start of a process that is read once, in the order of the journal, without keeping it in memory."""

    def __init__(self, opened: Opened, rest: Iterator[Record], directory: Path) -> None:
        super().__init__(opened)
        self._rest, self._directory = rest, directory
        self._last = 0
        self._first: Record | None = None
        self.next_opened: Opened | None = None
        """The start of the next run, once this one is read."""
        for record in rest:
            if isinstance(record, EventRecord | Decided | Opened):
                self._first = record
                break
            self.add(record)

    def records(self) -> Iterator[Event | Decided]:
        """Yield events and decisions; raises JournalError where events are missing."""
        deciding, record = False, self._first
        self._first = None
        while record is not None:
            match record:
                case EventRecord(event=event):
                    if deciding or not self._last:
                        self.complete_until = self._last
                    deciding, self._last = False, event.seq
                    yield event
                case Decided():
                    deciding = True
                    yield record
                case Opened(starts=True):
                    self.next_opened = record
                    return
                case Snapshot(before=before) if self._last and before != self._last + 1:
                    missing = f"events {self._last + 1} to {before - 1} are missing"
                    raise JournalError(f"{self._directory}: {missing}; restore the segment")
                case _:
                    self.add(record)
            record = next(self._rest, None)


def stream_runs(directory: Path, codec: Codec | None = None) -> Iterator[RunStream]:
    """Yield the runs in the directory of a journal, oldest first; each is complete when the next one is asked for.

    A segment that goes on must begin where the one before it ended: one that is missing or cut short in the middle of
    a run is an error, at the end of a run it is the mark of a crash. Raises JournalError.
    """
    records = read_journal(directory, codec)
    opened = next(records, None)
    if opened is not None and not (isinstance(opened, Opened) and opened.starts):
        msg = f"{directory}: begins in the middle of a run; give the directory with all of its segments"
        raise JournalError(msg)
    while isinstance(opened, Opened):
        run = RunStream(opened, records, directory)
        yield run
        for _ in run.records():
            pass
        opened = run.next_opened


def run_headers(directory: Path) -> Iterator[RunHeader]:
    """Yield what precedes the first event of each run; objects are not decoded completely. Raises JournalError."""
    codec = Codec(lenient=True)
    header: RunHeader | None = None
    for position, line in read_lines(directory):
        if line.startswith(_EVENT):
            continue
        try:
            record = codec.decode(line)
        except CodecError as error:
            raise JournalError(f"{directory / position.segment}: {error}; restore the segment") from error
        if isinstance(record, Opened) and record.starts:
            if header is not None:
                yield header
            header = RunHeader(record)
        elif header is not None:
            header.add(record)
    if header is not None:
        yield header


def read_runs(directory: Path, codec: Codec | None = None) -> list[Run]:
    """Return the runs in the directory of a journal, oldest first; raises JournalError as `stream_runs` does."""
    runs: list[Run] = []
    for stream in stream_runs(directory, codec):
        run = Run(stream.opened)
        for record in stream.records():
            if isinstance(record, Decided):
                run.decided.append(record)
            else:
                run.events.append(record)
        run.configured, run.plugins, run.complete_until = stream.configured, stream.plugins, stream.complete_until
        runs.append(run)
    return runs
