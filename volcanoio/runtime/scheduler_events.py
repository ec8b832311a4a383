"""What people read in a pod's events about its bind (Volcano: pkg/scheduler/cache/cache.go)."""

from __future__ import annotations

from typing import Protocol

from volcanoio.bus.bus import Batch
from volcanoio.engine.scheduling.tasks import scheduler_of_single
from volcanoio.framework.scheduling_events import BindDone, BindOutcome, BindRefused
from volcanoio.model import kinds
from volcanoio.model.base import ObjectReference


class Recorder(Protocol):
    """Who writes Events, such as `kube.EventRecorder.record`."""

    def __call__(
        self, regarding: ObjectReference, type_: str, reason: str, message: str, *, component: str = ""
    ) -> None:
        """Take an Event of a component, "" for the recorder's own."""
        ...


class BindReporter:
    """A subscriber of the scheduler's bus that records what became of binds."""

    def __init__(self, record: Recorder) -> None:
        self._record = record

    def __call__(self, batch: Batch) -> None:
        """Look for outcomes of binds."""
        for event in batch:
            if isinstance(event, BindDone):
                text = f"Successfully assigned {event.namespace}/{event.name} to {event.node}"
                self._record(_pod(event), "Normal", "Scheduled", text, component=scheduler_of_single(event.group))
            elif isinstance(event, BindRefused):
                text = f"failed to bind to node {event.node}: {event.message}"
                self._record(
                    _pod(event), "Warning", "FailedScheduling", text, component=scheduler_of_single(event.group)
                )


def _pod(outcome: BindOutcome) -> ObjectReference:
    return ObjectReference(
        api_version=kinds.POD.api_version,
        kind=kinds.POD.kind,
        namespace=outcome.namespace,
        name=outcome.name,
        uid=outcome.uid,
    )
