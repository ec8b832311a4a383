"""The undo log of a statement, and plugin tables that are covered by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from volcanoio.engine.scheduling.holds import Hold, Holds
from volcanoio.engine.scheduling.ledger import Ledger
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.framework.scheduling.views import TaskStatus


class Evicted(NamedTuple):
    """A task made Releasing: its status before, the reason, and whether its job was not marked as changed before."""

    task: TaskInfo
    before: TaskStatus
    reason: str
    clean: bool


class Mark(NamedTuple):
    """A savepoint: how long the log was, list by list."""

    seated: int
    evicted: int
    tables: int


class UndoLog:
    """What a statement changed, and how it was before.

    Amounts are exact integers, so taking a change back restores them bit by bit, in whatever order statements end.
    """

    __slots__ = ("evicted", "lifted", "seated", "tables")

    def __init__(self) -> None:
        self.seated: list[TaskInfo] = []
        """Tasks that were Pending."""
        self.evicted: list[Evicted] = []
        self.tables: list[tuple[PluginTable, str, int | None]] = []
        """Values of plugin tables before they were set; None when there was none."""
        self.lifted: list[tuple[str, list[Hold]]] = []
        """Holds freed for the job."""

    def mark(self) -> Mark:
        """The savepoint of now."""
        return Mark(len(self.seated), len(self.evicted), len(self.tables))

    def rollback_to(self, mark: Mark, ledger: Ledger) -> None:
        """Put back what was changed since a savepoint; holds stay lifted."""
        if len(self.seated) > mark.seated:
            ledger.unseat_all(self.seated[mark.seated :][::-1])
        for task, status, _, clean in reversed(self.evicted[mark.evicted :]):
            ledger.unseat(task, status, task.node)
            if clean:
                ledger.dirty.pop(task.job, None)
        for table, key, old in reversed(self.tables[mark.tables :]):
            table.restore(key, old)
        del self.seated[mark.seated :], self.evicted[mark.evicted :], self.tables[mark.tables :]

    def rollback(self, ledger: Ledger, holds: Holds) -> None:
        """Put everything back as it was."""
        self.rollback_to(Mark(0, 0, 0), ledger)
        for job, lifted in reversed(self.lifted):
            for hold in lifted:
                holds.add(job, hold)
        self.clear()

    def clear(self) -> None:
        """Forget what was changed: it stays."""
        self.seated.clear()
        self.evicted.clear()
        self.tables.clear()
        self.lifted.clear()


class Tables:
    """All plugin tables of a session; writes go to the log of the statement that is at work."""

    def __init__(self) -> None:
        self.log: UndoLog | None = None
        self.turn = UndoLog()
        """For turns that need no statement: one is over before the next begins."""
        self._all: dict[tuple[str, str], PluginTable] = {}

    def get(self, owner: str, name: str) -> PluginTable:
        """The table of that owner and name, made empty when it is new."""
        table = self._all.get((owner, name))
        if table is None:
            table = self._all[owner, name] = PluginTable(self)
        return table

    def part(self) -> None:
        """The session is over: who has a table keeps it, and all others are freed at once."""
        self._all.clear()


class PluginTable:
    """A keyed table of integers. Implements `sessionview.Table`."""

    __slots__ = ("_tables", "values", "version")

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.values: dict[str, int] = {}
        """As `sessionview.Table`."""
        self.version = 0
        """As `sessionview.Table`."""

    def get(self, key: str) -> int:
        """As `sessionview.Table`."""
        return self.values.get(key, 0)

    def set(self, key: str, value: int) -> None:
        """As `sessionview.Table`."""
        log = self._tables.log
        if log is not None:
            log.tables.append((self, key, self.values.get(key)))
        self.values[key] = value
        self.version += 1

    def restore(self, key: str, old: int | None) -> None:
        """Undo a write: put the value back that was there, None where there was none."""
        if old is None:
            self.values.pop(key, None)
        else:
            self.values[key] = old
        self.version += 1

    def add(self, key: str, amount: int) -> None:
        """As `sessionview.Table`."""
        old = self.values.get(key)
        log = self._tables.log
        if log is not None:
            log.tables.append((self, key, old))
        self.values[key] = amount if old is None else old + amount
        self.version += 1

    def add_all(self, amounts: Mapping[str, int], times: int) -> None:
        """As `sessionview.Table`."""
        values, log = self.values, self._tables.log
        get, tables = values.get, None if log is None else log.tables
        for key, amount in amounts.items():
            old = get(key)
            if tables is not None:
                tables.append((self, key, old))
            values[key] = times * amount if old is None else old + times * amount
        self.version += 1
