"""Past states of a cluster, read from its journal: the rows of jobs, queues and nodes at any time.

One pass folds the observed objects into `Overview` and keeps the rows that changed, in frames; every `KEY_EVERY`-th
frame has all rows. A state is the last such frame and at most `KEY_EVERY` - 1 others. Frames begin with a length of a
second, which doubles whenever there are more than `MAX_FRAMES`, so that memory and the index file are bounded. The file
is written beside the journal, and read instead of the journal while that has not grown.
"""

from __future__ import annotations

import os
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from volcanoio import __version__
from volcanoio.bus.journal import START, SUFFIX, JournalError, Position, read_lines
from volcanoio.engine.overview import KINDS, RESOURCES, Changes, Overview
from volcanoio.framework.events import Change, Observed
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.resources import Amounts, add

INDEX = "states.index"
"""Name of the index file in the directory of the journal."""
MAX_FRAMES, KEY_EVERY = 4096, 16
_SAVE_AFTER = 16 << 20
"""Bytes read since the index was last written, above which it is written again."""
_LONG = 400
"""Characters within which the journal writes an event's resource; longer lines of other resources are not decoded."""


class Totals(msgspec.Struct, frozen=True, array_like=True):
    """Sums over the cluster at one time: pods without node, running pods, and amounts."""

    at: float
    pending: int
    running: int
    requested: Amounts
    allocatable: Amounts


class _Frame(msgspec.Struct, frozen=True, array_like=True):
    """Rows that changed until `at`; all rows if it is a key frame."""

    at: float
    is_key: bool
    blob: bytes
    totals: Totals


class _Index(msgspec.Struct, array_like=True):
    """The content of the index file; `ends` are the positions up to which the processes' journals were read."""

    version: str
    ends: dict[str, Position]
    step: float
    began: float
    ended: float
    frames: list[_Frame]


class _Head(msgspec.Struct):
    type: str
    at: float = 0.0
    resource: str = ""
    change: Change = Change.CHANGED
    object: msgspec.Raw = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    record: str
    event: _Head | None = None
    starts: bool = False


def _decoder(type_: type[ApiObject]) -> msgspec.json.Decoder[Any]:
    marked = msgspec.defstruct("Marked", [("content", type_)], rename={"content": "$object"})
    return msgspec.json.Decoder(marked)


_DECODERS = {kind.resource: _decoder(kind.type) for kind in KINDS}


@dataclass
class _Source:
    """A process' journal that is read as it grows; yields Observed of the folded kinds.

    After a new start of the process objects that are not listed again are deleted.
    """

    directory: Path
    resources: frozenset[str]
    position: Position = START
    _needles: tuple[bytes, ...] = ()
    _objects: dict[str, dict[str, ApiObject]] = field(default_factory=dict)
    _listing: dict[str, set[str]] = field(default_factory=dict)
    _decode: Any = field(default_factory=lambda: msgspec.json.Decoder(_Line).decode)

    def __post_init__(self) -> None:
        self._needles = tuple(f'"{resource}"'.encode() for resource in self.resources)

    def size(self) -> int:
        """Return the bytes that were not read yet."""
        segments = sorted(self.directory.glob(f"*{SUFFIX}"))
        left = [path.stat().st_size for path in segments if path.name >= self.position.segment]
        return sum(left) - (self.position.offset if self.position.segment else 0)

    def read(self) -> Iterator[Observed]:
        """Yield what was written since the last call; raises JournalError."""
        if not any(self.directory.glob(f"*{SUFFIX}")):
            return
        for position, line in read_lines(self.directory, self.position):
            if len(line) > _LONG and not any(name in line[:_LONG] for name in self._needles):
                self.position = position
                continue
            try:
                head = self._decode(line)
                if (event := head.event) is not None:
                    yield from self._events(event)
                elif head.starts:
                    self._listing = {resource: set() for resource in self.resources}
            except msgspec.DecodeError as error:
                place = f"{self.directory / position.segment}, byte {position.offset}"
                raise JournalError(
                    f"{place}: not a record: {error}; move the segment away, and those after it"
                ) from error
            self.position = position

    def _events(self, event: _Head) -> Iterator[Observed]:
        resource = event.resource
        if resource not in self.resources:
            return
        known = self._objects.setdefault(resource, {})
        if event.type == "Observed":
            obj: ApiObject = _DECODERS[resource].decode(event.object).content
            uid = obj.metadata.uid
            if event.change is Change.GONE:
                known.pop(uid, None)
            else:
                known[uid] = ApiObject(metadata=obj.metadata) if resource == kinds.POD.resource else obj
                if resource in self._listing:
                    self._listing[resource].add(uid)
            yield Observed(at=event.at, resource=resource, change=event.change, object=obj)
        elif event.type == "Synced" and (listed := self._listing.pop(resource, None)) is not None:
            for uid in known.keys() - listed:
                obj = known.pop(uid)
                if type(obj) is ApiObject:
                    obj = kinds.POD.type(metadata=obj.metadata)
                yield Observed(at=event.at, resource=resource, change=Change.GONE, object=obj)


