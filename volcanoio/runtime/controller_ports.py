"""What the controllers' host uses of the rooms beside it, as Protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from volcanoio.bus.bus import Batch
from volcanoio.framework.effects import Stages
from volcanoio.framework.events import Event
from volcanoio.model.kinds import Kind
from volcanoio.runtime.policy_reading import Watching


class Bus(Protocol):
    """What the host uses of `bus.EventBus`."""

    def subscribe(self, subscriber: Callable[[Batch], None]) -> Callable[[], None]:
        """Give every later batch to `subscriber`; call the result to stop."""
        ...

    def publish(self, events: Iterable[Event]) -> Batch:
        """Take events in."""
        ...

    def caused_by(self, event: Event | int) -> AbstractContextManager[None]:
        """Within it, published events that name no cause get this one."""
        ...


class Informers(Protocol):
    """What the host uses of `kube.InformerSet`."""

    def informer(self, kind: Kind, *, label_selector: str = "", field_selector: str = "") -> Watching:
        """Have a kind watched."""
        ...

    async def run(self) -> None:
        """Watch until cancelled."""
        ...


class Executor(Protocol):
    """What the host uses of `kube.EffectExecutor`."""

    def submit(self, controller: str, key: str, stages: Stages, cause: int = 0) -> None:
        """Carry out the stages of one step, without waiting."""
        ...
