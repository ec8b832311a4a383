"""A dump of the scheduler's caches, to see what it decides on: a file that `volcanoio simulate -f` reads.

Volcano writes one on SIGUSR1, as `snapshot-SECONDS.json` too (pkg/scheduler/cache/dumper.go). Ours is a List of API
objects, with the fields that scheduling reads.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import anyio.to_thread
import msgspec

from volcanoio.kube.informer import Informer
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind


async def write_dump(informers: Iterable[Informer], directory: Path, *, now: float) -> Path:
    """Write the informers' objects to a new file, which only our user may read. Raises OSError."""
    held = [(informer.kind, tuple(informer.objects.values())) for informer in informers]
    return await anyio.to_thread.run_sync(_write, directory / f"snapshot-{int(now)}.json", held)


def _write(path: Path, held: Sequence[tuple[Kind, Sequence[ApiObject]]]) -> Path:
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


def _write_list(file: BinaryIO, held: Sequence[tuple[Kind, Sequence[ApiObject]]]) -> None:
    """Write the objects as a List."""
    file.write(b'{"apiVersion":"v1","kind":"List","items":[')
    separator = b"\n"
    for kind, objects in held:
        head = b'{"apiVersion":%b,"kind":%b,' % (
            msgspec.json.encode(kind.api_version),
            msgspec.json.encode(kind.kind),
        )
        for item in objects:
            file.write(separator + head + msgspec.json.encode(item)[1:])
            separator = b",\n"
    file.write(b"\n]}\n")
