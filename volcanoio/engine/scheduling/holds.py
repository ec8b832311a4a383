"""Holds: room kept for a job, so that nobody else takes it meanwhile.

After a bind of a gang was refused, what was freed; and for a preemptor, what its victims are about to free (`claims`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from volcanoio.engine.scheduling.columns import Columns
from volcanoio.engine.scheduling.loads import Load
from volcanoio.framework.scheduling.views import Shape


class Hold(NamedTuple):
    """Room for one task of a shape on a node; RESERVES is of room that is still being released."""

    node: str
    shape: Shape
    load: Load = Load.OCCUPIES


class Holds:
    """The holds of all jobs; each counts as used on its node until it is lifted."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.by_job: dict[str, list[Hold]] = {}

    def add(self, job: str, hold: Hold) -> None:
        """Keep room; without effect when the node is not known."""
        row = self._columns.rows.get(hold.node)
        if row is not None:
            self._columns.apply(row, hold.shape, hold.load, 1)
            self.by_job.setdefault(job, []).append(hold)

    def add_all(self, holds: Sequence[tuple[str, Hold]]) -> None:
        """`add` several, each with its job."""
        rows = self._columns.rows
        alike: dict[tuple[int, Load], tuple[Shape, dict[int, int]]] = {}
        for job, hold in holds:
            row = rows.get(hold.node)
            if row is not None:
                _, counts = alike.setdefault((hold.shape.like, hold.load), (hold.shape, {}))
                counts[row] = counts.get(row, 0) + 1
                self.by_job.setdefault(job, []).append(hold)
        for (_, load), (shape, counts) in alike.items():
            self._columns.apply_all(counts, shape, load)

    def lift(self, job: str) -> list[Hold]:
        """Free all room kept for a job, and return what it was."""
        held = self.by_job.pop(job, [])
        for hold in held:
            self._columns.apply(self._columns.rows[hold.node], hold.shape, hold.load, -1)
            if hold.load is Load.OCCUPIES:
                self._columns.free(self._columns.rows[hold.node])
        return held

    def lift_reservations(self, job: str) -> None:
        """Free what is kept for a job of room that is being released; other holds stay."""
        for hold in self.lift(job):
            if hold.load is Load.OCCUPIES:
                self.add(job, hold)

    def refit(self, job: str, held: list[Hold], count: int) -> None:
        """Keep up to `count` of the holds again, where there still is room."""
        for hold in held:
            row = self._columns.rows.get(hold.node)
            if count and row is not None and self._fits(row, hold.shape):
                self.add(job, hold)
                count -= 1

    def forget_node(self, node: str) -> None:
        """The node goes, and all that counts on it; to be called before its row is dropped."""
        for job in list(self.by_job):
            left = [hold for hold in self.by_job[job] if hold.node != node]
            if left:
                self.by_job[job] = left
            else:
                del self.by_job[job]

    def _fits(self, row: int, shape: Shape) -> bool:
        columns = self._columns
        return all(
            min(columns.idle(name).item(row), columns.future_idle(name).item(row)) >= amount
            for name, amount in shape.requests.items()
        )
