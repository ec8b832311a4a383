"""The read-only session that plugins get, and the tables whose changes a discarded statement undoes.

`SessionView.ask` sends questions to external services and returns the answers that have arrived. If one is missing, it
ends the cycle at that point by raising `Unanswered` (committed statements stay, all others are undone); the next cycle
opens as soon as the answers have arrived or timed out, and can use them until it ends. Without a runtime (`volcanoio
simulate`) the answer is the question's `default`; a replay uses the recorded ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from volcanoio.framework.scheduling.hypernodes import HyperNodes
from volcanoio.framework.scheduling.podterms import PodCounts
from volcanoio.framework.scheduling.views import (
    Amounts,
    DeviceClaimsView,
    Job,
    Nodes,
    QueueView,
    SubJob,
    Task,
    VolumesView,
)
from volcanoio.framework.scheduling_effects import PreBindStep, Question
from volcanoio.model.base import ApiObject


class Answer(msgspec.Struct, frozen=True):
    """The JSON of a response, or why there is none."""

    value: Any = None
    fault: str = ""


class Unanswered(BaseException):
    """Raised by `ask` when answers are missing; plugins must not catch it."""

    def __init__(self, questions: Sequence[Question]) -> None:
        super().__init__(f"{len(questions)} questions wait for their answers")
        self.questions = tuple(questions)


Text: TypeAlias = str | Callable[[], str]
"""A text, or a function that returns it: called only if the text is written, which rarely changes."""


class SessionView(Protocol):
    """The part of a session that plugins read."""

    @property
    def cycle(self) -> int:
        """The number of this cycle."""
        ...

    @property
    def now(self) -> float:
        """The time of this cycle (epoch seconds)."""
        ...

    @property
    def nodes(self) -> Nodes:
        """The nodes."""
        ...

    def tasks_on(self, node: str) -> Collection[Task]:
        """Return the tasks that count on a node, also terminating ones and those of other schedulers."""
        ...

    @property
    def nodes_version(self) -> int:
        """A number that grows with every change of a node or of the tasks that count on it."""
        ...

    def changed_rows(self, version: int) -> Iterable[int]:
        """Return the rows of `nodes` that changed after a `nodes_version`, possibly repeated; all rows for -1."""
        ...

    @property
    def pods(self) -> PodCounts:
        """Pod counts per node, by selector and by carried terms."""
        ...

    @property
    def total(self) -> Amounts:
        """The sum of allocatable over the nodes."""
        ...

    @property
    def used(self) -> Amounts:
        """The sum of used over the nodes."""
        ...

    @property
    def jobs(self) -> Mapping[str, Job]:
        """Jobs by key."""
        ...

    @property
    def queues(self) -> Mapping[str, QueueView]:
        """Queues by name, also those without jobs."""
        ...

    @property
    def jobs_to_review(self) -> Collection[Job]:
        """The next few jobs that changed since the last cycle or are due for a review, for a plugin's `close`."""
        ...

    def changed_jobs(self, owner: object, limit: int | None = None) -> Collection[Job]:
        """Return the jobs added, changed or removed since this owner's last call; all jobs at its first call.

        For sums over jobs that a plugin keeps across sessions. Removed jobs are not in `jobs`; some of the jobs may be
        unchanged. `limit` bounds the result; the next call returns the rest. After very many changes all are returned.
        """
        ...

    @property
    def evicting(self) -> Sequence[Task]:
        """Tasks whose eviction was decided but whose pods do not show a deletion timestamp yet."""
        ...

    def jobs_in(self, phase: str) -> Iterable[Job]:
        """Return the jobs of one PodGroup phase by key; sorts again after jobs were added or removed."""
        ...

    def has_jobs_in(self, phase: str) -> bool:
        """Return whether any job is in that PodGroup phase; O(1)."""
        ...

    def objects(self, resource: str) -> Mapping[str, ApiObject]:
        """Return a live, read-only view of the objects of a further kind by key (`namespace/name`, or the name alone).

        `resource` is a `Kind.resource` of `volcanoio.model.kinds` that a plugin lists in its `watches`; raises
        LookupError if none does.
        """
        ...

    def version(self, resource: str) -> int:
        """Return a number that differs after every change of these objects; a key for cached results."""
        ...

    def facts(self, source: str) -> Mapping[str, Any]:
        """Return the latest facts of a source by key; `version` accepts its name too."""
        ...

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """Return the answers to questions in their order; ask many at once where possible.

        Not allowed while the session opens. A filter or scorer that asks depends on `Depends.NOW`, and asks for all
        rows in its first call about a shape. The module docstring describes what happens while an answer is missing.
        """
        ...

    def notify(self, notice: Question) -> None:
        """Send a notice without waiting for a response, together with the decisions made so far."""
        ...

    def changed_since(self, resource: str, version: int) -> Sequence[str] | None:
        """Return the keys of objects added, changed or removed after a version; None if it is too old to know."""
        ...

    @property
    def hyper_nodes(self) -> HyperNodes:
        """The tree of HyperNodes; only its root unless some plugin `watches` HyperNodes."""
        ...

    def highest_tier(self, gang: Job | SubJob) -> int | None:
        """Return the highest tier across which the tasks of a job or sub-job may be spread.

        A soft network topology allows every tier, or every one that a hard topology of its job allows. None without a
        network topology, and for a hard one whose tier name no HyperNode has.
        """
        ...

    def placed_in(self, gang: Job | SubJob) -> str:
        """Return the lowest HyperNode that contains the placed tasks of a job or sub-job, "" if there are none.

        It is as of the start of the last attempt: the tasks that the attempt has placed so far do not count.
        """
        ...

    @property
    def volumes(self) -> VolumesView:
        """The volume claims of tasks, and where they are used."""
        ...

    @property
    def device_claims(self) -> DeviceClaimsView:
        """The device claims of tasks."""
        ...

    @property
    def prebinding(self) -> Mapping[str, Sequence[PreBindStep]]:
        """Pre-bind steps of binds that are in flight, by pod uid."""
        ...

    def table(self, owner: str, name: str) -> Table:
        """Return a table of plugin state: empty at open, undone with discarded statements."""
        ...

    def set_condition(self, job: str, condition: str, reason: str, message: Text) -> None:
        """Set a condition of that type with status True on the job's PodGroup when the session closes.

        A callable message is evaluated right after all plugins have closed, while the session is unchanged.
        """
        ...

    def fit_error(self, job: str) -> str:
        """Return Volcano's FitError text of a job: counts by status, minAvailable and why its tasks found no node."""
        ...


class Table(Protocol):
    """A table of integers by key whose writes are undone when a statement is discarded."""

    @property
    def version(self) -> int:
        """A number that differs after every write and undo; a cache key for what is derived from the values."""
        ...

    @property
    def values(self) -> Mapping[str, int]:
        """A live view of all values that were set; always the same mapping object."""
        ...

    def get(self, key: str) -> int:
        """Return the value, 0 if it was never set."""
        ...

    def set(self, key: str, value: int) -> None:
        """Set a value."""
        ...

    def add(self, key: str, amount: int) -> None:
        """Add to a value."""
        ...

    def add_all(self, amounts: Mapping[str, int], times: int) -> None:
        """Add each amount, multiplied by `times`, to the value of its key."""
        ...
