"""Questions are posted, and what comes back is published within their limits, whatever the server does."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from aiohttp import web

from tests.unit.runtime.metrics_server import server
from volcanoio.framework.events import Event
from volcanoio.framework.probe import NoProbe
from volcanoio.framework.scheduling_effects import Question
from volcanoio.framework.scheduling_events import AskAnswered
from volcanoio.runtime.scheduler.plugin_io import MAX_ANSWER_BYTES, QuestionHost

Handler = Callable[[web.Request], Awaitable[web.Response]]


def question(address: str, key: str = "k", body: Any = None, timeout: float = 20.0) -> Question:
    return Question(plugin="p", key=key, url=f"{address}/verb", body=body, timeout=timeout)


async def answers(handler: Handler, *bodies: Any) -> list[AskAnswered]:
    """What is published for questions with these bodies, keyed by their numbers."""
    published: list[Event] = []
    async with server(handler) as address, QuestionHost(published.extend, probe=NoProbe()) as host:
        with anyio.fail_after(60):
            await host.answer([question(address, str(at), body) for at, body in enumerate(bodies)])
    return [event for event in published if isinstance(event, AskAnswered)]


async def test_answers_come_in_the_order_of_the_questions() -> None:
    async def echo(request: web.Request) -> web.Response:
        assert request.content_type == "application/json"
        return web.json_response({"got": json.loads(await request.text())})

    said = await answers(echo, *range(40))
    assert [(each.key, each.value) for each in said] == [(str(at), {"got": at}) for at in range(40)]


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (500, b"{}", "HTTP 500"),
        (404, b"", "HTTP 404"),
        (200, b"{", "DecodeError"),
        (200, b" " * (MAX_ANSWER_BYTES + 1), "larger than 10 MiB"),
    ],
)
async def test_invalid_answers_are_faults(status: int, body: bytes, fault: str) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status, body=body)

    said = await answers(answer, {})
    assert fault in said[0].fault
    assert said[0].value is None


async def test_one_that_takes_too_long_does_not_hold_the_others() -> None:
    release = anyio.Event()

    async def answer(request: web.Request) -> web.Response:
        if json.loads(await request.text()) == "slow":
            await release.wait()
        return web.json_response({})

    published: list[Event] = []
    async with server(answer) as address, QuestionHost(published.extend, probe=NoProbe()) as host:
        await host.answer([question(address, "slow", "slow", 0.05), question(address, "quick", "quick")])
        release.set()
    faults = {each.key: each.fault for each in published if isinstance(each, AskAnswered)}
    assert faults == {"slow": "no answer within 0.05 s", "quick": ""}


async def test_many_unanswered_probes_time_out_in_parallel() -> None:
    release = anyio.Event()

    async def never(_request: web.Request) -> web.Response:
        await release.wait()
        return web.json_response({})

    published: list[Event] = []
    async with server(never) as address, QuestionHost(published.extend, probe=NoProbe()) as host:
        with anyio.fail_after(60):
            await host.answer([question(address, str(at), timeout=0.02) for at in range(400)])
        release.set()
    faults = [each.fault for each in published if isinstance(each, AskAnswered)]
    assert len(faults) == 400
    assert all(fault.startswith("no answer within") for fault in faults)
    assert any("among 400 questions" in fault for fault in faults)


async def test_a_missing_server_is_a_fault_and_notifications_have_no_answer() -> None:
    published: list[Event] = []
    async with QuestionHost(published.extend, probe=NoProbe()) as host:
        await host.notify(question("http://127.0.0.1:9"))
        assert published == []
        await host.answer([question("http://127.0.0.1:9")])
    assert isinstance(published[0], AskAnswered)
    assert "127.0.0.1" in published[0].fault
