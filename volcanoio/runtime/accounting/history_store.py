"""`HistoryStore`: the SQLite file with finished jobs. All calls block; the controllers make them on a thread.

Readers change nothing. The journal mode is WAL where the file system allows it, so that a killed writer loses at most
its last uncommitted batch and readers never wait. `PRAGMA user_version` is the version of the schema.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from volcanoio.engine.accounting.finished_jobs import FinishedJob, OpenAccount, Place

_MIGRATIONS: Final = (
    """
    CREATE TABLE finished (
        uid TEXT PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL, queue TEXT NOT NULL,
        created REAL NOT NULL, started REAL, finished REAL NOT NULL, phase TEXT NOT NULL, account BLOB NOT NULL,
        places BLOB
    );
    CREATE INDEX finished_at ON finished (finished);
    CREATE TABLE open (uid TEXT PRIMARY KEY, account BLOB NOT NULL, changed REAL NOT NULL) WITHOUT ROWID;
    """,
)
"""Statements from each version of the schema to the next; `account` is a FinishedJob or OpenAccount as JSON,
`places` are those of its pods, compressed."""
VERSION: Final = len(_MIGRATIONS)
_BUSY_SECONDS: Final = 5.0
_CORRUPT = ("malformed", "not a database", "file is encrypted")


class HistoryError(Exception):
    """The file cannot be used; the message is one line: the file, the reason and the next step."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of the file: at most so many rows, and none older than so many seconds."""

    rows: int = 200_000
    age: float = 90 * 86_400.0


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which jobs to read: finished from `since` on and before `until` (epoch seconds); "" and None select all.

    `most` are the newest that are read.
    """

    since: float | None = None
    until: float | None = None
    namespace: str = ""
    owner: str = ""
    queue: str = ""
    name: str = ""
    most: int | None = None

    def where(self) -> tuple[str, list[Any]]:
        """Return the condition in SQL and its parameters."""
        wanted: list[tuple[str, Any]] = [
            ("finished >= ?", self.since), ("finished < ?", self.until), ("namespace = ?", self.namespace or None),
            ("owner = ?", self.owner or None), ("queue = ?", self.queue or None), ("name = ?", self.name or None),
        ]  # fmt: skip
        given = [(term, value) for term, value in wanted if value is not None]
        return " AND ".join(term for term, _ in given) or "1", [value for _, value in given]


class HistoryStore:
    """The open file, for writing. Raises HistoryError for a newer schema and sqlite3.Error for all else."""

    def __init__(self, path: Path, limits: Limits = Limits()) -> None:
        self._limits = limits
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))  # it contains the names of users
        self._database = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            version = _check_version(self._database, path)
            self._database.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before the first table
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            _migrate(self._database, version)
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def accounts(self) -> dict[str, OpenAccount]:
        """Return the accounts of jobs that had not finished, by uid."""
        found = self._database.execute("SELECT uid, account FROM open")
        return {uid: msgspec.json.decode(account, type=OpenAccount) for uid, account in found}

    def write(
        self, finished: Iterable[FinishedJob], accounts: Mapping[str, OpenAccount], closed: Iterable[str], now: float
    ) -> None:
        """Write a batch as one transaction, then remove what is beyond the limits.

        A job that is in the file already is replaced if it has finished again, later; `closed` are uids without an
        account from now on.
        """
        with _transaction(self._database) as database:
            database.executemany(
                "INSERT INTO finished VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (uid) DO UPDATE SET "
                "started = excluded.started, finished = excluded.finished, phase = excluded.phase, "
                "account = excluded.account, places = excluded.places WHERE excluded.finished > finished.finished",
                map(_row, finished),
            )
            database.executemany(
                "INSERT INTO open VALUES (?, ?, ?) ON CONFLICT (uid) DO UPDATE SET account = excluded.account, "
                "changed = excluded.changed",
                ((uid, msgspec.json.encode(each), now) for uid, each in accounts.items()),
            )
            database.executemany("DELETE FROM open WHERE uid = ?", ((uid,) for uid in closed))
            self._prune(now)
        self._database.execute("PRAGMA incremental_vacuum(1000)").fetchall()

    def _prune(self, now: float) -> None:
        """Remove what is too old, and the oldest rows beyond the maximum."""
        oldest = now - self._limits.age
        self._database.execute("DELETE FROM finished WHERE finished < ?", (oldest,))
        self._database.execute("DELETE FROM open WHERE changed < ?", (oldest,))
        surplus = self.count() - self._limits.rows
        if surplus > 0:
            self._database.execute(
                "DELETE FROM finished WHERE uid IN (SELECT uid FROM finished ORDER BY finished LIMIT ?)", (surplus,)
            )

    def count(self) -> int:
        """Return the number of finished jobs."""
        return int(self._database.execute("SELECT count(*) FROM finished").fetchone()[0])


def read_history(path: Path, selection: Selection = Selection(), *, with_places: bool = False) -> list[FinishedJob]:
    """Return jobs of a file, by time of their end; the file is not changed. Raises HistoryError."""
    if not os.path.isfile(path):  # noqa: PTH113 - False where is_file raises
        raise HistoryError(f"{path}: there is no such file; name that of --history-file of the controllers")
    condition, parameters = selection.where()
    newest = "" if selection.most is None else f" LIMIT {selection.most:d}"
    columns = "account, places" if with_places else "account, NULL"
    query = f"SELECT {columns} FROM finished WHERE {condition} ORDER BY finished DESC, uid DESC{newest}"
    try:
        uri = f"file:{quote(str(path.absolute()))}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)) as database:
            _check_version(database, path)
            found = [_job(*row) for row in database.execute(query, parameters)]
    except (sqlite3.Error, msgspec.MsgspecError, zlib.error) as error:
        raise HistoryError(f"{path}: {error}; give a history file that the controllers of volcanoio wrote") from None
    return found[::-1]


def is_corrupt(error: Exception) -> bool:
    """Return whether an error means that the file is no usable database, or has a bad row: waiting does not help."""
    if isinstance(error, sqlite3.DatabaseError):
        return any(text in str(error) for text in _CORRUPT)
    return isinstance(error, msgspec.DecodeError)


def set_aside(path: Path) -> Path:
    """Rename a file that cannot be used, with its journal, and return the new name; an older one is replaced."""
    aside = path.with_name(path.name + ".corrupt")
    path.replace(aside)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return aside


def _row(job: FinishedJob) -> Sequence[Any]:
    identity = (job.uid, job.namespace, job.name, job.owner, job.queue)
    places = zlib.compress(msgspec.msgpack.encode(job.places)) if job.places else None
    account = msgspec.json.encode(msgspec.structs.replace(job, places=()))
    return (*identity, job.created, job.started, job.finished, job.phase, account, places)


def _job(account: bytes, places: bytes | None) -> FinishedJob:
    job = msgspec.json.decode(account, type=FinishedJob)
    if places is None:
        return job
    return msgspec.structs.replace(job, places=msgspec.msgpack.decode(zlib.decompress(places), type=tuple[Place, ...]))


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield database
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _check_version(database: sqlite3.Connection, path: Path) -> int:
    """Return the version of the schema. Raises HistoryError for one of a newer volcanoio."""
    version = int(database.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise HistoryError(
            f"{path}: its schema has version {version} and this volcanoio reads up to {VERSION}; "
            "use the volcanoio that wrote it, or another file"
        )
    return version


def _migrate(database: sqlite3.Connection, version: int) -> None:
    for following, statements in enumerate(_MIGRATIONS[version:], version + 1):
        with _transaction(database):
            for statement in filter(str.strip, statements.split(";")):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {following:d}")
