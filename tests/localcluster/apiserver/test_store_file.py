"""The file of the store: which formats are read, what becomes of older ones, and that it shrinks."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.localcluster.apiserver.api import CONFIG_MAPS, config_map, running
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.localcluster.apiserver.storage.datadir import DataDirectoryUnusable
from volcanoio.localcluster.apiserver.storage.persistence import FORMAT, backup_of


def _as_format_1(file: Path) -> None:
    """Rewrite a file as the first version of volcanoio made it."""
    with closing(sqlite3.connect(file)) as db:
        db.execute("UPDATE meta SET value = '1' WHERE key = 'format'")
        db.commit()
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA auto_vacuum = NONE")
        db.execute("VACUUM")


def _value(file: Path, query: str) -> object:
    with closing(sqlite3.connect(file)) as db:
        return db.execute(query).fetchone()[0]


async def test_an_older_file_is_backed_up_and_migrated(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    async with running(tmp_path) as api:
        made = await api.made(CONFIG_MAPS, config_map("a", x="1"))
    _as_format_1(file)
    async with running(tmp_path) as api:
        assert await api.got(f"{CONFIG_MAPS}/a") == made
    assert _value(file, "SELECT value FROM meta WHERE key = 'format'") == str(FORMAT)
    assert _value(file, "PRAGMA auto_vacuum") == 2
    backup = backup_of(file, 1)
    assert _value(backup, "SELECT value FROM meta WHERE key = 'format'") == "1"
    assert _value(backup, "SELECT count(*) FROM object WHERE resource = 'configmaps' AND name = 'a'") == 1
    assert backup.stat().st_mode & 0o077 == 0


async def test_a_migration_that_was_interrupted_keeps_the_first_backup(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    async with running(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("a"))
    _as_format_1(file)
    backup = backup_of(file, 1)
    backup.with_name(backup.name + ".unfinished").write_text("half a copy")
    ApiServer.open(tmp_path).close()
    first = backup.read_bytes()
    _as_format_1(file)
    ApiServer.open(tmp_path).close()
    assert backup.read_bytes() == first
    assert not backup.with_name(backup.name + ".unfinished").exists()


@pytest.mark.parametrize(
    ("stored", "advice"), [("99", "upgrade volcanoio"), ("0", "restore the file"), ("two", "restore the file")]
)
def test_an_unknown_format_is_refused(tmp_path: Path, stored: str, advice: str) -> None:
    ApiServer.open(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "store.db")) as db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'format'", (stored,))
        db.commit()
    for _ in range(2):  # a refusal changes nothing
        with pytest.raises(DataDirectoryUnusable, match=f"format {stored}.*{advice}"):
            ApiServer.open(tmp_path)


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "store.db")) as db:
        db.execute("CREATE TABLE song (title TEXT)")
    with pytest.raises(DataDirectoryUnusable, match="another program's database"):
        ApiServer.open(tmp_path)
    assert _value(tmp_path / "store.db", "SELECT count(*) FROM sqlite_master") == 1


async def test_the_file_shrinks_when_much_is_deleted(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    async with running(tmp_path) as api:
        for number in range(40):
            await api.made(CONFIG_MAPS, config_map(f"c{number}", text="x" * 900_000))
        await api("DELETE", CONFIG_MAPS)
        await api.made(CONFIG_MAPS, config_map("left"))
    assert file.stat().st_size < 20_000_000
