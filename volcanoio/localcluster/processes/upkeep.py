"""What is kept in step while pods run: their hosts files, and the files of their volumes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import structlog

from volcanoio.kube.transport import TransportError
from volcanoio.localcluster.processes.fields import FieldProblem
from volcanoio.localcluster.processes.held import Held
from volcanoio.localcluster.processes.hosts import HostsBook, ServiceName
from volcanoio.localcluster.processes.sandbox import Sandbox
from volcanoio.localcluster.processes.sources import Missing, SourceReader, Sources
from volcanoio.model.kinds import SERVICE

PERIOD = 2.0
"""Seconds between two looks."""
_TOKEN_AGE = 600.0
"""Seconds after which service account tokens are got anew; they hold for an hour."""
_log = structlog.get_logger(__name__)


class Upkeep:
    """Looks at services and at what volumes are made from, as long as anything runs."""

    def __init__(self, sources: SourceReader, hosts: HostsBook, pods: Mapping[str, Held]) -> None:
        self._sources = sources
        self._hosts = hosts
        self._pods = pods

    async def run(self) -> None:
        """For ever."""
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

    async def _refresh(self, held: Held) -> None:
        with suppress(Missing, FieldProblem, OSError):
            sources = await self.read(held)
            await asyncio.to_thread(held.sandbox.refresh, held.manifest, sources)

    async def read(self, held: Held) -> Sources:
        """What a pod is made from, with tokens that are fresh enough. Raises Missing, TransportError."""
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
    """Let nobody else into the directories of pods and volumes: files in them have the modes that containers want."""
    for name in ("pods", "volumes"):
        (state / name).mkdir(exist_ok=True)
        (state / name).chmod(0o700)


def sweep(state: Path, known: frozenset[str]) -> None:
    """Remove the directories of pods that an earlier process has left and that are not known any more."""
    with suppress(FileNotFoundError):
        for uid in os.listdir(state / "pods"):  # noqa: PTH208 - names are all that is wanted
            if uid not in known:
                Sandbox(state, uid).remove()
