"""`InformerSet`: one informer per kind and selectors, however many consumers ask for it."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
from anyio.abc import TaskGroup

from volcanoio.framework.events import Observed
from volcanoio.framework.probe import Probe
from volcanoio.kube.clock import Clock
from volcanoio.kube.informer import Informer, Publish
from volcanoio.kube.transport import Transport
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import Kind


class InformerSet:
    """The informers of one process, all publishing to the same place.

    An Observed event names its resource, not its selectors: whoever asks for one resource under several selectors
    gets an object once from each informer that has it.
    """

    def __init__(
        self, transport: Transport, publish: Publish, *, clock: Clock, seed: int = 0, probe: Probe | None = None
    ) -> None:
        self._transport = transport
        self._publish = publish
        self._clock = clock
        self._seed = seed
        self._probe = probe
        self._informers: dict[tuple[Kind, str, str, str], Informer] = {}
        self._by_resource: dict[str, list[Informer]] = {}
        self._tasks: TaskGroup | None = None

    def informer(
        self, kind: Kind, *, label_selector: str = "", field_selector: str = "", namespace: str = ""
    ) -> Informer:
        """The informer of that kind and selection; a new one starts at once if the set is running."""
        key = (kind, label_selector, field_selector, namespace)
        if key not in self._informers:
            informer = self._informers[key] = Informer(
                kind,
                self._transport,
                self._publish,
                clock=self._clock,
                label_selector=label_selector,
                field_selector=field_selector,
                namespace=namespace,
                seed=self._seed,
                probe=self._probe,
            )
            self._by_resource.setdefault(kind.resource, []).append(informer)
            if self._tasks is not None:
                self._tasks.start_soon(informer.run)
        return self._informers[key]

    def forget(self, kind: Kind) -> None:
        """Stop the informer of all objects of a kind; what it knew is published as gone, and the kind as not listed."""
        informer = self._informers.pop((kind, "", "", ""), None)
        if informer is not None:
            self._by_resource[kind.resource].remove(informer)
            informer.stop()

    def __iter__(self) -> Iterator[Informer]:
        return iter(tuple(self._informers.values()))

    async def run(self) -> None:
        """Run all informers, also those asked for later, until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            try:
                for informer in self._informers.values():
                    self._tasks.start_soon(informer.run)
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    async def synced(self) -> None:
        """Return once all informers asked for so far are synced."""
        for informer in tuple(self._informers.values()):
            await informer.synced()

    def observe_own(self, resource: str, response: bytes | Manifest) -> list[Observed]:
        """Fold the object in a response to our own write; the events are the caller's to publish."""
        return [event for informer in self._by_resource.get(resource, ()) for event in informer.observe_own(response)]

    def observe_own_delete(self, resource: str, namespace: str, name: str, uid: str) -> list[Observed]:
        """Fold that our own delete removed an object for good; the events are the caller's to publish."""
        return [
            event
            for informer in self._by_resource.get(resource, ())
            for event in informer.observe_own_delete(namespace, name, uid)
        ]
