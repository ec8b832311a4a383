"""Who is told of each task that is placed or evicted: plugins that must know its node, by its shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from volcanoio.framework.scheduling.views import Shape, Task

Tell: TypeAlias = Callable[[Task], object]
KEPT = 100_000
"""For how many shapes it is kept who is told."""


class Telling:
    """Plugins that are told of tasks; of those that say so (`points.TaskAccounting`) only the shapes they ask for."""

    __slots__ = ("_by_shape", "_told")

    def __init__(self, told: Sequence[tuple[Callable[[Shape], bool] | None, Tell]]) -> None:
        """Each with what says whether it is told of tasks of a shape, None where it is told of all."""
        self._told = told
        self._by_shape: dict[int, Sequence[Tell]] = {}

    def of(self, shape: Shape) -> Sequence[Tell]:
        """Who is told of tasks of a shape."""
        known = self._by_shape.get(shape.id)
        if known is None:
            if len(self._by_shape) >= KEPT:
                self._by_shape.clear()
            known = tuple([tell for concerns, tell in self._told if concerns is None or concerns(shape)])
            self._by_shape[shape.id] = known
        return known
