"""The points of a plugin as a whole: what it reads, and when a session opens and closes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.sources import Source

Checkpoints: TypeAlias = Iterator[None]
"""What an action's generator, or a plugin's while the session opens, yields: places where other work may run."""


class Plugin(Protocol):
    """Every plugin: a name and a constructor with arguments.

    One that reads objects of further kinds names them in an attribute, of the class or set by the constructor:
    `watches = ("persistentvolumeclaims", "storageclasses.storage.k8s.io")`, `Kind.resource` of `volcanoio.model.kinds`.
    They are listed before anything is decided, `SessionView.objects` has them, and answers that depend on
    `Depends.SOURCE` are asked for again when one of them changed.
    """

    name: str


@runtime_checkable
class Hierarchical(Protocol):
    """Works on the tree of queues (spec.parent) where its switch `enableHierarchy` says so."""

    def use_hierarchy(self, enabled: bool) -> None:
        """Called once, before any session: the switch, false where it is not written."""
        ...


@runtime_checkable
class Sources(Protocol):
    """Brings facts of its own (see `sources`).

    A session has them under `PLUGIN/NAME`. A plugin names all facts that its filter and scorer follow from, also the
    product's, in an attribute `reads = ("node-metrics", "my-plugin/prices")`: answers that depend on `Depends.SOURCE`
    are then kept until one of these changes.
    """

    def sources(self) -> Mapping[str, Source]:
        """The sources by name; asked once, when the plugin takes effect."""
        ...


@runtime_checkable
class Opens(Protocol):
    """Sees each session open: recompute what the cycle's answers need."""

    def open(self, session: SessionView) -> Checkpoints | None:
        """Called before the first action of a cycle, in tier order.

        May be a generator where that can take more than a few milliseconds: at each `yield` other work may run.
        """
        ...


@runtime_checkable
class Closes(Protocol):
    """Sees each session close, after the last action."""

    def close(self, session: SessionView) -> None:
        """Called in tier order, as often as it takes: each time `session.touched` holds the next few jobs.

        May set conditions.
        """
        ...


@runtime_checkable
class Reports(Protocol):
    """Tells figures of its own."""

    def report(self, probe: Probe) -> Checkpoints | None:
        """Called after a session has closed, at most once a schedule period; write-only, decides nothing.

        May be a generator where there is much to tell, as `Opens.open`.
        """
        ...


PluginFactory: TypeAlias = Callable[[Mapping[str, Any]], Plugin]
