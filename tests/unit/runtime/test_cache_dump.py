"""The dump of the scheduler's caches is a state that `volcanoio simulate` reads."""

from __future__ import annotations

import os
import stat
from functools import partial
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


@pytest.mark.parametrize("suffix", [".json", ".part"])
async def test_a_link_that_somebody_put_there_is_not_followed(tmp_path: Path, suffix: str) -> None:
    """The directory is /tmp by default, where every user may create files, and the names can be predicted."""
    target = tmp_path / "target"
    target.write_text("theirs")
    (tmp_path / f"snapshot-7{suffix}").symlink_to(target)
    path = await write_dump(HELD, tmp_path, now=7.0)
    assert target.read_text() == "theirs"
    assert not path.is_symlink()
    assert read_state([path], [each.kind for each in HELD]).objects


async def test_dumps_of_one_second_do_not_share_a_file(tmp_path: Path) -> None:
    many = {f"n{number}": Node(metadata=ObjectMeta(name=f"n{number}", uid=str(number))) for number in range(5000)}
    held: list[Any] = [SimpleNamespace(kind=kinds.NODE, objects=many)]
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(partial(write_dump, held, tmp_path, now=7.0))
    assert [entry.name for entry in os.scandir(tmp_path)] == ["snapshot-7.json"]
    assert len(read_state([tmp_path / "snapshot-7.json"], [kinds.NODE]).objects) == 5000


async def test_nothing_is_left_of_a_dump_that_fails(tmp_path: Path) -> None:
    (tmp_path / "snapshot-7.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        await write_dump(HELD, tmp_path, now=7.0)
    assert [entry.name for entry in os.scandir(tmp_path)] == ["snapshot-7.json"]
