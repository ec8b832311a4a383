"""Nodes as columns, and one of them, as plugins see them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcanoio.model.core import Node

AmountName: TypeAlias = Literal["allocatable", "used", "idle", "future_idle", "nonzero_used"]
"""The amounts of nodes by the names of their methods."""


class Nodes(Protocol):
    """Nodes as columns. Arrays are int64 of one length, in row order; never write to them.

    They have what was placed until they are asked for: ask again rather than keep them.
    """

    def __len__(self) -> int: ...

    @property
    def names(self) -> Sequence[str]:
        """Node names by row."""
        ...

    @property
    def objects(self) -> Sequence[Node]:
        """The Node objects by row."""
        ...

    def allocatable(self, resource: str) -> NDArray[np.int64]:
        """What the node offers; zeros for a resource it does not have."""
        ...

    def used(self, resource: str) -> NDArray[np.int64]:
        """What is taken: allocated, binding, bound, running and releasing tasks."""
        ...

    def idle(self, resource: str) -> NDArray[np.int64]:
        """Allocatable less used."""
        ...

    def future_idle(self, resource: str) -> NDArray[np.int64]:
        """Idle, plus what is being released, less what is pipelined."""
        ...

    def nonzero_used(self, resource: str) -> NDArray[np.int64]:
        """cpu or memory taken, counted by `Shape.nonzero_requests`."""
        ...

    def basics(self, what: AmountName) -> NDArray[np.float64]:
        """cpu (first) and memory in one array of two rows: what the method of that name says of each.

        As scorers compute with them: float64, which is exact below 2^53.
        """
        ...

    @property
    def have_room(self) -> bool:
        """Whether a task of the shape that is asked about is known to fit what is idle on every one of them."""
        ...

    def filled(self, cpu: int, memory: int) -> NDArray[np.float64]:
        """(used + so much more) / allocatable of cpu (first) and memory, where `all_have_basics`.

        Several scorers begin with that: it is worked out once for all that are asked about the same.
        """
        ...

    @property
    def all_have_basics(self) -> bool:
        """Whether every node offers some cpu and some memory."""
        ...


@lru_cache(maxsize=4096)
def pair(cpu: int, memory: int) -> NDArray[np.float64]:
    """Amounts of cpu and memory as they stand beside `Nodes.basics`, one for each of its rows; never write to it."""
    both = np.array([[cpu], [memory]], np.float64)
    both.flags.writeable = False
    return both


class AmountsAt(Protocol):
    """Where each amount of a node stands in the sequence of all of them; None of a resource that no node has."""

    def allocatable(self, resource: str) -> int | None:
        """Of `Nodes.allocatable`."""
        ...

    def used(self, resource: str) -> int | None:
        """Of `Nodes.used`."""
        ...

    def idle(self, resource: str) -> int | None:
        """Of `Nodes.idle`."""
        ...

    def future_idle(self, resource: str) -> int | None:
        """Of `Nodes.future_idle`."""
        ...

    def nonzero_used(self, resource: str) -> int | None:
        """Of `Nodes.nonzero_used`."""
        ...


class NodeRow(Protocol):
    """One node, for the scalar forms of extension points."""

    @property
    def row(self) -> int:
        """Its index in the columns."""
        ...

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def object(self) -> Node:
        """The Node."""
        ...

    def allocatable(self, resource: str) -> int:
        """As `Nodes.allocatable`, of this node."""
        ...

    def used(self, resource: str) -> int:
        """As `Nodes.used`, of this node."""
        ...

    def idle(self, resource: str) -> int:
        """As `Nodes.idle`, of this node."""
        ...

    def future_idle(self, resource: str) -> int:
        """As `Nodes.future_idle`, of this node."""
        ...

    def nonzero_used(self, resource: str) -> int:
        """As `Nodes.nonzero_used`, of this node."""
        ...
