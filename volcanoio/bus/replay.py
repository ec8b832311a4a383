"""Reading a journal, and the first difference between what was decided and what a replay decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from volcanoio.bus.journal import SUFFIX
from volcanoio.bus.journal_codec import Codec, CodecError
from volcanoio.bus.records import FORMAT, Decided, Opened, Record
from volcanoio.framework.events import Event

_NUMBERED_ANEW = frozenset({"id"})
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

    def __str__(self) -> str:
        """A report for people."""
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


def read_journal(path: Path, codec: Codec | None = None) -> Iterator[Record]:
    """The records of a segment, or of all segments of a directory in order; raises JournalError.

    A last line that was cut short by a crash is left out.
    """
    codec = codec or Codec()
    if path.is_dir():
        segments = sorted(path.glob(f"*{SUFFIX}"))
        if not segments:
            msg = f"{path}: holds no segments (*{SUFFIX}); give the directory a journal was written to"
            raise JournalError(msg)
    else:
        segments = [path]
    for segment in segments:
        yield from _read_segment(segment, codec)


def _read_segment(path: Path, codec: Codec) -> Iterator[Record]:
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n"):
                    return
                try:
                    record = codec.decode(line)
                except CodecError as error:
                    msg = f"{path}, line {number}: {error}; replay the segments before it"
                    raise JournalError(msg) from error
                if isinstance(record, Opened) and record.format != FORMAT:
                    msg = f"{path}: format {record.format} is not ours ({FORMAT}); use volcanoio {record.version}"
                    raise JournalError(msg)
                yield record
    except OSError as error:
        msg = f"{path}: {error.strerror}; give a journal's directory or one of its segments"
        raise JournalError(msg) from error


def compare(
    recorded: Iterable[Decided], replayed: Iterable[Decided], events: Mapping[int, Event] | None = None
) -> Difference | None:
    """The first decision that differs, None when all agree. `events` by seq give the chain of causes."""
    for position, (left, right) in enumerate(zip_longest(recorded, replayed)):
        if left is None or right is None:
            where = ""
        else:
            found = first_difference(_comparable(left), _comparable(right), "")
            if found is None:
                continue
            where = found.lstrip(".")
        cause = (left or right).cause
        return Difference(
            position=position, recorded=left, replayed=right, where=where, chain=chain(cause, events or {})
        )
    return None


def chain(cause: int, events: Mapping[int, Event]) -> tuple[Event, ...]:
    """The events that led to `cause`, the external one first, `cause` last; what is not known is left out."""
    found: list[Event] = []
    while cause and (event := events.get(cause)) is not None:
        found.append(event)
        cause = event.cause if event.cause < cause else 0
    return tuple(reversed(found))


def _comparable(decided: Decided) -> Any:
    return {"actor": decided.actor, "key": decided.key, "cause": decided.cause, "effects": decided.effects}


def first_difference(left: Any, right: Any, path: str = "") -> str | None:
    """The path to the first value in which two plain values differ, None when they are the same."""
    if isinstance(left, dict) and isinstance(right, dict):
        numbered = _NUMBERED_ANEW if "effect" in left else frozenset[str]()
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
