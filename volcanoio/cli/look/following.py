"""Objects of a cluster as they change, for commands that run until something happened or until Ctrl-C."""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from volcanoio.cli.connection import Cluster
from volcanoio.framework.events import Event, Observed
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


class _Interruptions(NoProbe):
    """Prints once per interruption that the server cannot be reached; the informers try again by themselves."""

    def __init__(self) -> None:
        self.is_interrupted = False

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:  # noqa: ARG002 - the interface of Probe
        if name == "volcanoio_informer_failures_total" and amount and not self.is_interrupted:
            self.is_interrupted = True
            print("the API server does not answer; trying again until Ctrl-C", file=sys.stderr)


class Following:
    """Caches of selected objects. `objects` is their latest state; `changes` has one batch of events per change."""

    def __init__(self, cluster: Cluster, selected: Iterable[Selected]) -> None:
        self.send, self.changes = anyio.create_memory_object_stream[tuple[Event, ...]](math.inf)
        self._interruptions = _Interruptions()
        transport = cluster.client.transport
        self.informers = InformerSet(transport, self._publish, clock=WallClock(), probe=self._interruptions)
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
        self._interruptions.is_interrupted = False
        self.send.send_nowait(tuple(batch))


@asynccontextmanager
async def following(cluster: Cluster, *selected: Selected) -> AsyncIterator[Following]:
    """Keep caches of these objects, one selection per kind; inside, all of them are listed.

    A lost connection is waited for: what cannot be read at all should be found out before, by a list.
    """
    caches = Following(cluster, selected)
    with caches.send, caches.changes:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caches.informers.run)
            await caches.informers.synced()
            yield caches
            tasks.cancel_scope.cancel()


async def batches(changes: MemoryObjectReceiveStream[tuple[Event, ...]], pause: float) -> AsyncIterator[list[Observed]]:
    """Yield the changes so far, then those of each `pause` seconds in which there are some."""
    async for batch in changes:
        found = [*batch]
        await anyio.sleep(pause)
        while True:
            try:
                found += changes.receive_nowait()
            except anyio.WouldBlock:
                break
        yield [event for event in found if isinstance(event, Observed)]
