"""Every cause chain ends at an external event: looked at for each event of a process' bus as it is published."""

from __future__ import annotations

from volcanoio.bus.event_bus import Batch
from volcanoio.framework.events import ControllerEvent, Event, Observed, PoliciesLoaded, Relisting, Synced
from volcanoio.runtime.controllers.controller_host import CONTROLLER_EVENTS

EXTERNAL = (Observed, Synced, Relisting, PoliciesLoaded)
"""What may come from outside; all else is an outcome of something that we did for a reason."""


class BrokenChainError(AssertionError):
    """An event that follows from nothing."""


class Chains:
    """A subscriber of one process' bus. A cause is an earlier event of it, so that each chain need be looked at once.

    `checked` counts events. `faults` are the chains that do not end where they should.
    """

    def __init__(self) -> None:
        self.checked = 0
        self.faults: list[str] = []
        self._last = 0

    def __call__(self, batch: Batch) -> None:
        """Look at what was published."""
        for event in batch:
            self.checked += 1
            self._look(event)
            self._last = event.seq

    def _look(self, event: Event | ControllerEvent) -> None:
        if not isinstance(event, CONTROLLER_EVENTS):
            self.faults.append(f"{event} is none of the controllers' family")
        elif event.seq != self._last + 1:
            self.faults.append(f"{event.seq} follows {self._last}")
        elif not event.cause and not isinstance(event, EXTERNAL):
            self.faults.append(f"{event} has no cause and comes from nowhere outside")
        elif event.cause >= event.seq:
            self.faults.append(f"{event} was caused by what came later")

    def check(self) -> None:
        """Raises BrokenChainError."""
        if self.faults:
            raise BrokenChainError("\n".join(self.faults[:5]))
