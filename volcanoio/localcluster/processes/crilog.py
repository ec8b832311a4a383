"""Container logs on disk, in the format of the container runtime interface (CRI).

A line is `TIME STREAM TAG TEXT`: an RFC 3339 time in UTC, stdout or stderr, F for a whole line or P for a part of one.
A log that grows over `max_bytes` goes on in a new file; one older file is kept, as the newest of a kubelet's.
Kubernetes: `pkg/kubelet/kuberuntime/logs`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 10 * 1024 * 1024
"""Size at which a log continues in a new file (Kubernetes: containerLogMaxSize)."""
LINE_LIMIT = 16 * 1024
"""Longest piece of a line that is written at once."""


class CriLog:
    """The log of one run of a container, being written."""

    def __init__(self, path: Path, now: Callable[[], float], max_bytes: int = MAX_BYTES) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._now = now
        self._max_bytes = max_bytes
        self._file: BinaryIO = path.open("ab")
        self._size = self._file.tell()
        self._rest = {"stdout": b"", "stderr": b""}
        self._followers: set[asyncio.Event] = set()
        self._files = 1
        self.ended = False

    def write(self, stream: str, data: bytes) -> None:
        """Add output of `stdout` or `stderr`; an incomplete line is kept until its end arrives."""
        data = self._rest[stream] + data
        lines = data.split(b"\n")
        rest = lines.pop()
        entries = [entry for line in lines for entry in self._entries(stream, line, whole=True)]
        while len(rest) > LINE_LIMIT:
            entries += self._entries(stream, rest[:LINE_LIMIT], whole=False)
            rest = rest[LINE_LIMIT:]
        self._rest[stream] = rest
        self._append(entries)

    def end(self) -> None:
        """Write the remaining output and close the file, which ends followers.

        Raises OSError when it cannot be written.
        """
        if self.ended:
            return
        try:
            for stream, rest in self._rest.items():
                if rest:
                    self._append(self._entries(stream, rest, whole=True))
        finally:
            self.ended = True
            self._wake()
            self._file.close()

    def _entries(self, stream: str, line: bytes, *, whole: bool) -> list[bytes]:
        stamp = datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        head = f"{stamp} {stream} ".encode()
        pieces = [line[at : at + LINE_LIMIT] for at in range(0, len(line), LINE_LIMIT)] or [b""]
        last = len(pieces) - 1
        return [head + (b"F " if whole and n == last else b"P ") + piece for n, piece in enumerate(pieces)]

    def _append(self, entries: list[bytes]) -> None:
        if not entries or self.ended:
            return
        data = b"\n".join(entries) + b"\n"
        if self._size and self._size + len(data) > self._max_bytes:
            self._file.close()
            self.path.replace(_older(self.path))
            self._file = self.path.open("ab")
            self._files += 1
            self._size = 0
        self._file.write(data)
        self._file.flush()
        self._size += len(data)
        self._wake()

    def _wake(self) -> None:
        for follower in self._followers:
            follower.set()

    async def follow(self) -> AsyncIterator[list[bytes]]:
        """Yield the existing entries, then new ones until the run has ended, as LogSource does.

        It is read from the files, so that who reads slowly costs no memory; who is too slow misses what is
        replaced.
        """
        changed = asyncio.Event()
        self._followers.add(changed)
        joiner = _Joiner()
        older = _entries(_older(self.path))
        file, number = self.path.open("rb"), self._files
        try:
            yield joiner.lines([*older, *_split(file.read())])
            while True:
                changed.clear()
                ended, current = self.ended, self._files
                if entries := _split(file.read()):
                    yield joiner.lines(entries)
                elif number != current:
                    file.close()
                    file, number = self.path.open("rb"), current
                elif ended:
                    return
                else:
                    await changed.wait()
        finally:
            file.close()
            self._followers.discard(changed)


def read_log(path: Path) -> list[bytes]:
    """Return all kept lines of a log, each `TIME TEXT`; none without a file."""
    return _Joiner().lines(_stored(path))


def _older(path: Path) -> Path:
    return path.with_name(path.name + ".1")


def _stored(path: Path) -> list[bytes]:
    return [*_entries(_older(path)), *_entries(path)]


def _entries(path: Path) -> list[bytes]:
    try:
        return _split(path.read_bytes())
    except FileNotFoundError:
        return []


def _split(data: bytes) -> list[bytes]:
    """Split bytes into entries, which are written whole; a carriage return does not end one."""
    return data.split(b"\n")[:-1]


class _Joiner:
    """Converter of log entries to whole lines with the time of their first part."""

    def __init__(self) -> None:
        self._open: dict[bytes, bytes] = {}

    def lines(self, entries: list[bytes]) -> list[bytes]:
        found = []
        for entry in entries:
            stamp, _, rest = entry.partition(b" ")
            stream, _, rest = rest.partition(b" ")
            tag, _, text = rest.partition(b" ")
            begun = self._open.pop(stream, stamp + b" ")
            if tag == b"P":
                self._open[stream] = begun + text
            else:
                found.append(begun + text)
        return found
