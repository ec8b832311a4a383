"""Undo log of a statement, and plugin tables whose writes it covers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from volcanoio.engine.scheduling.cluster.jobs import TaskInfo
from volcanoio.engine.scheduling.cluster.nominations import Reservation, Reservations
from volcanoio.engine.scheduling.cluster.task_transitions import Ledger
from volcanoio.framework.scheduling.views import TaskStatus


class EvictedTask(NamedTuple):
    """Evicted task, its status before, the reason, and whether its job was not dirty before."""

    task: TaskInfo
    before: TaskStatus
    reason: str
    was_clean: bool


class Savepoint(NamedTuple):
    """Lengths of the lists of an undo log at some moment."""

    assumed: int
    evicted: int
    tables: int


class UndoLog:
    """Changes of a statement and the values before.

    Amounts are exact integers, so that undoing restores them bit by bit, in whatever order statements end.
    """

    __slots__ = ("assumed", "evicted", "released", "tables")

    def __init__(self) -> None:
        self.assumed: list[TaskInfo] = []
        """Assumed tasks, which were Pending."""
        self.evicted: list[EvictedTask] = []
        self.tables: list[tuple[PluginTable, str, int | None]] = []
        """Values of plugin tables before they were set, None for a new key."""
        self.released: list[tuple[str, list[Reservation]]] = []
        """Reservations released for the job."""

    def savepoint(self) -> Savepoint:
        """Return a savepoint of the current state."""
        return Savepoint(len(self.assumed), len(self.evicted), len(self.tables))

    def rollback_to(self, savepoint: Savepoint, ledger: Ledger) -> None:
        """Undo the changes since a savepoint; reservations stay released."""
        if len(self.assumed) > savepoint.assumed:
            ledger.forget(self.assumed[savepoint.assumed :][::-1])
        for task, status, _, clean in reversed(self.evicted[savepoint.evicted :]):
            ledger.revert(task, status, task.node)
            if clean:
                ledger.dirty.pop(task.job, None)
        for table, key, old in reversed(self.tables[savepoint.tables :]):
            table.restore(key, old)
        del self.assumed[savepoint.assumed :], self.evicted[savepoint.evicted :], self.tables[savepoint.tables :]

    def rollback(self, ledger: Ledger, reservations: Reservations) -> None:
        """Undo all changes."""
        self.rollback_to(Savepoint(0, 0, 0), ledger)
        for job, released in reversed(self.released):
            for reservation in released:
                reservations.add(job, reservation)
        self.clear()

    def clear(self) -> None:
        """Drop the log and keep the changes."""
        self.assumed.clear()
        self.evicted.clear()
        self.tables.clear()
        self.released.clear()


class PluginTables:
    """Plugin tables of a session; writes are recorded in the log of the active statement."""

    def __init__(self) -> None:
        self.log: UndoLog | None = None
        self.shared_log = UndoLog()
        """Log shared by jobs that are placed without a statement, one after the other."""
        self._all: dict[tuple[str, str], PluginTable] = {}

    def get(self, owner: str, name: str) -> PluginTable:
        """Return the table of that owner and name, created if missing."""
        if (table := self._all.get((owner, name))) is None:
            table = self._all[owner, name] = PluginTable(self)
        return table

    def close(self) -> None:
        """Drop all tables at the end of the session, except those that a plugin keeps."""
        self._all.clear()


class PluginTable:
    """Table of integers by key. Implements `sessionview.Table`."""

    __slots__ = ("_tables", "values", "version")

    def __init__(self, tables: PluginTables) -> None:
        self._tables = tables
        self.values: dict[str, int] = {}
        """Current values; the mapping object stays the same."""
        self.version = 0
        """Changes with every write and undo, so that derived results can be cached."""

    def get(self, key: str) -> int:
        """Return the value, 0 when never set."""
        return self.values.get(key, 0)

    def set(self, key: str, value: int) -> None:
        """Set a value."""
        if (log := self._tables.log) is not None:
            log.tables.append((self, key, self.values.get(key)))
        self.values[key] = value
        self.version += 1

    def restore(self, key: str, old: int | None) -> None:
        """Restore the value before a write, None for a new key."""
        if old is None:
            self.values.pop(key, None)
        else:
            self.values[key] = old
        self.version += 1

    def add(self, key: str, amount: int) -> None:
        """Add to a value."""
        old = self.values.get(key)
        if (log := self._tables.log) is not None:
            log.tables.append((self, key, old))
        self.values[key] = amount if old is None else old + amount
        self.version += 1

    def add_all(self, amounts: Mapping[str, int], times: int) -> None:
        """Add `times` * each amount to the value of its key."""
        values, log = self.values, self._tables.log
        get, tables = values.get, None if log is None else log.tables
        for key, amount in amounts.items():
            old = get(key)
            if tables is not None:
                tables.append((self, key, old))
            values[key] = times * amount if old is None else old + times * amount
        self.version += 1
