"""What crosses the border between the API server's semantics and its shells (HTTP, in-process)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import msgspec

from volcanoio.localcluster.apiserver.caller import OWNER, User
from volcanoio.localcluster.apiserver.streams.remote import Outcome, Remote, StreamOptions


class ApiRequest(msgspec.Struct, frozen=True):
    """One request. Header names are lower case; `query` holds all values of each parameter."""

    method: str
    path: str
    query: Mapping[str, list[str]] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""
    user: User = OWNER

    def first(self, name: str) -> str | None:
        """The first value of a query parameter."""
        values = self.query.get(name)
        return values[0] if values else None

    def flag(self, name: str) -> bool:
        """A boolean parameter as Go parses it: only `0` and `false` are false; absent is false."""
        value = self.first(name)
        return value is not None and value != "0" and value.lower() != "false"


class ApiResponse(msgspec.Struct, frozen=True):
    """A whole answer."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}
    content_type: str = "application/json"
    warnings: tuple[str, ...] = ()


class ApiStream(msgspec.Struct, frozen=True):
    """A streamed answer (a watch, or followed logs): batches of whole lines, each without its newline.

    With `raw` a batch holds bytes that are sent as they are. Closing the iterator (`aclose`) ends the subscription.
    """

    batches: AsyncIterator[list[bytes]]
    content_type: str = "application/json"
    warnings: tuple[str, ...] = ()
    raw: bool = False


class ApiUpgrade(ApiResponse, frozen=True, kw_only=True):
    """An offer to a connection that speaks another protocol from now on; to any other it is a refusal."""

    status: int = 400
    body: bytes = (
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        b'"message":"Upgrade request required","reason":"BadRequest","code":400}'
    )


class ApiStreams(ApiUpgrade, frozen=True, kw_only=True):
    """An offer to carry a container's streams; `serve` is called once, with the client."""

    serve: Callable[[Remote], Awaitable[Outcome]]
    options: StreamOptions


class ApiForward(ApiUpgrade, frozen=True, kw_only=True):
    """An offer to carry connections to ports of a pod, at the first of its addresses that answers."""

    pod: str
    addresses: tuple[str, ...]
