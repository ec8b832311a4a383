"""Rows as they become while alike tasks are placed: what a row scores after each, and one write for all at the end."""

from __future__ import annotations

from typing import Protocol

from volcanoio.engine.scheduling.columns import Columns
from volcanoio.engine.scheduling.loads import Load
from volcanoio.engine.scheduling.placement.answers import Answers


class Draft(Protocol):
    """Tasks of one shape on rows: `add` counts one more and gives what the row scores then."""

    def add(self, row: int) -> float:
        """One more task on a row."""
        ...

    def write(self) -> None:
        """Count in the columns what was added since the last time."""
        ...


def draft(columns: Columns, answers: Answers, load: Load) -> Draft:
    """The quickest draft that the answers allow."""
    return (ByRow if answers.by_row else Direct)(columns, answers, load)


class ByRow:
    """Where scalar scorers answer from a row's amounts."""

    __slots__ = ("_amounts", "_answers", "_columns", "_counts", "_idle", "_load", "_steps")

    def __init__(self, columns: Columns, answers: Answers, load: Load) -> None:
        self._columns = columns
        self._answers = answers
        self._load = load
        self._idle = load is Load.OCCUPIES
        self._steps = columns.steps(answers.shape, load)
        self._amounts: dict[int, list[int]] = {}
        self._counts: dict[int, int] = {}

    def add(self, row: int) -> float:
        """As `Draft`."""
        values = self._amounts.get(row)
        if values is None:
            values = self._amounts[row] = list(self._columns.amounts(row))
        for at, amount in self._steps:
            values[at] += amount
        self._counts[row] = self._counts.get(row, 0) + 1
        return self._answers.rescore(row, values, idle=self._idle)

    def write(self) -> None:
        """As `Draft`."""
        self._columns.apply_all(self._counts, self._answers.shape, self._load)
        self._counts.clear()


class Direct:
    """Where plugins read the columns: each task is counted there at once."""

    __slots__ = ("_answers", "_columns", "_load")

    def __init__(self, columns: Columns, answers: Answers, load: Load) -> None:
        self._columns = columns
        self._answers = answers
        self._load = load

    def add(self, row: int) -> float:
        """As `Draft`."""
        self._columns.apply(row, self._answers.shape, self._load, 1)
        return self._answers.rescore(row, self._columns.amounts(row), idle=self._load is Load.OCCUPIES)

    def write(self) -> None:
        """As `Draft`: nothing is left to do."""
