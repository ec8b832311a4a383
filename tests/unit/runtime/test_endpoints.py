"""Checks of endpoints: who answers, who refuses, who says nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from aiohttp import web

from volcanoio.framework.effects import CheckEndpoint
from volcanoio.framework.events import EffectFailed, EffectSucceeded, Event
from volcanoio.runtime.controllers.http_effects import EndpointChecks, NetworkEndpoints


@asynccontextmanager
async def server() -> AsyncIterator[int]:
    """A server that says in its status what the path asks for, if the header is there; gives its port."""

    async def answer(request: web.Request) -> web.Response:
        if request.match_info["status"] == "0":
            await asyncio.Event().wait()
        wanted = int(request.match_info["status"])
        return web.Response(status=wanted if request.headers.get("X-A") == "b" else 400)

    app = web.Application()
    app.router.add_get("/{status}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def check(port: int, path: str = "", timeout: float = 5.0) -> CheckEndpoint:
    return CheckEndpoint(id=7, check="c", host="127.0.0.1", port=port, path=path, headers={"X-A": "b"}, timeout=timeout)


@pytest.mark.parametrize(("path", "status"), [("/200", 200), ("204", 204), ("/302", 302), ("/503", 503), ("", 200)])
async def test_results_of_checks(path: str, status: int) -> None:
    async with server() as port:
        assert (await NetworkEndpoints().check(check(port, path)))[0] == status


async def test_a_missing_server_and_a_silent_server_fail() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        for path in ("", "/x"):
            status, reason = await NetworkEndpoints().check(check(port, path))
            assert (status, bool(reason)) == (0, True)
    async with server() as port:
        assert await NetworkEndpoints().check(check(port, "/0", timeout=0.01)) == (0, "no answer within 0.01 s")


@pytest.mark.parametrize(("status", "expected"), [(200, EffectSucceeded), (399, EffectSucceeded), (404, EffectFailed)])
async def test_each_check_has_an_outcome(status: int, expected: type[Event]) -> None:
    class Always:
        async def check(self, effect: CheckEndpoint) -> tuple[int, str]:
            return status, "said"

    heard: list[Event] = []
    done = anyio.Event()

    def hear(event: Event) -> None:
        heard.append(event)
        done.set()

    checks = EndpointChecks(hear, Always())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(checks.run)
        await anyio.wait_all_tasks_blocked()
        checks.take("jobflow-controller", "ns/f", check(1), cause=3)
        with anyio.fail_after(5):
            await done.wait()
        tasks.cancel_scope.cancel()
    (event,) = heard
    assert isinstance(event, expected)
    assert isinstance(event, EffectSucceeded | EffectFailed)
    assert (event.key, event.effect_id, event.cause, checks.asking) == ("ns/f", 7, 3, 0)
