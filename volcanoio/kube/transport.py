"""`Transport`: the byte-level interface to an API server, with two implementations.

`http_transport` connects to any API server. The embedded server has an in-process one with the same semantics, where a
write takes microseconds. Callers do not depend on which one they have.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from enum import StrEnum
from typing import Protocol, TypedDict, Unpack

import msgspec

from volcanoio.kube.clock import Clock


class ContentType(StrEnum):
    """Request body types."""

    JSON = "application/json"
    MERGE_PATCH = "application/merge-patch+json"
    JSON_PATCH = "application/json-patch+json"
    STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
    APPLY_PATCH = "application/apply-patch+yaml"


class Response(msgspec.Struct, frozen=True):
    """A complete response. `status` is the HTTP code; `body` is JSON (an object, a list or a Status)."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}

    @property
    def ok(self) -> bool:
        """Whether the code is 2xx."""
        return 200 <= self.status < 300


class SharedObject(bytes):
    """JSON of an object that several readers in this process receive, with the Structs it was decoded into.

    `decoded` is the object by decoded type, so that only the first reader decodes. The response to a write and the
    watch lines about that version share one instance. In-process transports return these; other callers use them as
    bytes.
    """

    decoded: dict[type[object], object]

    @classmethod
    def of(cls, data: bytes) -> SharedObject:
        """Return the argument if it is shared JSON already, else wrap it."""
        if isinstance(data, cls):
            return data
        made = cls(data)
        made.decoded = {}
        return made


class SharedLine(SharedObject):
    """A watch line with a shared object; `event` is its type."""

    event: str


class RequestOptions(TypedDict, total=False):
    """Keyword arguments of `Transport.request`."""

    query: Mapping[str, str] | None
    body: bytes
    content_type: str
    """Media type of the body; JSON if it is not given."""
    accept: str
    """Media type of the answer; JSON if it is not given."""
    timeout: float | None
    """Seconds; also sent to the server, so that it refuses a write that comes late."""
    fence: Callable[[], bool] | None
    """Asked again when the bytes are about to be sent; NotSent is raised if it returns False."""


class TransportError(Exception):
    """No response was received: no connection, a reset, or a timeout. A write may or may not have been carried out."""


class NotSent(TransportError):  # noqa: N818 - named for what happened
    """The fence of leadership was closed when the request was about to be sent; nothing was sent."""

    def __init__(self, method: str, path: str) -> None:
        super().__init__(f"{method} {path}: not sent, because this process may not write now")


class NoCredentials(TransportError):  # noqa: N818 - named for what happened
    """There are no valid credentials now; the last request, if one was sent, was refused because of that."""


class Transport(Protocol):
    """Requests and streams of an API server. Cancelling a call closes its connection."""

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        """Send one request and return its whole answer, whatever its status.

        Raises TransportError if there is no answer.
        """
        ...

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[list[bytes]]]:
        """Open a streamed GET (a watch, or logs): yields batches of whole lines without their newline.

        Entering raises StreamRefused for a status other than 200, TransportError if the server cannot be reached. The
        iterator ends when the server ends the stream and raises TransportError when the connection breaks.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


class RateLimitedTransport:
    """Transport that begins at most `qps` requests and streams per second, and up to `burst` at once after idleness.

    It is client-go's token bucket, in which each request takes the next free moment.
    """

    def __init__(self, transport: Transport, *, qps: float, burst: int, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._gap = 1 / qps
        self._saved = (burst - 1) * self._gap
        self._moment = float("-inf")
        """The moment that the last request took."""

    async def _admit(self) -> None:
        now = self._clock.monotonic()
        self._moment = max(self._moment + self._gap, now - self._saved)
        if self._moment > now:
            await self._clock.sleep(self._moment - now)

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        """Send one request when it is admitted."""
        await self._admit()
        return await self._transport.request(method, path, **options)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Open a streamed GET when it is admitted."""
        await self._admit()
        async with self._transport.stream(path, query=query) as lines:
            yield lines

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()


class StreamRefused(Exception):  # noqa: N818 - named for what happened
    """The server refused a stream request with an error status."""

    def __init__(self, response: Response) -> None:
        super().__init__(f"stream refused with HTTP {response.status}: {response.body[:200]!r}")
        self.response = response
