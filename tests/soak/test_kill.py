"""The server is killed with -9 in the middle of writes, again and again: what it acknowledged is there afterwards.

`make soak` kills it 200 times, CI three times.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Unpack

import pytest

from tests.localcluster.apiserver.api import CONFIG_MAPS
from tests.soak.clients import Client
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import Connection
from volcanoio.kube.transport import RequestOptions, Response, TransportError

KILLS = int(os.environ.get("VOLCANOIO_SOAK_KILLS", "3"))
CLIENTS = 8
ROOT = Path(__file__).parents[2]


class Reconnecting:
    """A transport to a server that comes and goes; a request that fails raises once the server is back."""

    def __init__(self) -> None:
        self._current: HttpTransport | None = None
        self._back = asyncio.Event()

    def connect(self, transport: HttpTransport) -> None:
        """The server is there."""
        self._current = transport
        self._back.set()

    def lose(self) -> None:
        """The server is about to go."""
        self._back.clear()

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        """See Transport."""
        assert self._current is not None
        try:
            return await self._current.request(method, path, **options)
        except TransportError:
            await self._back.wait()
            raise

    def stream(self, *_: Any, **__: Any) -> AbstractAsyncContextManager[AsyncIterator[list[bytes]]]:
        """Streams are not used here."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """The test that connected it closes it."""


@pytest.mark.timeout(3600)
async def test_acknowledged_writes_survive_every_kill(tmp_path: Path) -> None:
    rng = random.Random(20261120)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": "x" * 500}}
    transport, gate = Reconnecting(), asyncio.Event()
    clients = [Client(number, CONFIG_MAPS, body, transport, random.Random(rng.random())) for number in range(CLIENTS)]
    async with asyncio.TaskGroup() as tasks:
        running: list[asyncio.Task[None]] = []
        for kill in range(KILLS + 1):
            async with _server(tmp_path) as (http, process):
                transport.connect(http)
                if not running:
                    running = [tasks.create_task(client.run(gate, 0)) for client in clients]
                await asyncio.gather(*(client.check() for client in clients))
                revision = json.loads((await http.request("GET", CONFIG_MAPS)).body)["metadata"]["resourceVersion"]
                newest = max((version for client in clients for version in client.known.values()), default=0)
                assert int(revision) >= newest, "versions went back"
                if kill == KILLS:
                    break
                goal = _writes(clients) + rng.randint(20, 200)
                gate.set()
                while _writes(clients) < goal:  # noqa: ASYNC110 - they only count
                    await asyncio.sleep(0.001)
                transport.lose()
                process.send_signal(signal.SIGKILL)
                gate.clear()
        for task in running:
            task.cancel()
    assert _writes(clients) >= 20 * KILLS
    assert any("unknown" in verb for client in clients for verb in client.done) or KILLS < 20


def _writes(clients: list[Client]) -> int:
    return sum(client.done.total() for client in clients)


@asynccontextmanager
async def _server(directory: Path) -> AsyncIterator[tuple[HttpTransport, asyncio.subprocess.Process]]:
    """A server process on the directory, and a way to speak to it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.soak.server", str(directory), stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    transport = HttpTransport(Connection(f"http://127.0.0.1:{int(await process.stdout.readline())}"))
    try:
        yield transport, process
    finally:
        await transport.aclose()
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
