"""Persistence of the store: SQLite in WAL mode, the latest version of each object.

One thread commits writes in groups; a write is acknowledged after its group is committed. Commits survive the end of
the process at any moment; they are not synced to disk each time (`synchronous=NORMAL`), so that a power cut may lose
the last writes but never consistency. A file of a newer format is refused. An older one is copied and migrated step by
step; the format is updated after each step, so that an interrupted migration resumes there.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from volcanoio.localcluster.apiserver.apimachinery.objects import Ref, Stored
from volcanoio.localcluster.apiserver.storage.datadir import DataDirectoryUnusable, DirectoryLock

FORMAT: Final = 2
"""Version of the file's layout.

1: the latest version of each object. 2: the same, and pages freed by deletions are given back to the file system.
"""

RESTART_GAP: Final = 10_000
"""Versions skipped at a start, so that versions of uncommitted writes are never used again."""

_CHECKPOINT_PAGES: Final = 8000
"""Pages of 4 KiB in the write-ahead log before it is folded into the file; SQLite's 1,000 cost a quarter more time."""

_FREE_PAGES: Final = 2000
"""Free pages that are kept for new objects."""

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
    """Migrate format 1 to 2: changing the vacuum mode rewrites the whole file."""
    db.execute(_GIVE_BACK)
    db.execute("VACUUM")


_MIGRATIONS: Final[dict[int, Callable[[sqlite3.Connection], None]]] = {1: _let_the_file_shrink}
"""Migrations from each older format to the next."""


def open_file(path: Path) -> tuple[sqlite3.Connection, int]:
    """Open the file.

    Returns the connection and the first unused version. Raises DataDirectoryUnusable.
    """
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
    """Return free pages to the file system when there are many."""
    free = db.execute("PRAGMA freelist_count").fetchone()[0]
    if free > 2 * _FREE_PAGES:
        db.executescript(f"PRAGMA incremental_vacuum({free - _FREE_PAGES})")  # execute would free one page only


def backup_of(path: Path, version: int) -> Path:
    """Return the path of the copy of a file of an older format."""
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
    """Return the format of the file, None for a new one."""
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


_PUT = """
INSERT INTO object VALUES (?, ?, ?, ?, ?)
ON CONFLICT (resource, namespace, name) DO UPDATE SET revision = excluded.revision, body = excluded.body
"""
_DELETE = "DELETE FROM object WHERE resource = ? AND namespace = ? AND name = ?"

_Change = tuple[Ref, int, bytes | None]


class StorageFailed(Exception):  # noqa: N818 - named for what happened
    """A commit failed; the server accepts no more writes until it is restarted."""


class Journal:
    """Writer of the store's changes to disk.

    `durable` waits until all changes so far are committed.
    """

    def __init__(self, directory: Path) -> None:
        """Lock the directory and open the file; raises DataDirectoryBusy and DataDirectoryUnusable."""
        self._lock = DirectoryLock(directory)
        self.path = directory / "store.db"
        try:
            self._db, self.revision = open_file(self.path)
        except BaseException:
            self._lock.release()
            raise
        self._changes: list[_Change] = []
        self._next: asyncio.Future[None] | None = None
        self._writing: asyncio.Future[None] | None = None
        self._failure: StorageFailed | None = None
        self._batches: queue.SimpleQueue[tuple[list[_Change], asyncio.AbstractEventLoop] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="apiserver-journal", daemon=True)
        self._thread.start()

    def objects(self) -> Iterator[tuple[Ref, Stored]]:
        """Yield all stored objects."""
        rows = self._db.execute("SELECT resource, namespace, name, revision, body FROM object ORDER BY revision")
        for resource, namespace, name, revision, body in rows:
            yield Ref(resource, namespace, name), Stored.read(namespace, name, revision, body)

    def append(self, ref: Ref, revision: int, data: bytes | None) -> None:
        """Queue a change; None for data deletes. Called on the event loop. Raises StorageFailed."""
        self.check()
        self._changes.append((ref, revision, data))
        if self._next is None:
            loop = asyncio.get_running_loop()
            self._next = loop.create_future()
            if self._writing is None:
                loop.call_soon(self._flush)

    def check(self) -> None:
        """Raise StorageFailed when an earlier commit failed."""
        if self._failure is not None:
            raise self._failure

    async def durable(self) -> None:
        """Wait until every queued change is committed; raises StorageFailed."""
        waiting = self._next or self._writing
        if waiting is not None:
            await asyncio.shield(waiting)
        self.check()

    def _flush(self) -> None:
        if self._writing is None and self._next is not None:
            self._writing, self._next = self._next, None
            changes, self._changes = self._changes, []
            self._batches.put((changes, asyncio.get_running_loop()))

    def _done(self, failure: StorageFailed | None) -> None:
        self._failure = self._failure or failure
        done, self._writing = self._writing, None
        if done is not None and not done.done():
            done.set_result(None)
        self._flush()

    def _write(self) -> None:
        """Run the writer thread."""
        while (batch := self._batches.get()) is not None:
            changes, loop = batch
            failure = None
            try:
                self._commit(changes)
            except sqlite3.Error as error:
                failure = StorageFailed(
                    f"{self.path} cannot be written: {error}; free space or repair the disk, then restart the server"
                )
            try:
                loop.call_soon_threadsafe(self._done, failure)
            except RuntimeError:  # the loop was closed: there are no waiters left
                return

    def _commit(self, changes: list[_Change]) -> None:
        last: dict[Ref, tuple[int, bytes | None]] = {ref: (revision, data) for ref, revision, data in changes}
        puts = [(*ref, revision, data) for ref, (revision, data) in last.items() if data is not None]
        deletes = [ref for ref, (_, data) in last.items() if data is None]
        with self._db:
            self._db.executemany(_PUT, puts)
            self._db.executemany(_DELETE, deletes)
            self._db.execute(META, ("revision", str(changes[-1][1])))
        if deletes:
            compact(self._db)

    async def aclose(self) -> None:
        """Commit the remaining changes, stop the thread and release the directory."""
        while self._next is not None or self._writing is not None:
            self._flush()
            waiting = self._writing or self._next
            if waiting is not None:
                await asyncio.shield(waiting)
        self.close()

    def close(self) -> None:
        """Stop without waiting for uncommitted changes; may be called twice."""
        if not self._thread.is_alive():
            return
        self._batches.put(None)
        self._thread.join()
        self._db.close()
        self._lock.release()
