"""What people read in a pod's events about its bind (Volcano: pkg/scheduler/cache/cache.go)."""

from __future__ import annotations

from collections.abc import Callable

from volcanoio.bus.bus import Batch
from volcanoio.framework.scheduling_events import BindDone, BindOutcome, BindRefused
from volcanoio.model import kinds
from volcanoio.model.base import ObjectReference

Recorder = Callable[[ObjectReference, str, str, str], None]
"""Takes (object, type, reason, message)."""


class BindReporter:
    """A subscriber of the scheduler's bus that records what became of binds."""

    def __init__(self, record: Recorder) -> None:
        self._record = record

    def __call__(self, batch: Batch) -> None:
        """Look for outcomes of binds."""
        for event in batch:
            if isinstance(event, BindDone):
                text = f"Successfully assigned {event.namespace}/{event.name} to {event.node}"
                self._record(_pod(event), "Normal", "Scheduled", text)
            elif isinstance(event, BindRefused):
                text = f"failed to bind to node {event.node}: {event.message}"
                self._record(_pod(event), "Warning", "FailedScheduling", text)


def _pod(outcome: BindOutcome) -> ObjectReference:
    return ObjectReference(
        api_version=kinds.POD.api_version,
        kind=kinds.POD.kind,
        namespace=outcome.namespace,
        name=outcome.name,
        uid=outcome.uid,
    )
