"""All controllers of a process over one stream of events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from volcanoio.engine.hosting.cache import ObjectCache
from volcanoio.engine.hosting.dispatch import Dispatch, InvariantError
from volcanoio.engine.hosting.keyed import KeyedHost
from volcanoio.framework.controller import Controller
from volcanoio.framework.events import ControllerEvent, Observed, PoliciesLoaded, Relisting, Synced


class Host:
    """Folds each event once and gives it to the controllers it concerns, in the order they were given.

    Effect ids and steps count through the process, so that the same journal gives the same numbers. `on_fault` is told
    of every reducer that raised; the host itself goes on. Nothing is synced before the resources in `also` (indexes of
    policies) are. Raises ValueError for two controllers of one name.
    """

    def __init__(
        self,
        controllers: Sequence[Controller[Any]],
        *,
        also: Iterable[str] = (),
        on_fault: Callable[[InvariantError], None] | None = None,
    ) -> None:
        self.cache = ObjectCache()
        effect_ids, steps = count(1), count(1)
        self._hosts: dict[str, KeyedHost] = {}
        self._readers: dict[str, list[KeyedHost]] = {}
        for controller in controllers:
            if controller.name in self._hosts:
                msg = f'two controllers are named "{controller.name}"; names must be unique'
                raise ValueError(msg)
            host = KeyedHost(
                controller, self.cache, effect_ids=effect_ids, steps=steps, also=frozenset(also), on_fault=on_fault
            )
            self._hosts[controller.name] = host
            for resource in sorted(host.resources):
                self._readers.setdefault(resource, []).append(host)

    def __getitem__(self, controller: str) -> KeyedHost:
        """The host of one controller, by name."""
        return self._hosts[controller]

    @property
    def controllers(self) -> tuple[str, ...]:
        """The names of the controllers, in the order they were given."""
        return tuple(self._hosts)

    @property
    def synced(self) -> bool:
        """Whether every controller may decide: what readiness asks."""
        return all(host.synced for host in self._hosts.values())

    def handle(self, event: ControllerEvent) -> list[Dispatch]:
        """Reduce one event wherever it belongs; events for controllers that are not here are ignored."""
        if isinstance(event, Observed | Synced | Relisting):
            self.cache.fold(event)
            return [dispatch for host in self._readers.get(event.resource, ()) for dispatch in host.handle(event)]
        if isinstance(event, PoliciesLoaded):
            for host in self._hosts.values():
                host.handle(event)
            return []
        target = self._hosts.get(event.controller)
        return target.handle(event) if target else []
