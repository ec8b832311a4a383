"""A transport and a clock that do what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Unpack

import msgspec

from volcanoio.kube.transport import ContentType, RequestOptions, Response, StreamRefused, TransportError


@dataclass(frozen=True)
class Call:
    """One request as the transport was given it."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = ""
    timeout: float | None = None


def answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(status, msgspec.json.encode(content), headers or {})


def refusal(code: int, reason: str, message: str = "no", headers: Mapping[str, str] | None = None) -> Response:
    status = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code}
    return answer(status, code, headers)


Script = Callable[[Call], Awaitable[Response]]
Stream = list[list[bytes] | Exception] | Response | TransportError


class ScriptedTransport:
    """Answers requests by `script`; streams end as `streams` says, and wait for ever when there is none left."""

    def __init__(self, script: Script, streams: list[Stream] | None = None) -> None:
        self.script = script
        self.streams = streams or []
        self.calls: list[Call] = []
        self.watches: list[Mapping[str, str]] = []

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        body = options.get("body", b"")
        content = msgspec.json.decode(body) if body else None
        query, content_type = dict(options.get("query") or {}), options.get("content_type", ContentType.JSON)
        call = Call(method, path, query, content, content_type, options.get("timeout"))
        self.calls.append(call)
        return await self.script(call)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        self.watches.append(dict(query or {}))
        stream = self.streams.pop(0) if self.streams else None
        if isinstance(stream, Response):
            raise StreamRefused(stream)
        if isinstance(stream, TransportError):
            raise stream
        yield self._play(stream)

    async def _play(self, stream: list[list[bytes] | Exception] | None) -> AsyncIterator[list[bytes]]:
        if stream is None:
            await asyncio.Event().wait()
        for item in stream or ():
            await asyncio.sleep(0)
            if isinstance(item, Exception):
                raise item
            yield item

    async def aclose(self) -> None:
        pass


class ManualClock:
    """Time passes only by sleeping, at once."""

    rate = 1.0

    def __init__(self, start: float = 1_000_000.0) -> None:
        self.time = start
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)

    idle = sleep


async def until(condition: Callable[[], object], turns: int = 10_000) -> None:
    """Let the loop turn until `condition` holds; fails when it does not come to hold."""
    for _ in range(turns):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError(condition)
