"""The store on disk: SQLite in WAL mode, the latest version of each object, committed in groups by one thread.

A write is acknowledged after its group is committed. Commits survive the death of the process at any moment; they are
not forced to the platter each time (`synchronous=NORMAL`), so a power cut may lose the last moments, never consistency.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from volcanoio.localcluster.apiserver.datadir import DirectoryLock
from volcanoio.localcluster.apiserver.objects import Ref, Stored
from volcanoio.localcluster.apiserver.storefile import META, compact, open_file

_PUT = """
INSERT INTO object VALUES (?, ?, ?, ?, ?)
ON CONFLICT (resource, namespace, name) DO UPDATE SET revision = excluded.revision, body = excluded.body
"""
_DELETE = "DELETE FROM object WHERE resource = ? AND namespace = ? AND name = ?"

_Change = tuple[Ref, int, bytes | None]


class StorageFailed(Exception):  # noqa: N818 - named for what happened
    """A commit failed; the server accepts no more writes until it is restarted."""


class Journal:
    """Writes changes behind the store's back; `durable` waits until all of them so far are committed."""

    def __init__(self, directory: Path) -> None:
        """Claim the directory and open the file; raises DataDirectoryBusy and DataDirectoryUnusable."""
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
        """Everything that is stored."""
        rows = self._db.execute("SELECT resource, namespace, name, revision, body FROM object ORDER BY revision")
        for resource, namespace, name, revision, body in rows:
            yield Ref(resource, namespace, name), Stored.read(namespace, name, revision, body)

    def append(self, ref: Ref, revision: int, data: bytes | None) -> None:
        """Note a change; None for data deletes. Called on the event loop. Raises StorageFailed."""
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
        """Wait until every change noted so far is committed; raises StorageFailed."""
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
        """The writer thread."""
        while (batch := self._batches.get()) is not None:
            changes, loop = batch
            failure = None
            try:
                self._commit(changes)
            except sqlite3.Error as error:
                failure = StorageFailed(
                    f"{self.path} cannot be written: {error}; free space or mend the disk, then restart the server"
                )
            try:
                loop.call_soon_threadsafe(self._done, failure)
            except RuntimeError:  # the loop was closed under us: nobody waits any more
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
        """Commit what is left, stop the thread and give the directory up."""
        while self._next is not None or self._writing is not None:
            self._flush()
            waiting = self._writing or self._next
            if waiting is not None:
                await asyncio.shield(waiting)
        self.close()

    def close(self) -> None:
        """Stop without waiting for what was not committed; harmless when done twice."""
        if not self._thread.is_alive():
            return
        self._batches.put(None)
        self._thread.join()
        self._db.close()
        self._lock.release()
