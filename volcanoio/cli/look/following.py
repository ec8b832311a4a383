"""Objects of a cluster as they change, for commands that run until something happened or until Ctrl-C."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from typing import NamedTuple

import anyio
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream

from volcanoio.cli.connection import Cluster
from volcanoio.framework.events import Event, Observed, Relisting
from volcanoio.framework.probe import NoProbe
from volcanoio.kube.clock import WallClock
from volcanoio.kube.informer import InformerSet
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind


class Selected(NamedTuple):
    """Objects of a kind that a command reads; `namespace` "" is all namespaces."""

    kind: Kind
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    @classmethod
    def one(cls, kind: Kind, name: str, namespace: str) -> Selected:
        """Return the selection of one object."""
        return cls(kind, namespace, fields=f"metadata.name={name}")

    async def listed(self, cluster: Cluster) -> dict[str, ApiObject]:
        """Return the objects by key, read in pages. Raises ApiError."""
        found = await cluster.client.list(
            self.kind, self.namespace, label_selector=self.labels, field_selector=self.fields
        )
        return {obj.metadata.key: obj for obj in found}


class _ShortWaits(WallClock):
    """The machine's clock for informers that a user waits for: a server is tried again after 2 seconds at most."""

    async def sleep(self, seconds: float) -> None:
        """Sleep for that long or 2 seconds."""
        await super().sleep(min(seconds, 2.0))


class _Interruptions(NoProbe):
    """Prints that the server cannot be watched, and that it can again; the informers try again by themselves."""

    def __init__(self) -> None:
        self._is_interrupted = False

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:  # noqa: ARG002 - the interface of Probe
        if name == "volcanoio_informer_failures_total" and amount and not self._is_interrupted:
            self._is_interrupted = True
            print("the API server cannot be watched now; trying again until Ctrl-C", file=sys.stderr)

    def end(self) -> None:
        """Print that the server answers again, if it could not be watched before."""
        if self._is_interrupted:
            self._is_interrupted = False
            print("the API server answers again", file=sys.stderr)


@contextmanager
def _errors_only() -> Iterator[None]:
    """Log only errors, to stderr: each attempt of an informer would be a warning on the user's screen."""
    before = structlog.get_config()
    errors = structlog.make_filtering_bound_logger(logging.ERROR)
    structlog.configure(wrapper_class=errors, logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        yield
    finally:
        structlog.configure(**before)


class Following:
    """Caches of selected objects. `objects` is their latest state; `changes` has one batch of events per change."""

    def __init__(self, cluster: Cluster, selected: Iterable[Selected]) -> None:
        self.send, self.changes = anyio.create_memory_object_stream[tuple[Event, ...]](math.inf)
        self._interruptions = _Interruptions()
        transport = cluster.client.transport
        self.informers = InformerSet(transport, self._publish, clock=_ShortWaits(), probe=self._interruptions)
        self._caches = {
            each.kind: self.informers.informer(
                each.kind, label_selector=each.labels, field_selector=each.fields, namespace=each.namespace
            )
            for each in selected
        }

    @property
    def objects(self) -> Mapping[Kind, Mapping[str, ApiObject]]:
        """The objects by kind and key."""
        return {kind: cache.objects for kind, cache in self._caches.items()}

    def wake(self) -> None:
        """Add an empty batch to the changes, so that their reader looks again."""
        self.send.send_nowait(())

    def _publish(self, batch: Iterable[Event]) -> None:
        events = tuple(batch)
        if any(not isinstance(event, Relisting) for event in events):
            self._interruptions.end()
        self.send.send_nowait(events)


@asynccontextmanager
async def following(cluster: Cluster, *selected: Selected) -> AsyncIterator[Following]:
    """Keep caches of these objects, one selection per kind; inside, all of them are listed.

    A lost connection is waited for: what cannot be read at all should be found out before, by a list.
    """
    caches = Following(cluster, selected)
    with _errors_only(), caches.send, caches.changes:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caches.informers.run)
            await caches.informers.synced()
            yield caches
            tasks.cancel_scope.cancel()


async def batches(changes: MemoryObjectReceiveStream[tuple[Event, ...]], pause: float) -> AsyncIterator[list[Observed]]:
    """Yield the changes so far, then those of each `pause` seconds in which there are some.

    A reader that takes long for a batch gets the next one later, so that it works a third of the time at most.
    """
    busy = 0.0
    async for batch in changes:
        found = [*batch]
        await anyio.sleep(max(pause, 2 * busy))
        while True:
            try:
                found += changes.receive_nowait()
            except anyio.WouldBlock:
                break
        began = monotonic()
        yield [event for event in found if isinstance(event, Observed)]
        busy = monotonic() - began
