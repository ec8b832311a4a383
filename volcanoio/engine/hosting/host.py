"""Host of all controllers of a process over one stream of events.

`snapshot` returns its whole state as plain values, by which two hosts are compared.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from volcanoio.engine.hosting.controller_host import ControllerHost, Dispatch, InvariantError, Numbering, ReconcilerHost
from volcanoio.engine.hosting.object_cache import ObjectCache
from volcanoio.framework.controller import Controller
from volcanoio.framework.events import ControllerEvent, Observed, PoliciesLoaded, Relisting, Synced
from volcanoio.framework.reconciler import Reconciler


class Host:
    """Folds each event once and passes it to the controllers it concerns, in the order they were given.

    Effect ids and steps count through the process, so that the same journal gives the same numbers. `on_fault` is
    called for every reducer that raised; the host itself continues. No controller is synced before `extra_resources`
    (indexes of policies) are. Raises ValueError for two controllers of one name.
    """

    def __init__(
        self,
        controllers: Sequence[Controller[Any]],
        *,
        extra_resources: Iterable[str] = (),
        on_fault: Callable[[InvariantError], None] | None = None,
    ) -> None:
        self.cache = ObjectCache()
        numbering = Numbering()
        self._hosts: dict[str, ControllerHost] = {}
        self._readers: dict[str, list[ControllerHost]] = {}
        for controller in controllers:
            if controller.name in self._hosts:
                raise ValueError(f'two controllers are named "{controller.name}"; names must be unique')
            driver: Any = ReconcilerHost if isinstance(controller, Reconciler) else ControllerHost
            host: ControllerHost = driver(
                controller,
                self.cache,
                numbering=numbering,
                extra_resources=frozenset(extra_resources),
                on_fault=on_fault,
            )
            self._hosts[controller.name] = host
            for resource in sorted(host.resources):
                self._readers.setdefault(resource, []).append(host)

    def __getitem__(self, controller: str) -> ControllerHost:
        return self._hosts[controller]

    @property
    def controllers(self) -> tuple[str, ...]:
        """The names of the controllers, in the order they were given."""
        return tuple(self._hosts)

    @property
    def synced(self) -> bool:
        """Whether every controller may decide: the condition for readiness."""
        return all(host.synced for host in self._hosts.values())

    def handle(self, event: ControllerEvent) -> list[Dispatch]:
        """Reduce one event; events for controllers that are not here are ignored."""
        if isinstance(event, Observed | Synced | Relisting):
            self.cache.fold(event)
            return [dispatch for host in self._readers.get(event.resource, ()) for dispatch in host.handle(event)]
        if isinstance(event, PoliciesLoaded):
            for host in self._hosts.values():
                host.handle(event)
            return []
        target = self._hosts.get(event.controller)
        return target.handle(event) if target else []


def snapshot(host: Host) -> dict[str, Any]:
    """Return objects and listed resources, then state and effects in flight by controller and key.

    API objects of the cache are included as they are; everything else is plain. Sets and tables are sorted.
    """
    cache = host.cache
    return {
        "objects": {name: {obj.metadata.key: obj for obj in cache.all(name)} for name in cache.resources},
        "listed": [name for name in cache.resources if cache.synced((name,))],
        "controllers": {name: _controller(host[name]) for name in host.controllers},
    }


def _controller(host: ControllerHost) -> dict[str, Any]:
    return {
        "open": host.synced,
        "keys": {
            key: {
                "state": _plain(host.state(key)),
                "in_flight": {str(number): _plain(effect) for number, effect in host.in_flight(key).items()},
            }
            for key in host.keys
        },
    }


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, order="deterministic", enc_hook=_plain_collection)


def _plain_collection(value: Any) -> Any:
    """Convert a mapping or set of a custom type, as states contain them."""
    return dict(value) if isinstance(value, Mapping) else sorted(value)
