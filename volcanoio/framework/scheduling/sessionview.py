"""The session as plugins see it, and the tables in which they keep what a discard is to undo."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from volcanoio.framework.scheduling.asks import Answer
from volcanoio.framework.scheduling.podterms import PodCounts
from volcanoio.framework.scheduling.views import Amounts, Job, Nodes, QueueView, Task
from volcanoio.framework.scheduling.volumes import VolumesView
from volcanoio.framework.scheduling_effects import PreBindStep, Question
from volcanoio.model.base import ApiObject

Text: TypeAlias = str | Callable[[], str]
"""A text, or what makes it when it is written: most are not, as they were said a moment ago."""


class SessionView(Protocol):
    """What a plugin sees of the session it is opened in."""

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

    @property
    def pods(self) -> PodCounts:
        """How many pods of which kind are on which node: by what selects them, and by what they carry."""
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
    def touched(self) -> Collection[Job]:
        """Jobs that changed since the last cycle or are due for another look: what a plugin looks at in `close`."""
        ...

    def changes(self, owner: object, most: int | None = None) -> Collection[Job]:
        """Jobs that changed, came or went since this owner last asked; the first time, and after very many, all.

        For sums over jobs that are kept from session to session. Those that went are not in `jobs`; some may be as they
        were. With `most` only so many; the others are told of when it asks again.
        """
        ...

    @property
    def evicting(self) -> Sequence[Task]:
        """Tasks whose eviction was decided, now or before, and whose pods do not show that yet."""
        ...

    def jobs_in(self, phase: str) -> Iterable[Job]:
        """Jobs of one PodGroup phase, sorted by key: that takes a while where they are many and some came or went."""
        ...

    def any_in(self, phase: str) -> bool:
        """Whether any job is in that PodGroup phase: known at once, however many there are."""
        ...

    def objects(self, resource: str) -> Mapping[str, ApiObject]:
        """The objects of a further kind by key (`namespace/name`, or the name alone); a live, read-only view.

        `resource` is a `Kind.resource` of `volcanoio.model.kinds` that a plugin names in its `watches`; raises
        LookupError where none does.
        """
        ...

    def version(self, resource: str) -> int:
        """Another number after every change of these objects: what follows from them holds while it is the same."""
        ...

    def facts(self, source: str) -> Mapping[str, Any]:
        """What a source has said, by key; `version` takes its name too."""
        ...

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """The answers to these questions, in their order; ask for many at once where you can.

        Not while the session opens. A filter or scorer that asks depends on `Depends.NOW`, and asks for all rows in its
        first call about a shape. See `asks` for what happens while an answer is missing.
        """
        ...

    def tell(self, notice: Question) -> None:
        """Post something and wait for nothing: it is sent with the decisions made by then."""
        ...

    def since(self, resource: str, version: int) -> Sequence[str] | None:
        """The keys of objects that came, changed or went after a version; None when it is too old: look at all."""
        ...

    @property
    def volumes(self) -> VolumesView:
        """The volume claims of tasks, and where they are used."""
        ...

    @property
    def prebinding(self) -> Mapping[str, Sequence[PreBindStep]]:
        """What is being done before binds that are under way, by the pod's uid."""
        ...

    def table(self, owner: str, name: str) -> Table:
        """Mutable state of a plugin, emptied at open and covered by the session's undo log."""
        ...

    def set_condition(self, job: str, condition: str, reason: str, message: Text) -> None:
        """Put a condition of that type, status True, on the job's PodGroup when the session closes.

        A message that is called is so at once after all plugins have closed: the session is as they saw it.
        """
        ...

    def fit_error(self, job: str) -> str:
        """Volcano's FitError text of a job: counts by status, minAvailable and why its tasks found no node."""
        ...


class Table(Protocol):
    """A keyed table of integers; writes are undone when a statement is discarded."""

    @property
    def version(self) -> int:
        """Another number after every write and undoing: what follows from the values holds while it is the same."""
        ...

    @property
    def values(self) -> Mapping[str, int]:
        """All values that were set, as they are now: the same mapping for good."""
        ...

    def get(self, key: str) -> int:
        """The value, 0 when never set."""
        ...

    def set(self, key: str, value: int) -> None:
        """Set a value."""
        ...

    def add(self, key: str, amount: int) -> None:
        """Add to a value."""
        ...

    def add_all(self, amounts: Mapping[str, int], times: int) -> None:
        """Add amounts so many times, each to the value of its key."""
        ...
