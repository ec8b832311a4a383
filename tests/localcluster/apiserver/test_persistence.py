"""What is on disk: everything acknowledged survives the death of the process, and one server owns a directory."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.localcluster.apiserver.api import (
    CONFIG_MAPS,
    DEFINITIONS,
    NAMESPACES,
    WIDGETS,
    config_map,
    owned,
    running,
    widget,
    widget_definition,
)
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.localcluster.apiserver.storage.datadir import DataDirectoryBusy, DataDirectoryUnusable

_CHILD = """
import asyncio, sys
from pathlib import Path
from tests.localcluster.apiserver.api import CONFIG_MAPS, config_map, running

async def main():
    async with running(Path(sys.argv[1])) as api:
        number = 0
        while True:
            made = await asyncio.gather(*(api.made(CONFIG_MAPS, config_map(f"c{number + i}")) for i in range(10)))
            number += 10
            for one in made:
                print(one["metadata"]["name"], one["metadata"]["resourceVersion"], flush=True)

asyncio.run(main())
"""


def _write_until_killed(directory: Path) -> list[list[str]]:
    """Let another process write, and kill it during the writes; returns the acknowledged ones."""
    env = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    command = [sys.executable, "-c", _CHILD, str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as child:
        assert child.stdout is not None
        acknowledged = [child.stdout.readline().split() for _ in range(100)]
        with pytest.raises(DataDirectoryBusy) as busy:
            ApiServer.open(directory)
        assert (busy.value.path, busy.value.pid) == (directory, child.pid)
        assert str(child.pid) in str(busy.value)
        child.kill()
        rest = child.stdout.read().splitlines(keepends=True)
    return acknowledged + [line.split() for line in rest if line.endswith("\n")]


async def test_all_objects_exist_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        made = await api.made(CONFIG_MAPS, config_map("a", x="1"))
        await api.made(CONFIG_MAPS, config_map("b"))
        await api("DELETE", f"{CONFIG_MAPS}/b")
        await api.made(DEFINITIONS, widget_definition())
        await api.made(WIDGETS, widget())
        revision = api.server.store.revision
    async with running(tmp_path) as api:
        assert await api.got(f"{CONFIG_MAPS}/a") == made
        assert (await api("GET", f"{CONFIG_MAPS}/b")).code == 404
        assert (await api.got(f"{WIDGETS}/w"))["spec"]["color"] == "red"
        assert api.server.store.revision > revision
        async with api.watch(CONFIG_MAPS, resourceVersion=str(revision)) as lines:
            type_, status = await lines.next()
            assert (type_, status["code"]) == ("ERROR", 410)


async def test_unfinished_work_continues_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        held = config_map("held")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await api.made(NAMESPACES, {"metadata": {"name": "team"}})
        await api.made(f"{NAMESPACES}/team/configmaps", held)
        await api("DELETE", f"{NAMESPACES}/team")
        owner = await api.made(CONFIG_MAPS, config_map("owner"))
        await api.made(CONFIG_MAPS, owned(config_map("child"), owner))
        await api("DELETE", f"{CONFIG_MAPS}/owner")
    async with running(tmp_path) as api:
        await api.gone(f"{CONFIG_MAPS}/child")
        patch = {"metadata": {"finalizers": None}}
        await api("PATCH", f"{NAMESPACES}/team/configmaps/held", patch, kind="application/merge-patch+json")
        await api.gone(f"{NAMESPACES}/team")


async def test_acknowledged_writes_survive_kill_9(tmp_path: Path) -> None:
    acknowledged = _write_until_killed(tmp_path)
    async with running(tmp_path) as api:
        for name, version in acknowledged:
            assert (await api.got(f"{CONFIG_MAPS}/{name}"))["metadata"]["resourceVersion"] == version
        newer = await api.made(CONFIG_MAPS, config_map("newer"))
        assert int(newer["metadata"]["resourceVersion"]) > max(int(version) for _, version in acknowledged)


async def test_a_copy_taken_while_writing_is_consistent(tmp_path: Path) -> None:
    async with running(tmp_path / "live") as api:
        for number in range(20):
            await api.made(CONFIG_MAPS, config_map(f"c{number}"))
        (tmp_path / "copy").mkdir()
        for part in ("store.db", "store.db-wal"):
            shutil.copy(tmp_path / "live" / part, tmp_path / "copy" / part)
        async with running(tmp_path / "copy") as other:
            assert len(await other.names(CONFIG_MAPS)) == 20


def test_files_that_are_no_store_are_refused(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_text("this is not a database, but it is long enough to be looked at" * 20)
    with pytest.raises(DataDirectoryUnusable, match="not a database"):
        ApiServer.open(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataDirectoryUnusable, match="--data"):
        ApiServer.open(tmp_path / "file" / "below")


async def test_a_failed_disk_stops_writes_not_reads(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        with sqlite3.connect(tmp_path / "store.db") as db:
            db.execute("DROP TABLE object")
        db.close()
        for name in ("b", "c"):
            answer = await api("POST", CONFIG_MAPS, config_map(name))
            assert (answer.code, answer.reason) == (500, "InternalError")
            assert "restart the server" in answer.message
        assert (await api("GET", f"{CONFIG_MAPS}/a")).code == 200
