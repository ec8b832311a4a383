"""`Sender`: sends one write with retries, checked against leadership, until its outcome is final.

`FencedTransport` holds back all writes of a component that does not lead.
"""

from __future__ import annotations

import asyncio
import random
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
    """Limits of a Sender: concurrent requests, and times in seconds.

    `timeout` is that of each attempt and is sent to the server; a request is retried for up to `patience` seconds.
    """

    concurrency: int = 64
    timeout: float = WRITE_BOUND
    patience: float = 300.0


DEFAULT_LIMITS = SendLimits()


class Sender:
    """Sender of requests within limits.

    Transport errors, 429 and 5xx are retried with back-off, never before Retry-After; other responses are final. While
    the fence is closed a write waits in the same way: a leader whose renewals fail for a moment goes on.
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
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._timeout = limits.timeout
        self._patience = limits.patience
        self._rng = random.Random(f"{seed}/sender")

    async def send(self, request: Request) -> Outcome:
        """Send a request until its outcome is final; server and network errors do not raise. Only writes are fenced."""
        fence = None if request.method == "GET" else self._fence
        began = self._clock.monotonic()
        backoff: RetryBackoff | None = None
        unsure = False
        while True:
            async with self._slots:
                may_send = fence is None or fence()
                outcome = await self._attempt(request) if may_send else _NOT_SENT
            error = outcome.error
            if error is None or not _may_pass(error):
                return replace(outcome, unsure=True) if unsure else outcome
            unsure = unsure or (error.code != 429 and error.reason != FENCED)
            backoff = backoff or RetryBackoff(self._rng)
            wait = backoff.next(error.retry_after)
            if self._clock.monotonic() + wait > began + self._patience:
                return replace(outcome, unsure=unsure)
            await self._clock.sleep(wait)

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