class PastStates:
    """States of the cluster whose processes wrote a journal into `directory` (or its part `scheduler`).

    `refresh` builds the index, and later reads what a running process has written since; it blocks, while the other
    methods may be used from other threads and return what was read when it last ended. Raises JournalError for a
    directory without journal.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        resources = RESOURCES
        parts = {name: directory / name for name in ("scheduler", "controllers") if (directory / name).is_dir()}
        if not parts and not any(directory.glob(f"*{SUFFIX}")):
            raise JournalError(f"{directory}: no journal; give the directory of --journal")
        jobs_only = {"controllers"} if len(parts) > 1 else set()  # both observe the other kinds
        self._sources = {
            name: _Source(path, frozenset((kinds.JOB.resource,)) if name in jobs_only else resources)
            for name, path in (parts or {"": directory}).items()
        }
        self._overview = Overview()
        self._sums = _Sums()
        self._frames: list[_Frame] = []
        self._shown: list[_Frame] = []
        self._span: tuple[float, float] | None = None
        self._step = 1.0
        self._began = self._ended = 0.0
        self._since_key = 0
        self._unsaved = 0

    @property
    def span(self) -> tuple[float, float] | None:
        """First and last time of an event (epoch seconds); None before the first."""
        return self._span

    def refresh(self) -> None:
        """Read what was written since the last call; the first call loads or builds the index. Raises JournalError."""
        if not self._frames and self._load():
            self._show()
            return
        if not any(source.size() for source in self._sources.values()):
            return
        if not self._overview_is_current():
            self._reset()
        self._unsaved += sum(source.size() for source in self._sources.values())
        pending = {name: source.read() for name, source in self._sources.items()}
        heads = {name: event for name, events in pending.items() if (event := next(events, None)) is not None}
        edge = 0.0
        while heads:
            name = min(heads, key=lambda each: heads[each].at)
            event = heads[name]
            if event.at >= edge:
                self._close()
                edge = (event.at // self._step + 1) * self._step
            self._began = self._began or event.at
            self._ended = max(self._ended, event.at)
            self._overview.fold((event,))
            following = next(pending[name], None)
            if following is None:
                del heads[name]
            else:
                heads[name] = following
        self._close()
        self._show()
        if self._unsaved >= _SAVE_AFTER:
            self._save()

    def at(self, moment: float) -> Changes:
        """Return all rows at a time, as they were at most a frame before; before the first frame those of the first."""
        frames = self._shown
        last = min(len(frames), max(1, bisect_right(frames, moment, key=lambda frame: frame.at)))
        first = next((place for place in reversed(range(last)) if frames[place].is_key), 0)
        state = Changes({}, {}, {})
        for frame in frames[first:last]:
            _merge(state, _unpack(frame.blob))
        return _existing(state)

    def totals(self, points: int = 600) -> list[Totals]:
        """Return sums at about so many times, evenly distributed over the frames."""
        frames = self._shown
        every = max(1, len(frames) // points)
        return [frame.totals for frame in frames[::-1][::every]][::-1]

    def _show(self) -> None:
        """Let other threads see the frames."""
        self._shown = list(self._frames)
        self._span = (self._began, self._ended) if self._frames else None

    def _overview_is_current(self) -> bool:
        """Return whether the fold has reached the positions of the sources; it has not after loading an index."""
        return not self._frames or self._sums.is_used

    def _reset(self) -> None:
        """Begin again from the start of the journal, which has grown since the loaded index was written."""
        for name, source in self._sources.items():
            self._sources[name] = _Source(source.directory, source.resources)
        self._frames, self._step, self._since_key = [], 1.0, 0
        self._began = self._ended = 0.0

    def _close(self) -> None:
        """End the frame: keep the rows that changed."""
        changes = self._overview.take_changes()
        if not changes:
            return
        totals = self._sums.update(self._ended, changes)
        bucket = self._ended // self._step
        last = self._frames[-1] if self._frames else None
        if last is not None and last.at // self._step == bucket:
            self._frames[-1] = _joined(last, _Frame(self._ended, False, _pack(changes), totals))
            return
        self._since_key += 1
        is_key = last is None or self._since_key >= KEY_EVERY
        if is_key:
            self._since_key = 0
            changes = self._overview.snapshot()
        self._frames.append(_Frame(self._ended, is_key, _pack(changes), totals))
        if len(self._frames) > MAX_FRAMES:
            self._halve()

    def _halve(self) -> None:
        """Double the length of frames."""
        self._step *= 2
        joined: list[_Frame] = []
        for frame in self._frames:
            if joined and joined[-1].at // self._step == frame.at // self._step:
                joined[-1] = _joined(joined[-1], frame)
            else:
                joined.append(frame)
        self._frames = joined

    def _load(self) -> bool:
        """Read the index file; return whether it covers the whole journal."""
        try:
            index = msgspec.msgpack.decode((self._directory / INDEX).read_bytes(), type=_Index)
        except (OSError, msgspec.DecodeError):
            return False
        if index.version != __version__ or index.ends.keys() != self._sources.keys():
            return False
        for name, source in self._sources.items():
            source.position = Position(*index.ends[name])
        if any(source.size() != 0 for source in self._sources.values()):
            for source in self._sources.values():
                source.position = START
            return False
        self._frames, self._step, self._began, self._ended = index.frames, index.step, index.began, index.ended
        return True

    def _save(self) -> None:
        """Write the index file; a directory that does not allow it costs time at the next start only."""
        self._unsaved = 0
        ends = {name: source.position for name, source in self._sources.items()}
        index = _Index(__version__, ends, self._step, self._began, self._ended, self._frames)
        target = self._directory / INDEX
        new = target.with_suffix(".new")
        with suppress(OSError):
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(msgspec.msgpack.encode(index))
            new.replace(target)


class _Sums:
    """Running sums over the rows of jobs and nodes."""

    def __init__(self) -> None:
        self.is_used = False
        self._jobs: dict[str, tuple[int, int]] = {}
        self._nodes: dict[str, tuple[Amounts, Amounts]] = {}
        self._pending = self._running = 0
        self._requested: Amounts = {}
        self._allocatable: Amounts = {}

    def update(self, at: float, changes: Changes) -> Totals:
        """Replace what changed; return the sums."""
        self.is_used = True
        for key, job in changes.jobs.items():
            pending, running = self._jobs.pop(key, (0, 0))
            self._pending -= pending
            self._running -= running
            if job is not None:
                self._jobs[key] = job.pending, job.running
                self._pending += job.pending
                self._running += job.running
        for name, node in changes.nodes.items():
            if (known := self._nodes.pop(name, None)) is not None:
                add(self._requested, known[0], -1)
                add(self._allocatable, known[1], -1)
            if node is not None:
                self._nodes[name] = node.requested, node.allocatable
                add(self._requested, node.requested)
                add(self._allocatable, node.allocatable)
        return Totals(at, self._pending, self._running, dict(self._requested), dict(self._allocatable))


_UNPACK = msgspec.msgpack.Decoder(Changes)


def _pack(changes: Changes) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(changes), 1)


def _unpack(blob: bytes) -> Changes:
    return _UNPACK.decode(zlib.decompress(blob))


def _merge(into: Changes, later: Changes) -> None:
    into.jobs.update(later.jobs)
    into.queues.update(later.queues)
    into.nodes.update(later.nodes)


def _existing(state: Changes) -> Changes:
    """Return the rows that are not deleted."""
    return Changes(*({key: row for key, row in rows.items() if row is not None} for rows in _parts(state)))


def _parts(state: Changes) -> tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]:
    return state.jobs, state.queues, state.nodes


def _joined(first: _Frame, later: _Frame) -> _Frame:
    """Return one frame for two: what holds after the later one."""
    if later.is_key:
        return later
    changes = _unpack(first.blob)
    _merge(changes, _unpack(later.blob))
    if first.is_key:
        changes = _existing(changes)
    return _Frame(later.at, first.is_key, _pack(changes), later.totals)
