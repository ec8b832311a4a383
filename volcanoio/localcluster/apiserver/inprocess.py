"""Transport for components in the server's process: the same requests, without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import coroutine
from typing import Any, Final, Protocol, TypeAlias, Unpack

from volcanoio.kube.transport import (
    ContentType,
    NotSent,
    RequestOptions,
    Response,
    StreamRefused,
    TransportError,
)
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest, ApiResponse, ApiStream
from volcanoio.localcluster.apiserver.http.faults import ConnectionDropped

Answer: TypeAlias = ApiResponse | ApiStream
TURN: Final = 16
"""Requests handled before other tasks run: an in-memory answer does not suspend its task by itself."""


class RequestHandler(Protocol):
    """An `ApiServer`, as this transport uses it."""

    async def handle(self, request: ApiRequest) -> Answer:
        """Handle one request."""
        ...


class InProcessTransport:
    """`volcanoio.kube.transport.Transport` over `ApiServer.handle`."""

    def __init__(self, server: RequestHandler) -> None:
        self._server = server
        self._since_turn = 0

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        """Send one request and return its whole answer."""
        timeout = options.get("timeout")
        headers = {
            "content-type": options.get("content_type", ContentType.JSON),
            "accept": options.get("accept", "application/json"),
        }
        request = ApiRequest(method, path, _values(options.get("query")), headers, options.get("body", b""))
        self._since_turn += 1
        if self._since_turn >= TURN:
            self._since_turn = 0
            await asyncio.sleep(0)
        if (fence := options.get("fence")) is not None and not fence():
            raise NotSent(method, path)
        try:
            answer = await _within(self._server.handle(request), timeout)
        except ConnectionDropped as error:
            msg = f"{method} {path}: the connection was reset"
            raise TransportError(msg) from error
        except TimeoutError as error:
            msg = f"{method} {path}: no answer within {timeout} s"
            raise TransportError(msg) from error
        if isinstance(answer, ApiStream):
            await _close(answer)
            msg = f"{method} {path} is answered by a stream; use stream()"
            raise TransportError(msg)
        return _response(answer)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Stream a GET as batches of whole lines."""
        try:
            answer = await self._server.handle(ApiRequest("GET", path, _values(query), {"accept": "application/json"}))
        except ConnectionDropped as error:
            msg = f"GET {path}: the connection was reset"
            raise TransportError(msg) from error
        if isinstance(answer, ApiResponse):
            if answer.status != 200:
                raise StreamRefused(_response(answer))
            yield _once(answer.body.splitlines())
            return
        try:
            yield _lines(answer.batches) if answer.raw else answer.batches
        finally:
            await _close(answer)

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""


async def _lines(batches: AsyncIterator[list[bytes]]) -> AsyncIterator[list[bytes]]:
    """Yield the lines of raw bytes, as of logs, of which each batch ends with a whole line."""
    async for batch in batches:
        yield b"".join(batch).removesuffix(b"\n").split(b"\n")


async def _within(handling: Coroutine[Any, Any, Answer], timeout: float | None) -> Answer:  # noqa: ASYNC109 - the caller's
    """Await the result.

    Raises TimeoutError. Most requests finish without waiting, and need no timer.
    """
    try:
        waiting = handling.send(None)
    except StopIteration as done:
        answer: Answer = done.value
        return answer
    async with asyncio.timeout(timeout):
        return await _resumed(handling, waiting)


@coroutine
def _resumed(handling: Coroutine[Any, Any, Answer], waiting: Any) -> Generator[Any, Any, Answer]:
    """Continue a started coroutine that waits for something."""
    while True:
        step: Callable[[], Any]
        try:
            step = partial(handling.send, (yield waiting))
        except BaseException as error:  # passed to the coroutine; mostly a cancellation
            step = partial(handling.throw, error)
        try:
            waiting = step()
        except StopIteration as done:
            answer: Answer = done.value
            return answer


def _values(query: Mapping[str, str] | None) -> dict[str, list[str]]:
    return {key: [value] for key, value in query.items()} if query else {}


async def _close(stream: ApiStream) -> None:
    close = getattr(stream.batches, "aclose", None)
    if close is not None:
        await close()


async def _once(lines: list[bytes]) -> AsyncIterator[list[bytes]]:
    if lines:
        yield lines


def _response(answer: ApiResponse) -> Response:
    headers = answer.headers
    if answer.warnings:
        headers = {**headers, "Warning": ", ".join(map(_warning, answer.warnings))}
    return Response(answer.status, answer.body, headers)


def _warning(text: str) -> str:
    """Return one value of a Warning header (RFC 7234, 5.5)."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'
