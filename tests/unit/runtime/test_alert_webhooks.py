"""Webhooks: until when a POST is made again, which answers are final, and what is under way already."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest
from aiohttp import web

from volcanoio.framework.effects import Notify
from volcanoio.framework.events import Notified
from volcanoio.framework.probe import NoProbe
from volcanoio.runtime.controllers.http_effects import BACKOFF, AlertWebhooks


class Waits:
    """A clock whose waits are over at once; `slept` are their seconds."""

    rate = 1.0

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return 1000.0 + sum(self.slept)

    monotonic = now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    idle = sleep


class WebhookServer:
    """Webhooks of one server, which answers with these statuses in turn, the last one for ever."""

    def __init__(self, statuses: Sequence[int]) -> None:
        self._statuses = list(statuses)
        self.clock = Waits()
        self.bodies: list[object] = []
        self.outcomes: list[Notified] = []
        self.url = ""
        self.blocked = anyio.Event()
        self.blocked.set()
        self._heard = anyio.Event()
        self.notices = AlertWebhooks(self._take, clock=self.clock, probe=NoProbe())

    def _take(self, outcome: Notified) -> None:
        self.outcomes.append(outcome)
        self._heard.set()

    async def answer(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        await self.blocked.wait()
        status = self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]
        return web.Response(status=status, headers={"Location": "/"} if status == 302 else {})

    def post(self, lasts: float = 60.0, url: str = "", notice: str = "n") -> None:
        effect = Notify(notice=notice, url=url or self.url, body={"alert": "a"}, until=self.clock.now() + lasts)
        self.notices.take("job-controller", "ns/job", effect, cause=7)

    async def outcome(self) -> Notified:
        with anyio.fail_after(30):
            await self._heard.wait()
        return self.outcomes[0]


@asynccontextmanager
async def webhook_server(*statuses: int) -> AsyncIterator[WebhookServer]:
    made = WebhookServer(statuses or (204,))
    app = web.Application()
    app.router.add_post("/", made.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.notices.run)
            await anyio.wait_all_tasks_blocked()
            yield made
            tasks.cancel_scope.cancel()
    finally:
        await runner.cleanup()


async def test_an_event_is_passed_on_once_with_its_cause() -> None:
    async with webhook_server() as it:
        it.post()
        reported = await it.outcome()
        assert it.bodies == [{"alert": "a"}]
    assert reported == Notified(cause=7, controller="job-controller", key="ns/job", notice="n", delivered=True)


@pytest.mark.parametrize("refusal", [302, 404, 429, 500])
async def test_other_answers_are_no_end_and_the_waits_grow(refusal: int) -> None:
    async with webhook_server(refusal, refusal, refusal, 200) as it:
        it.post()
        assert (await it.outcome()).delivered
        assert it.clock.slept == [BACKOFF.base, 2 * BACKOFF.base, 4 * BACKOFF.base]


async def test_no_wait_is_longer_than_the_longest() -> None:
    async with webhook_server(*[500] * 12, 200) as it:
        it.post(lasts=86_400.0)
        await it.outcome()
        assert it.clock.slept[-1] == BACKOFF.cap


async def test_after_its_time_it_is_given_up_with_the_last_problem() -> None:
    async with webhook_server(503) as it:
        it.post(lasts=5.0)
        reported = await it.outcome()
        assert not reported.delivered
        assert reported.problem == "it answered 503 Service Unavailable"
        assert it.clock.slept == [1.0, 2.0]


async def test_a_permanent_refusal_is_not_retried() -> None:
    async with webhook_server(410) as it:
        it.post()
        assert not (await it.outcome()).delivered
        assert it.clock.slept == []


async def test_an_invalid_address_is_reported_at_once() -> None:
    async with webhook_server() as it:
        it.post(url="no address")
        assert "is not an http(s) address" in (await it.outcome()).problem
        assert it.clock.slept == []


async def test_a_notice_under_way_is_not_begun_again() -> None:
    async with webhook_server() as it:
        it.blocked = anyio.Event()
        it.post()
        it.post()
        it.blocked.set()
        await it.outcome()
        assert len(it.bodies) == 1
