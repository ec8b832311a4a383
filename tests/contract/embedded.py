"""The embedded API server and its controllers in a thread of their own, for tests that talk to it over HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

import anyio

from volcanoio.compose.controllers import WorkloadControllers
from volcanoio.compose.local import all_controllers
from volcanoio.localcluster.apiserver.apimachinery.clock import WallClock
from volcanoio.localcluster.apiserver.authn import credentials
from volcanoio.localcluster.apiserver.authn.credentials import load_or_create
from volcanoio.localcluster.apiserver.controllers.volume_binder import PATIENCE
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.http.listener import serve
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer, install
from volcanoio.localcluster.apiserver.storage.store import Store
from volcanoio.localcluster.apiserver.streams.pod_connections import LogOptions
from volcanoio.localcluster.clock import RunningClock
from volcanoio.localcluster.controllers.contract import ClusterController
from volcanoio.model.base import Manifest

REMEMBERED = 500
"""Changes of a kind that the server remembers: few, so that a test can outrun them."""
_START_SECONDS = 60


class NumberedLines:
    """Every container has written three lines; one who follows sees a fourth."""

    async def read(
        self, namespace: str, pod_manifest: Manifest, container: str, options: LogOptions
    ) -> AsyncIterator[list[bytes]]:
        """See LogSource."""
        yield [_line(number) for number in (1, 2, 3)]
        yield [_line(4)]
        await asyncio.get_running_loop().create_future()


def _line(number: int) -> bytes:
    return b"2026-01-01T00:00:%02dZ line %d" % (number, number)


class HastyClock(WallClock):
    """The machine's clock, but the server waits only a second for a pod to use a claim whose class does not exist."""

    async def idle(self, seconds: float) -> None:
        """Sleep on the running loop."""
        await super().idle(1.0 if seconds == PATIENCE else seconds)


@contextmanager
def embedded_server(directory: Path, roster: Sequence[ClusterController] | None = None) -> Iterator[Path]:
    """Run a server in memory, with TLS and a token, and all controllers or those of `roster`; yields its kubeconfig."""
    started: Queue[Path | BaseException] = Queue()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def main() -> None:
        identity = load_or_create(directory / "pki")
        async with ApiServer(Core(Store(window=REMEMBERED), HastyClock(), identity=identity)).running() as server:
            install(server, logs=NumberedLines())
            host = WorkloadControllers(
                InProcessTransport(server), RunningClock(), all_controllers() if roster is None else roster
            )
            async with (
                serve(server, identity=identity, account=server.tokens.user, traffic=server.traffic) as bound,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(host.run)
                kubeconfig = credentials.render_kubeconfig(
                    bound.url, token=bound.token, ca_pem=bound.ca_pem, certificate=identity.admin
                )
                started.put(credentials.write_kubeconfig(directory / "kubeconfig", kubeconfig))
                await stop.wait()
                tasks.cancel_scope.cancel()

    def run() -> None:
        try:
            loop.run_until_complete(main())
        except BaseException as error:
            started.put(error)
            raise
        finally:
            loop.close()

    thread = threading.Thread(target=run, name="embedded API server")
    thread.start()
    outcome = started.get(timeout=_START_SECONDS)
    if isinstance(outcome, BaseException):
        raise outcome
    try:
        yield outcome
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
