"""A cluster whose time skips every wait, with a user of each client: the same tests run with both."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Unpack

import msgspec
import pytest

from volcanoio.client import AsyncClient, Client, LocalOptions
from volcanoio.kube.transport import RequestOptions, Response, StreamRefused, Transport


class User:
    """A client whose methods are called in the same way, whether they are coroutines or not."""

    def __init__(self, client: Any, runner: asyncio.Runner | None = None) -> None:
        self.client = client
        self._runner = runner

    def call(self, method: Any, *args: Any, **options: Any) -> Any:
        """Return the answer of a method; items of a generator as a list."""
        return self.answer(method(*args, **options))

    def answer(self, value: Any) -> Any:
        """Return what a property or method returned, awaited if it has to be."""
        if inspect.isasyncgen(value):
            return self._run(_items(value))
        if inspect.isgenerator(value):
            return list(value)
        return self._run(value) if inspect.isawaitable(value) else value

    def submit(self, *args: Any, **options: Any) -> Any:
        """Submit a job."""
        return self.call(self.client.submit, *args, **options)

    def _run(self, value: Any) -> Any:
        assert self._runner is not None

        async def wait() -> Any:
            return await value

        return self._runner.run(wait())


async def _items(generator: Any) -> list[Any]:
    return [item async for item in generator]


class Refusing:
    """A transport of a user who may not read some paths."""

    def __init__(self, transport: Transport, *refused: str) -> None:
        self._transport = transport
        self._refused = refused

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        """Answer 403 for these paths."""
        if path.endswith(self._refused):
            return _forbidden(path)
        return await self._transport.request(method, path, **options)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Refuse streams of these paths."""
        if path.endswith(self._refused):
            raise StreamRefused(_forbidden(path))
        async with self._transport.stream(path, query=query) as lines:
            yield lines

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._transport.aclose()


def _forbidden(path: str) -> Response:
    status = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": path, "code": 403}
    return Response(403, msgspec.json.encode(status))


@pytest.fixture(scope="package")
def cluster() -> Iterator[Client]:
    """Provide a client with an embedded cluster of four nodes with 8 cores each."""
    with Client(local=LocalOptions(speed=math.inf)) as client:
        yield client


@pytest.fixture(params=["Client", "AsyncClient"])
def user(cluster: Client, request: pytest.FixtureRequest) -> Iterator[User]:
    """Provide a user of each client in turn."""
    if request.param == "Client":
        with Client(cluster.kubeconfig) as client:
            yield User(client)
        return
    with asyncio.Runner() as runner:
        other = User(AsyncClient(cluster.kubeconfig), runner)
        yield other
        other.call(other.client.close)
