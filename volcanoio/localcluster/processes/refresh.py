"""Periodic refresh while pods run: their hosts files and the files of their volumes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import structlog

from volcanoio.kube.transport import TransportError
from volcanoio.localcluster.processes.hosts import HostsFiles, ServiceName
from volcanoio.localcluster.processes.running_pod import RunningPod
from volcanoio.localcluster.processes.sandbox import Sandbox
from volcanoio.localcluster.processes.sources import FieldError, Missing, SourceReader, Sources
from volcanoio.model.kinds import SERVICE

PERIOD = 2.0
"""Seconds between two looks."""
_TOKEN_AGE = 600.0
"""Seconds after which service account tokens are renewed; they are valid for an hour."""
_log = structlog.get_logger(__name__)


class Refresher:
    """Task that refreshes host names of services and sources of volumes while any container runs."""

    def __init__(self, sources: SourceReader, hosts: HostsFiles, pods: Mapping[str, RunningPod]) -> None:
        self._sources = sources
        self._hosts = hosts
        self._pods = pods

    async def run(self) -> None:
        """Refresh until cancelled."""
        while True:
            if len(self._hosts):
                try:
                    self._hosts.serve(await self._services())
                    for held in [one for one in self._pods.values() if one.running]:
                        await self._refresh(held)
                except TransportError as error:
                    _log.info("look again", error=str(error))
                except Exception:
                    _log.exception("upkeep failed")
            await asyncio.sleep(PERIOD)

    async def _refresh(self, held: RunningPod) -> None:
        with suppress(Missing, FieldError, OSError):
            sources = await self.read(held)
            await asyncio.to_thread(held.sandbox.refresh, held.manifest, sources)

    async def read(self, held: RunningPod) -> Sources:
        """Read the sources of a pod, with tokens that are fresh enough.

        Raises Missing, TransportError.
        """
        now = asyncio.get_running_loop().time()
        fresh = held.tokens is not None and now - held.tokens_at < _TOKEN_AGE
        sources = await self._sources.read(held.manifest, held.tokens if fresh else None)
        if not fresh:
            held.tokens, held.tokens_at = sources.tokens, now
        return sources

    async def _services(self) -> list[ServiceName]:
        listed = await self._sources.get(SERVICE.path()) or {}
        return [
            ServiceName(one["metadata"]["namespace"], one["metadata"]["name"], one["spec"].get("selector") or {})
            for one in listed.get("items") or ()
        ]


def keep_to_owner(state: Path) -> None:
    """Deny other users access to the directories of pods and volumes.

    Their files have the modes that containers need.
    """
    for name in ("pods", "volumes"):
        (state / name).mkdir(exist_ok=True)
        (state / name).chmod(0o700)


def remove_stale_directories(state: Path, known: frozenset[str]) -> None:
    """Remove the directories of unknown pods that an earlier process left."""
    with suppress(FileNotFoundError):
        for uid in os.listdir(state / "pods"):  # noqa: PTH208 - names are all that is wanted
            if uid not in known:
                Sandbox(state, uid).remove()
