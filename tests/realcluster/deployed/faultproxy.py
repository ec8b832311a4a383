"""A proxy between components and the API server that injects faults by a schedule: answers, resets, slow watches.

Pods reach it at the address of the service `kubernetes`, with a certificate of the cluster's own authority. Without
faults, connections go past it to the API server.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import aiohttp
from aiohttp import web

Action: TypeAlias = Literal["status", "reset", "status-after", "reset-after", "delay", "first"]
_HOP = frozenset({"connection", "transfer-encoding", "content-length", "content-encoding", "host", "keep-alive"})
_REASONS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
_LINE_LIMIT = 8 << 20
BINDING = r"/pods/[^/]+/binding$"


@dataclass
class Fault:
    """One kind of fault at every `every`-th request that matches, at most `times` times.

    `status` and `reset` answer with the code, or drop the connection, without asking the API server; with `-after` once
    it has carried the request out. `delay` waits `seconds` first; `first` awaits `work` with the path first.
    """

    method: str
    path: str
    action: Action
    every: int = 1
    times: int = 1 << 30
    code: int = 500
    seconds: float = 0.0
    work: Callable[[str], Awaitable[None]] | None = None
    struck: list[str] = field(default_factory=list)
    """Paths of the requests that were struck."""
    _seen: int = 0

    def strikes(self, method: str, path: str) -> bool:
        """Count a request; returns whether the fault is injected into it."""
        if method != self.method or not re.search(self.path, path) or len(self.struck) >= self.times:
            return False
        self._seen += 1
        if self._seen % self.every:
            return False
        self.struck.append(path)
        return True


@dataclass
class WatchFault:
    """What happens to watches of matching paths: each line `delay` seconds late, or an ended stream.

    After `lines` lines the stream is cut off; with `expired` it first reports 410 Expired, as after a compaction.
    """

    path: str
    delay: Callable[[], float] = lambda: 0.0
    lines: int = 1 << 30
    expired: bool = False
    times: int = 1 << 30
    struck: int = 0


class FaultProxy:
    """The proxy. `faults` and `watch_faults` are consulted at each request, so they may be changed at any time."""

    def __init__(self, target: str, trusted: ssl.SSLContext, serving: ssl.SSLContext) -> None:
        self.faults: list[Fault] = []
        self.watch_faults: list[WatchFault] = []
        self.on_fault: Callable[[str], None] = lambda path: None
        """Called with the path of each request into which a fault is injected."""
        self._target, self._trusted, self._serving = target, trusted, serving
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen on a free port of the loopback address."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._trusted),
            auto_decompress=False,
            read_bufsize=_LINE_LIMIT,
            timeout=aiohttp.ClientTimeout(total=None),
        )
        application = web.Application(client_max_size=1 << 26)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._serving)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """End all connections."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        fault = next((one for one in self.faults if one.strikes(request.method, request.path)), None)
        if fault is not None:
            self.on_fault(request.path)
            if fault.action == "delay":
                await asyncio.sleep(fault.seconds)
            elif fault.action == "first" and fault.work is not None:
                await fault.work(request.path)
            elif fault.action == "status":
                return _status(fault.code)
            elif fault.action == "reset":
                return _reset(request)
        if "watch" in request.query:
            return await self._watch(request)
        code, headers, body = await self._forward(request)
        if fault is not None and fault.action == "status-after":
            return _status(fault.code)
        if fault is not None and fault.action == "reset-after":
            return _reset(request)
        return web.Response(status=code, headers=headers, body=body)

    async def _forward(self, request: web.Request) -> tuple[int, dict[str, str], bytes]:
        assert self._session is not None
        body = await request.read()
        try:
            async with self._session.request(
                request.method, self._target + request.raw_path, data=body or None, headers=_passed(request.headers)
            ) as answer:
                return answer.status, _passed(answer.headers), await answer.read()
        except (OSError, aiohttp.ClientError):
            _reset(request)
            raise

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        fault = next((one for one in self.watch_faults if re.search(one.path, request.path)), None)
        if fault is not None and fault.struck >= fault.times:
            fault = None
        async with self._session.get(self._target + request.raw_path, headers=_passed(request.headers)) as answer:
            response = web.StreamResponse(status=answer.status, headers=_passed(answer.headers))
            await response.prepare(request)
            if fault is None or answer.status != 200:
                with contextlib.suppress(ConnectionError):  # the client has closed its watch
                    async for chunk in answer.content.iter_any():
                        await response.write(chunk)
                return response
            lines: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()
            async with asyncio.TaskGroup() as tasks:
                reading = tasks.create_task(_read_lines(answer.content, lines, fault))
                try:
                    with contextlib.suppress(ConnectionError):
                        await _write_lines(response, lines, fault)
                finally:
                    reading.cancel()
            if fault.lines < 1 << 30:
                fault.struck += 1
                return _reset(request)
            return response


async def _read_lines(
    content: aiohttp.StreamReader, lines: asyncio.Queue[tuple[float, bytes] | None], fault: WatchFault
) -> None:
    due = 0.0
    async for line in content:
        due = max(due, time.monotonic() + fault.delay())  # late, but in order
        lines.put_nowait((due, line))
    lines.put_nowait(None)


async def _write_lines(
    response: web.StreamResponse, lines: asyncio.Queue[tuple[float, bytes] | None], fault: WatchFault
) -> None:
    for count in itertools.count(1):
        item = await lines.get()
        if item is None:
            return
        due, line = item
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        await response.write(line)
        if count >= fault.lines:
            if fault.expired:
                await response.write(json.dumps({"type": "ERROR", "object": _refusal(410, "Expired")}).encode() + b"\n")
            return


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in headers.items() if name.lower() not in _HOP}


def _refusal(code: int, reason: str) -> dict[str, object]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "an injected fault",
        "reason": reason,
        "code": code,
    }


def _status(code: int) -> web.Response:
    headers = {"Retry-After": "1"} if code in {429, 503} else {}
    return web.json_response(_refusal(code, _REASONS[code]), status=code, headers=headers)


def _reset(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
