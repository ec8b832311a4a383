"""The SQLite file behind the store: its layout, its format version, migrations of older ones, and compaction.

A file of a newer format is refused. One of an older format is copied beside itself and then migrated step by step; the
format is noted after each step, so that an interrupted migration is taken up again where it stopped.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from volcanoio.localcluster.apiserver.datadir import DataDirectoryUnusable

FORMAT: Final = 2
"""Version of the file's layout.

1: the latest version of each object. 2: the same, and pages freed by deletions are given back to the file system.
"""

RESTART_GAP: Final = 10_000
"""Versions skipped at a start: those handed out but not committed when the last process died are never used again."""

_CHECKPOINT_PAGES: Final = 8000
"""Pages of 4 KiB in the write-ahead log before it is folded into the file; SQLite's 1,000 cost a quarter more time."""

_FREE_PAGES: Final = 2000
"""Free pages that are kept for new objects rather than given back."""

_LAYOUT: Final = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS object (
  resource TEXT, namespace TEXT, name TEXT, revision INTEGER NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY (resource, namespace, name)
);
"""
_GIVE_BACK: Final = "PRAGMA auto_vacuum = INCREMENTAL"
META: Final = "INSERT OR REPLACE INTO meta VALUES (?, ?)"


def _let_the_file_shrink(db: sqlite3.Connection) -> None:
    """1 to 2. The mode of a file with tables changes only when all of it is rewritten."""
    db.execute(_GIVE_BACK)
    db.execute("VACUUM")


_MIGRATIONS: Final[dict[int, Callable[[sqlite3.Connection], None]]] = {1: _let_the_file_shrink}
"""From each older format to the next."""


def open_file(path: Path) -> tuple[sqlite3.Connection, int]:
    """The connection and the first version a new process may hand out; raises DataDirectoryUnusable."""
    try:
        path.touch(mode=0o600)
        db = sqlite3.connect(path, check_same_thread=False, isolation_level="DEFERRED")
        try:
            return db, _prepare(db, path)
        except BaseException:
            db.close()
            raise
    except (sqlite3.Error, OSError) as error:
        raise DataDirectoryUnusable(path.parent, f"{path.name}: {error}") from error


def compact(db: sqlite3.Connection) -> None:
    """Give pages that deletions have freed back to the file system, when there are many."""
    free = db.execute("PRAGMA freelist_count").fetchone()[0]
    if free > 2 * _FREE_PAGES:
        db.executescript(f"PRAGMA incremental_vacuum({free - _FREE_PAGES})")  # execute would do one page


def backup_of(path: Path, version: int) -> Path:
    """Where the copy of a file of an older format is kept."""
    return path.with_name(f"{path.name}.format-{version}.backup")


def _prepare(db: sqlite3.Connection, path: Path) -> int:
    version = _format(db, path)
    if version is None:
        db.execute(_GIVE_BACK)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
    db.executescript(_LAYOUT)
    if version is not None and version < FORMAT:
        _migrate(db, path, version)
    stored = db.execute("SELECT value FROM meta WHERE key = 'revision'").fetchone()
    revision = int(stored[0]) + RESTART_GAP if stored else 0
    with db:
        db.execute(META, ("format", str(FORMAT)))
        db.execute(META, ("revision", str(revision)))
    return revision


def _format(db: sqlite3.Connection, path: Path) -> int | None:
    """The format of what is stored, None for a new file."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
        if db.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise DataDirectoryUnusable(path.parent, f"{path.name} is another program's database")
        return None
    stored = db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
    text = stored[0] if stored else ""
    if not text.isdigit() or not 1 <= int(text) <= FORMAT:
        newer = text.isdigit() and int(text) > FORMAT
        reads = f"this version of volcanoio reads 1 to {FORMAT}"
        advice = "upgrade volcanoio" if newer else "restore the file from a backup"
        raise DataDirectoryUnusable(path.parent, f"{path.name} has format {text or 'none'}, {reads}; {advice}")
    return int(text)


def _migrate(db: sqlite3.Connection, path: Path, version: int) -> None:
    backup = backup_of(path, version)
    if not backup.exists():
        unfinished = backup.with_name(backup.name + ".unfinished")
        unfinished.unlink(missing_ok=True)
        db.execute("VACUUM INTO ?", (str(unfinished),))
        unfinished.chmod(0o600)
        unfinished.rename(backup)
    for step in range(version, FORMAT):
        _MIGRATIONS[step](db)
        with db:
            db.execute(META, ("format", str(step + 1)))
