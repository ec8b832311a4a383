"""A dump of the scheduler's caches, to see what it decides on: a file that `volcanoio simulate -f` reads.

Volcano writes one on SIGUSR1, as `snapshot-SECONDS.json` too (pkg/scheduler/cache/dumper.go). Ours is a List of API
objects, with the fields that scheduling reads.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TypeAlias

import anyio.to_thread
import msgspec

from volcanoio.engine.scheduling.cluster.memory import MEMORY_KIND, MEMORY_VERSION, SchedulerMemory
from volcanoio.kube.informer import Informer
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind

Held: TypeAlias = tuple[Kind, Sequence[ApiObject]]
"""Objects of a kind."""
OBJECTS_PER_PART = 48
"""Objects that are encoded at once: some 0.3 ms."""


async def write_dump(informers: Iterable[Informer], directory: Path, *, now: float) -> Path:
    """Write the informers' objects to a new file, which only our user may read. Raises OSError."""
    held = [(informer.kind, tuple(informer.objects.values())) for informer in informers]
    return await anyio.to_thread.run_sync(_write, directory / f"snapshot-{int(now)}.json", held)


def _write(path: Path, held: Sequence[Held]) -> Path:
    """Write a file beside the final one, then move it, so that no reader sees a part of it.

    The directory may be /tmp: the first file is a new one with a random name, no link that another user put there.
    """
    descriptor, part = tempfile.mkstemp(prefix=f"{path.stem}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _write_list(file, held)
        return Path(part).replace(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def _write_list(file: BinaryIO, held: Sequence[Held]) -> None:
    """Write the objects as a List."""
    file.writelines(encoded(held))


def encoded(held: Sequence[Held], memory: SchedulerMemory | None = None) -> Iterator[bytes]:
    """Yield the bytes of a List of these objects in parts of a few dozen, the memory of the scheduler first."""
    encode = msgspec.json.Encoder().encode
    yield b'{"apiVersion":"v1","kind":"List","items":['
    separator = b"\n"
    if memory is not None:
        yield separator + _head(MEMORY_VERSION, MEMORY_KIND) + encode(memory)[1:]
        separator = b",\n"
    for kind, objects in held:
        head = _head(kind.api_version, kind.kind)
        for start in range(0, len(objects), OBJECTS_PER_PART):
            part = [head + encode(item)[1:] for item in objects[start : start + OBJECTS_PER_PART]]
            yield separator + b",\n".join(part)
            separator = b",\n"
    yield b"\n]}\n"


def _head(api_version: str, kind: str) -> bytes:
    return b'{"apiVersion":%b,"kind":%b,' % (msgspec.json.encode(api_version), msgspec.json.encode(kind))
