"""The dump of the scheduler's caches is a state that `volcanoio simulate` reads."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from volcanoio.compose.state_files import read_state
from volcanoio.model import kinds
from volcanoio.model.base import ObjectMeta
from volcanoio.model.core import Node, NodeStatus, Pod
from volcanoio.model.scheduling import Queue
from volcanoio.runtime.scheduler.cache_dump import write_dump

HELD: list[Any] = [
    SimpleNamespace(
        kind=kinds.NODE,
        objects={"n1": Node(metadata=ObjectMeta(name="n1", uid="1"), status=NodeStatus(allocatable={"cpu": "4"}))},
    ),
    SimpleNamespace(kind=kinds.QUEUE, objects={"default": Queue(metadata=ObjectMeta(name="default", uid="2"))}),
    SimpleNamespace(
        kind=kinds.POD, objects={"a/p": Pod(metadata=ObjectMeta(namespace="a", name="p", uid="3", labels={"x": "é"}))}
    ),
]


async def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = await write_dump(HELD, tmp_path, now=1234.9)
    assert path == tmp_path / "snapshot-1234.json"
    assert [entry.name for entry in os.scandir(tmp_path)] == [path.name]
    assert stat.S_IMODE((await anyio.Path(path).stat()).st_mode) == 0o600
    state = read_state([path], [each.kind for each in HELD])
    assert state.objects == [obj for each in HELD for obj in each.objects.values()]


async def test_a_directory_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        await write_dump(HELD, tmp_path / "none", now=0.0)
