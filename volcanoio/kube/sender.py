"""`Sender`: sends one write with retries, checked against leadership, until its outcome is final.

`InFlightWindow` adapts the number in flight to 429 responses; the Binder has one, too. `FencedTransport` holds back all
writes of a component that does not lead.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Unpack

import msgspec
from msgspec.structs import replace

from volcanoio.kube import requests
from volcanoio.kube.clock import Clock, RetryBackoff
from volcanoio.kube.errors import ApiError, NotFound, error_of
from volcanoio.kube.requests import Request
from volcanoio.kube.transport import NotSent, RequestOptions, Response, Transport, TransportError
from volcanoio.model.kinds import Kind

LeaderFence = Callable[[], bool]
"""Returns whether a write may be sent now (the fence of leadership); called before every attempt."""

WRITE_BOUND = 5.0
"""Seconds within which a write that was sent has ended, at the server and here."""
FENCED = "NotLeader"
GIVEN_UP = "OutcomeUnknown"


class Outcome(msgspec.Struct, frozen=True):
    """Outcome of a write: a 2xx `response`, or an `error`.

    The error's code is 0 if there was no response (GIVEN_UP) or nothing was sent (FENCED). `unsure` means that an
    attempt before the last one may have been carried out: then AlreadyExists may refer to our own object.
    """

    response: Response | None = None
    error: ApiError | None = None
    unsure: bool = False


_NOT_SENT = Outcome(error=ApiError(0, FENCED, "this process may not write now"))


class SendLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a Sender: the most concurrent requests, and times in seconds.

    `timeout` is that of each attempt and is sent to the server; a request is retried for up to `patience` seconds
    after it was sent first.
    """

    concurrency: int = 64
    timeout: float = WRITE_BOUND
    patience: float = 300.0


DEFAULT_LIMITS = SendLimits()


class InFlightWindow:
    """Limit of requests in flight that follows the server's load.

    It grows by one for each window of successes, halves on overload, and pauses for the Retry-After of the server.
    Times are seconds of a monotonic clock. Several 429s for requests that were in flight together count as one
    overload.
    """

    def __init__(self, *, start: int = 64, least: int = 4, most: int = 256) -> None:
        self._least = min(least, most)
        self._most = most
        self._size = float(min(start, most))
        self._cut_at = float("-inf")
        self._paused_until = float("-inf")
        self.in_flight = 0

    @property
    def size(self) -> int:
        """Number of requests that may be in flight."""
        return int(self._size)

    def has_room(self, now: float) -> bool:
        """Return whether one more request may be sent."""
        return self.in_flight < self.size and now >= self._paused_until

    def pause_left(self, now: float) -> float:
        """Return the seconds until the next request may be sent; 0 if it may be sent now."""
        return max(0.0, self._paused_until - now)

    def succeeded(self) -> None:
        """Count a successful response."""
        self._size = min(float(self._most), self._size + 1.0 / self._size)

    def overloaded(self, *, sent_at: float, now: float, retry_after: float) -> None:
        """Count a 429 response to a request that was sent at `sent_at`."""
        if sent_at > self._cut_at:
            self._size = max(float(self._least), self._size / 2)
            self._cut_at = now
        self._paused_until = max(self._paused_until, now + retry_after)


