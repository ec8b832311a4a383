"""Points that follow what is placed, and what a bind needs before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from volcanoio.framework.scheduling.views import Job, Shape, Task
from volcanoio.framework.scheduling_effects import PreBindStep


@runtime_checkable
class Accounting(Protocol):
    """Is told of every placement and release in the session; state belongs into `SessionView.table`."""

    def allocated(self, job: Job, shape: Shape, count: int) -> None:
        """`count` tasks of a shape were allocated or pipelined."""
        ...

    def released(self, job: Job, shape: Shape, count: int) -> None:
        """`count` tasks of a shape were evicted or taken back outside a discard (those are undone by the log)."""
        ...


@runtime_checkable
class Promising(Protocol):
    """Keeps room in queues for tasks whose gate of queue admission was opened and which have no node yet.

    It is told after it opened of all there are, and of each that comes or is placed later; state belongs into
    `SessionView.table`. `Allocatable.fits` is asked about such tasks while their own promises are taken back.
    """

    def promised(self, job: Job, shape: Shape, count: int) -> None:
        """`count` more tasks of a shape have room kept for them; fewer when negative."""
        ...


@runtime_checkable
class TaskAccounting(Protocol):
    """Is told of every task that is placed or evicted in the session; state belongs into `SessionView.table`.

    Dearer than `Accounting`: for plugins that must know the node. Where one answers `Depends.PODS` for a shape, it is
    told of each task of the shape before it is asked about the next one. One that has `concerned(shape) -> bool`, too,
    is asked once a shape, and is told of tasks of those shapes alone.
    """

    def task_placed(self, task: Task) -> None:
        """The task was allocated or pipelined: its status and node say so."""
        ...

    def task_evicted(self, task: Task) -> None:
        """The task is Releasing; not called for what a discard takes back (that is undone by the log)."""
        ...


@runtime_checkable
class PreBind(Protocol):
    """Names what must be done before a task's bind, such as binding its volume claims.

    The steps are data: they are journalled with the decision and carried out at the edge, for all tasks of a statement
    before its first bind is sent. When one fails, the statement's binds are refused and what was written is undone.
    """

    def prebinds(self, shape: Shape) -> bool:
        """Whether tasks of a shape may need anything; asked once a shape."""
        ...

    def prebind(self, task: Task) -> Sequence[PreBindStep]:
        """The steps for a task that is bound to its node now, in order."""
        ...
