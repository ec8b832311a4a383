"""Reservations: room kept for a job, which counts as used for all others.

A gang whose bind was refused keeps the freed room, and a preemptor the room that its victims free (`nominations`).
"""

from collections.abc import Sequence
from typing import NamedTuple

from volcanoio.engine.scheduling.cluster.loads import Load
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.framework.scheduling.views import Shape


class Reservation(NamedTuple):
    """Room for one task of a shape on a node; load RESERVES is for room that is still being released."""

    node: str
    shape: Shape
    load: Load = Load.OCCUPIES


class Reservations:
    """Reservations of all jobs; each counts as used on its node until released."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self.by_job: dict[str, list[Reservation]] = {}

    def add(self, job: str, reservation: Reservation) -> None:
        """Reserve room for a job; ignored for an unknown node."""
        if (row := self._columns.rows.get(reservation.node)) is not None:
            self._columns.apply(row, reservation.shape, reservation.load, 1)
            self.by_job.setdefault(job, []).append(reservation)

    def add_all(self, reservations: Sequence[tuple[str, Reservation]]) -> None:
        """Add several reservations, each with its job."""
        rows = self._columns.rows
        counts_by_shape: dict[tuple[int, Load], tuple[Shape, dict[int, int]]] = {}
        for job, reservation in reservations:
            if (row := rows.get(reservation.node)) is not None:
                _, counts = counts_by_shape.setdefault(
                    (reservation.shape.base_id, reservation.load), (reservation.shape, {})
                )
                counts[row] = counts.get(row, 0) + 1
                self.by_job.setdefault(job, []).append(reservation)
        for (_, load), (shape, counts) in counts_by_shape.items():
            self._columns.apply_all(counts, shape, load)

    def release(self, job: str) -> list[Reservation]:
        """Release all reservations of a job and return them."""
        released = self.by_job.pop(job, [])
        for reservation in released:
            self._columns.apply(self._columns.rows[reservation.node], reservation.shape, reservation.load, -1)
            if reservation.load is Load.OCCUPIES:
                self._columns.mark_freed(self._columns.rows[reservation.node])
        return released

    def release_future(self, job: str) -> None:
        """Release the reservations of a job for room that is still being released."""
        for reservation in self.release(job):
            if reservation.load is Load.OCCUPIES:
                self.add(job, reservation)

    def reserve_again(self, job: str, released: list[Reservation], count: int) -> None:
        """Add up to `count` of these reservations again where there is still room."""
        for reservation in released:
            row = self._columns.rows.get(reservation.node)
            if count and row is not None and self._fits(row, reservation.shape):
                self.add(job, reservation)
                count -= 1

    def forget_node(self, node: str) -> None:
        """Drop the reservations on a node, before its row is removed."""
        for job in list(self.by_job):
            if remaining := [reservation for reservation in self.by_job[job] if reservation.node != node]:
                self.by_job[job] = remaining
            else:
                del self.by_job[job]

    def _fits(self, row: int, shape: Shape) -> bool:
        columns = self._columns
        return all(
            min(columns.idle(name).item(row), columns.future_idle(name).item(row)) >= amount
            for name, amount in shape.requests.items()
        )