class Sender:
    """Sender of requests within limits, in the order of the calls.

    Transport errors, 429 and 5xx are retried with back-off, never before Retry-After; other responses are final. A 429
    also halves the number in flight, and holds the other requests back for its Retry-After. While the fence is closed
    a write waits as after an error: a leader whose renewals fail for a moment goes on.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock,
        fence: LeaderFence | None = None,
        seed: int = 0,
        limits: SendLimits = DEFAULT_LIMITS,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._fence = fence
        self._window = InFlightWindow(start=limits.concurrency, most=limits.concurrency)
        self._waiting: deque[asyncio.Future[None]] = deque()
        """Requests that wait for a place in the window."""
        self._pause: asyncio.Task[None] | None = None
        self._timeout = limits.timeout
        self._patience = limits.patience
        self._rng = random.Random(f"{seed}/sender")

    async def send(self, request: Request) -> Outcome:
        """Send a request until its outcome is final; server and network errors do not raise. Only writes are fenced."""
        fence = None if request.method == "GET" else self._fence
        began: float | None = None
        backoff: RetryBackoff | None = None
        unsure = False
        while True:
            await self._enter()
            sent_at = self._clock.monotonic()
            began = sent_at if began is None else began
            try:
                outcome = await self._attempt(request) if fence is None or fence() else _NOT_SENT
                error = outcome.error
                self._adapt(error, sent_at)
            finally:
                self._leave()
            if error is None or not _may_pass(error):
                return replace(outcome, unsure=True) if unsure else outcome
            unsure = unsure or (error.code != 429 and error.reason != FENCED)
            backoff = backoff or RetryBackoff(self._rng)
            wait = backoff.next(error.retry_after)
            if self._clock.monotonic() + wait > began + self._patience:
                return replace(outcome, unsure=unsure)
            await self._clock.sleep(wait)

    async def _enter(self) -> None:
        """Wait for a place in the window."""
        if not self._waiting and self._window.has_room(self._clock.monotonic()):
            self._window.in_flight += 1
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._admit()
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # the place was given before the cancellation
                self._leave()
            raise

    def _leave(self) -> None:
        self._window.in_flight -= 1
        self._admit()

    def _admit(self) -> None:
        """Give the places that are free to waiting requests, now and when a pause has ended."""
        now = self._clock.monotonic()
        while self._waiting and self._window.has_room(now):
            place = self._waiting.popleft()
            if not place.done():
                self._window.in_flight += 1
                place.set_result(None)
        if self._waiting and self._pause is None and (seconds := self._window.pause_left(now)):
            self._pause = asyncio.create_task(self._go_on_after(seconds))

    async def _go_on_after(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._pause = None
        self._admit()

    def _adapt(self, error: ApiError | None, sent_at: float) -> None:
        """Adapt the window to a response."""
        if error is None:
            self._window.succeeded()
        elif error.code == 429:
            now = self._clock.monotonic()
            self._window.overloaded(sent_at=sent_at, now=now, retry_after=error.retry_after)

    async def _attempt(self, request: Request) -> Outcome:
        try:
            response = await request.send(self._transport, timeout=self._timeout)
        except NotSent:
            return _NOT_SENT
        except TransportError as lost:
            return Outcome(error=ApiError(0, GIVEN_UP, str(lost)))
        return Outcome(response=response) if response.ok else Outcome(error=error_of(response, now=self._clock.now()))


def _may_pass(error: ApiError) -> bool:
    """Return whether a retry may help: no response, overload, or a server error."""
    return error.code in (0, 429) or error.code >= 500


async def is_gone(sender: Sender, kind: Kind, namespace: str, name: str, uid: str) -> bool:
    """Return whether the name is free or belongs to another uid; False also without a response."""
    found = await sender.send(requests.get(kind, namespace, name))
    if found.response is None:
        return isinstance(found.error, NotFound)
    return msgspec.json.decode(found.response.body, type=_PresentObject).metadata.uid != uid


class _PresentMeta(msgspec.Struct, frozen=True):
    uid: str = ""


class _PresentObject(msgspec.Struct, frozen=True):
    metadata: _PresentMeta = _PresentMeta()


class FencedTransport:
    """Transport of a component that only writes while `fence()` is True; every write ends within WRITE_BOUND.

    Raises NotSent for a write while the fence is closed. Reads and streams pass.
    """

    def __init__(self, transport: Transport, fence: LeaderFence, clock: Clock) -> None:
        self._transport = transport
        self._fence = fence
        self._clock = clock
        self._open = 0
        self._none_open = asyncio.Event()
        self._none_open.set()
        self._quiet_from = float("-inf")
        """Time from which no write that ended without an answer is carried out."""

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        """Send one request; a write is checked once more when its bytes are sent."""
        if method == "GET":
            return await self._transport.request(method, path, **options)
        if not self._fence():
            raise NotSent(method, path)
        options["timeout"] = min(options.get("timeout") or WRITE_BOUND, WRITE_BOUND)
        options["fence"] = self._fence
        self._open += 1
        self._none_open.clear()
        answered = False
        try:
            response = await self._transport.request(method, path, **options)
            answered = True
        except NotSent:
            answered = True
            raise
        finally:
            if not answered:
                self._quiet_from = self._clock.monotonic() + WRITE_BOUND
            self._open -= 1
            if not self._open:
                self._none_open.set()
        return response

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[list[bytes]]]:
        """Open a streamed GET."""
        return self._transport.stream(path, query=query)

    async def quiet(self) -> None:
        """Return when no write is under way, here or at the server."""
        while self._open or (left := self._quiet_from - self._clock.monotonic()) > 0:
            if self._open:
                await self._none_open.wait()
            else:
                await self._clock.idle(left)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()
