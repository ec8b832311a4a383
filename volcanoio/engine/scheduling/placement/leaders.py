"""The rows that are best for a shape, kept from one placement to the next of a cycle."""

from __future__ import annotations

from volcanoio.engine.scheduling.columns import Columns
from volcanoio.engine.scheduling.placement.answers import Answers
from volcanoio.engine.scheduling.placement.onerow import NOWHERE
from volcanoio.engine.scheduling.placement.ties import Best, TieKeys, in_turn

KEPT = 64
"""For how many shapes the best rows are kept."""


class Leaders:
    """Finds best rows, and keeps them at the answers (`Answers.best`)."""

    __slots__ = ("_columns", "_kept", "_keys")

    def __init__(self, columns: Columns, keys: TieKeys) -> None:
        self._columns = columns
        self._keys = keys
        self._kept: dict[int, Answers] = {}
        """The answers that know their best rows, by the shape's id; the one that was used last at the end."""

    def open(self) -> None:
        """A cycle begins: other rows are first among equals."""
        for answers in self._kept.values():
            answers.best = None
        self._kept.clear()

    def look(self, answers: Answers) -> Best | None:
        """The rows that are best now, if a task may go anywhere."""
        value = answers.value[: len(self._columns)]
        if not len(value):
            return None
        row = int(value.argmax())
        top = value.item(row)
        if top == NOWHERE:
            return None
        rows = (value == top).nonzero()[0]
        return Best(top, in_turn(rows, self._keys.of(answers.shape, rows)) if len(rows) > 1 else [row])

    def keep(self, answers: Answers, best: Best | None) -> None:
        """Keep the best rows for the next task of the shape."""
        answers.best = best
        kept, number = self._kept, answers.shape.id
        kept.pop(number, None)
        if best is not None:
            kept[number] = answers
            if len(kept) > KEPT:
                kept.pop(next(iter(kept))).best = None
