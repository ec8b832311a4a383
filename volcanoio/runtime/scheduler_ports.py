"""What the scheduler's actor uses of its surroundings."""

from __future__ import annotations

from typing import Protocol

from volcanoio.bus.inbox import Inbox
from volcanoio.engine.scheduling.profile import Profile
from volcanoio.framework.events import Event
from volcanoio.model.kinds import Kind


class Bus(Protocol):
    """What the scheduler uses of `bus.EventBus`."""

    def subscribe_async(self) -> Inbox:
        """An inbox of all later events."""
        ...

    def publish(self, events: list[Event]) -> tuple[Event, ...]:
        """Take events in; returns them stamped."""
        ...


class Informers(Protocol):
    """What the scheduler uses of `kube.InformerSet`."""

    def informer(self, kind: Kind, *, label_selector: str = "", field_selector: str = "") -> object:
        """Have a kind watched."""
        ...

    def forget(self, kind: Kind) -> None:
        """Have a kind watched no more: all of it is gone, and it is not listed."""
        ...

    async def run(self) -> None:
        """Watch until cancelled."""
        ...


class Sources(Protocol):
    """What the scheduler uses of `runtime.sources.SourceHost`."""

    def follow(self, profile: Profile) -> None:
        """Run the sources of this profile from now on."""
        ...

    async def run(self) -> None:
        """Run them until cancelled."""
        ...
