"""HTTP endpoints of a component: health, metrics and a profile, on Volcano's ports.

`/healthz` (and `/healthz/ping`) answers while the event loop runs; `/livez` fails when the component is stuck, so that
the kubelet restarts it; `/readyz` fails until its caches are filled and again when it ends. `/metrics` is Prometheus'
text format. `/debug/profile?seconds=N` samples the stacks of all threads, as text that flame graph tools read.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NamedTuple, TypeAlias

from aiohttp import web

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of Prometheus' text format."""
SAMPLE_INTERVAL = 0.01
"""Seconds between two samples of a profile."""
DEFAULT_SECONDS, MAX_SECONDS = 30.0, 300.0
"""Duration of a profile."""

Problem: TypeAlias = Callable[[], str]
"""Returns why a check fails, "" if it does not."""
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class EndpointError(Exception):
    """Endpoints cannot be served; the message contains the cause and the next step."""


class TlsFiles(NamedTuple):
    """Certificate and key of a server, and the CA of its clients, which may be without certificate."""

    authority: Path
    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return a server's TLS context; raises EndpointError."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_OPTIONAL
        try:
            context.load_cert_chain(self.certificate, self.key)
            context.load_verify_locations(self.authority)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(map(str, self))
            msg = f"the certificates cannot be used: {error}; give PEM files that can be read (given: {files})"
            raise EndpointError(msg) from None
        return context


@dataclass(frozen=True)
class Health:
    """Checks of a component: `stuck` for /livez, `unready` for /readyz."""

    stuck: Problem
    unready: Problem

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers by path."""
        return {
            "/healthz": _check(lambda: ""),
            "/healthz/ping": _check(lambda: ""),
            "/livez": _check(self.stuck),
            "/readyz": _check(self.unready),
        }


def _check(problem: Problem) -> Handler:
    async def answer(request: web.Request) -> web.Response:  # noqa: ARG001
        reason = problem()
        return web.Response(text=reason or "ok", status=500 if reason else 200)

    return answer


def metrics_handler(render: Callable[[], Awaitable[bytes]]) -> Handler:
    """Return the handler of /metrics."""

    async def answer(request: web.Request) -> web.Response:  # noqa: ARG001
        return web.Response(body=await render(), headers={"Content-Type": METRICS_TYPE})

    return answer


class Profiles:
    """Handler of /debug/profile, one profile at a time. The sampling thread takes a few percent of a core."""

    def __init__(self) -> None:
        self._busy = asyncio.Lock()

    async def answer(self, request: web.Request) -> web.Response:
        """Sample for `seconds` and return lines of stacks with their counts."""
        text = request.query.get("seconds", str(DEFAULT_SECONDS))
        try:
            seconds = float(text)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= MAX_SECONDS:
            msg = f'seconds: "{text}" is not a number from 0 to {MAX_SECONDS:.0f}; write ?seconds=30\n'
            return web.Response(status=400, text=msg)
        if self._busy.locked():
            return web.Response(status=409, text="a profile is being taken; ask again when it has ended\n")
        async with self._busy:
            return web.Response(text=await asyncio.to_thread(sample, seconds))


def sample(seconds: float, interval: float = SAMPLE_INTERVAL) -> str:
    """Sample the stacks of all other threads for that long; blocks.

    Returns one line `thread;outermost;...;innermost COUNT` per stack: the collapsed form of flame graph tools.
    """
    stacks: Counter[str] = Counter()
    own = threading.get_ident()
    until = time.monotonic() + seconds
    while True:
        names = {thread.ident: thread.name.replace(";", ":") for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():
            if ident != own:
                stacks[";".join((names.get(ident, "thread"), *_functions(frame)))] += 1
        if (left := until - time.monotonic()) <= 0:
            break
        time.sleep(min(interval, left))
    return "".join(f"{stack} {count}\n" for stack, count in stacks.most_common())


def _functions(frame: FrameType | None) -> list[str]:
    """Return the functions of a stack, the outermost first."""
    found = []
    while frame is not None:
        module = str(frame.f_globals.get("__name__", "?"))
        found.append(f"{module}:{frame.f_code.co_qualname}".replace(";", ":"))
        frame = frame.f_back
    return found[::-1]


@asynccontextmanager
async def serving(
    host: str, port: int, handlers: Mapping[str, Handler], *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve GET requests while open; yields the port. `host` "" is every address of the machine.

    Raises EndpointError if the address cannot be used.
    """
    application = web.Application()
    for path, handler in handlers.items():
        application.router.add_get(path, handler)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host or None, port, ssl_context=tls, reuse_address=True).start()
        except OSError as error:
            msg = f"cannot listen at {host}:{port}: {error.strerror or error}; choose another address"
            raise EndpointError(msg) from None
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
