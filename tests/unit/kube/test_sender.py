"""Writes under overload: fewer at a time, none before Retry-After, and all are carried out."""

from __future__ import annotations

import asyncio

from tests.unit.kube.scripted import Call, ScriptedTransport, answer, refusal
from tests.unit.runtime.virtual_time import VirtualClock, run_until_idle
from volcanoio.kube import requests
from volcanoio.kube.requests import Request
from volcanoio.kube.sender import Sender, SendLimits
from volcanoio.kube.transport import Response
from volcanoio.model.kinds import POD


class Server:
    """Carries out at most `room` requests at a time, one a second each; others get 429 with Retry-After."""

    def __init__(self, room: int) -> None:
        self.clock = VirtualClock()
        self.room = room
        self.in_flight = 0
        self.sent: list[float] = []
        """Times at which requests arrived."""
        self.fails: set[str] = set()
        """Pods whose first write fails."""
        self.refused: list[float] = []
        """Times of the answers 429."""
        self.transport = ScriptedTransport(self.serve)

    async def serve(self, call: Call) -> Response:
        self.sent.append(self.clock.monotonic())
        if call.path.rsplit("/")[-1] in self.fails:
            self.fails.clear()
            return refusal(500, "InternalError")
        if self.in_flight >= self.room:
            self.refused.append(self.clock.monotonic())
            return refusal(429, "TooManyRequests", headers={"Retry-After": "3"})
        self.in_flight += 1
        await self.clock.sleep(1.0)
        self.in_flight -= 1
        return answer({})

    async def carry_out(self, sender: Sender, number: int) -> float:
        """Send that many writes; returns the seconds until all were carried out."""
        began = self.clock.monotonic()
        outcomes = [asyncio.ensure_future(sender.send(write(each))) for each in range(number)]
        await run_until_idle()
        while not all(each.done() for each in outcomes):
            await self.clock.advance(1.0)
        assert [each.result().error for each in outcomes] == [None] * number
        return self.clock.monotonic() - began


def write(number: int) -> Request:
    return requests.patch(POD, "ns", f"p{number}", {"metadata": {"labels": {"a": "b"}}})


async def test_after_an_overload_nothing_is_sent_before_retry_after() -> None:
    server = Server(room=20)
    await server.carry_out(Sender(server.transport, clock=server.clock), 200)
    paused = [at for at in server.sent if any(since < at < since + 3 for since in server.refused)]
    assert paused == []
    assert {call.path.rsplit("/")[-1] for call in server.transport.calls} == {f"p{number}" for number in range(200)}


async def test_the_number_of_writes_in_flight_follows_what_the_server_takes() -> None:
    """A fixed number in flight, as it was, has six requests refused for each that is carried out here."""
    server = Server(room=10)
    sender = Sender(server.transport, clock=server.clock)
    await server.carry_out(sender, 200)
    assert len(server.refused) < 200
    before = len(server.refused)
    await server.carry_out(sender, 50)
    assert len(server.refused) - before < 25


async def test_without_an_overload_the_limit_is_used() -> None:
    server = Server(room=64)
    took = await server.carry_out(Sender(server.transport, clock=server.clock), 192)
    assert took == 3
    assert server.refused == []


async def test_a_request_waits_for_its_turn_for_longer_than_it_is_retried() -> None:
    server = Server(room=1)
    sender = Sender(server.transport, clock=server.clock, limits=SendLimits(concurrency=1, patience=5.0))
    server.fails = {"p19"}
    assert await server.carry_out(sender, 20) >= 20


async def test_a_cancelled_write_leaves_its_place_to_others() -> None:
    server = Server(room=9)
    sender = Sender(server.transport, clock=server.clock, limits=SendLimits(concurrency=1))
    first, waiting, last = (asyncio.ensure_future(sender.send(write(number))) for number in range(3))
    await run_until_idle()
    first.cancel()
    waiting.cancel()
    await server.clock.advance(1.0)
    assert last.done()
    assert len(server.sent) == 2
