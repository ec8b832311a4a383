"""The two queues that must exist: root and the default queue (Volcano: pkg/scheduler/cache, newDefaultAndRootQueue)."""

from __future__ import annotations

import structlog

from volcanoio.kube.client import Client
from volcanoio.kube.clock import Clock
from volcanoio.kube.errors import AlreadyExists, ApiError
from volcanoio.kube.transport import TransportError
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.names import ROOT_QUEUE

RETRY = 1.0
"""Seconds between attempts."""
_log = structlog.get_logger(__name__)


def standard_queues(default_queue: str) -> tuple[Manifest, ...]:
    """Root (weight 1, not reclaimable) and the default queue (weight 1, reclaimable)."""
    return tuple(
        {
            "apiVersion": kinds.QUEUE.api_version,
            "kind": kinds.QUEUE.kind,
            "metadata": {"name": name},
            "spec": {"weight": 1, "reclaimable": reclaimable},
        }
        for name, reclaimable in ((ROOT_QUEUE, False), (default_queue, True))
    )


async def ensure_queues(client: Client, default_queue: str, clock: Clock) -> None:
    """Create what is missing and keep what exists; tried again until the server has said either."""
    for manifest in standard_queues(default_queue):
        while True:
            try:
                await client.create(kinds.QUEUE, manifest)
            except AlreadyExists:
                pass
            except (ApiError, TransportError) as error:
                _log.warning("queue not created yet", queue=manifest["metadata"]["name"], error=str(error))
                await clock.sleep(RETRY)
                continue
            break
