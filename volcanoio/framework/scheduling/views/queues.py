"""Queues as plugins see them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from volcanoio.framework.scheduling.views.amounts import Amounts
from volcanoio.framework.scheduling.views.jobs import Job
from volcanoio.model.scheduling import Queue


class QueueView(Protocol):
    """A queue and what its jobs hold and want."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def object(self) -> Queue:
        """The Queue."""
        ...

    @property
    def weight(self) -> int:
        """spec.weight."""
        ...

    @property
    def priority(self) -> int:
        """spec.priority."""
        ...

    @property
    def open(self) -> bool:
        """Whether its state is Open or still empty."""
        ...

    @property
    def capability(self) -> Amounts:
        """spec.capability; a missing name is unlimited."""
        ...

    @property
    def guarantee(self) -> Amounts:
        """spec.guarantee.resource."""
        ...

    @property
    def deserved(self) -> Amounts:
        """spec.deserved."""
        ...

    @property
    def allocated(self) -> Amounts:
        """Requests of its jobs' allocated tasks."""
        ...

    @property
    def requested(self) -> Amounts:
        """Requests of its jobs' allocated and pending tasks."""
        ...

    @property
    def jobs(self) -> Collection[Job]:
        """Its jobs."""
        ...

    @property
    def namespaces(self) -> Mapping[str, Amounts]:
        """What jobs of each namespace hold in it now, reservations included; kept from when it is first asked for."""
        ...
