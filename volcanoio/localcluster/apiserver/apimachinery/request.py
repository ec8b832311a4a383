"""Requests and responses of the API server, independent of their transport.

HTTP and the in-process transport both turn what they receive into an `ApiRequest` and send an `ApiResponse`, an
`ApiStream` or an `ApiUpgrade` back. `User` is the authenticated user. `REQUEST` holds the request that is being
carried out, as Go's handlers carry it in a context: an AdmissionReview names its user and options.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Final

import msgspec

from volcanoio.localcluster.apiserver.streams.remote import Outcome, Remote, StreamOptions
from volcanoio.model.base import Manifest

ANONYMOUS_NAME: Final = "system:anonymous"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MASTERS: Final = "system:masters"


class User(msgspec.Struct, frozen=True):
    """An authenticated user (`authentication.k8s.io/v1 UserInfo`)."""

    username: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}

    @property
    def anonymous(self) -> bool:
        """Whether the user is not authenticated."""
        return self.username == ANONYMOUS_NAME

    def info(self) -> Manifest:
        """Return the UserInfo of reviews, without empty fields."""
        found: Manifest = {"username": self.username}
        if self.uid:
            found["uid"] = self.uid
        if self.groups:
            found["groups"] = list(self.groups)
        if self.extra:
            found["extra"] = {key: list(values) for key, values in self.extra.items()}
        return found


OWNER: Final = User("volcanoio", (MASTERS, AUTHENTICATED))
"""The owner of the server: the holder of its token, and its own components."""

ANONYMOUS: Final = User(ANONYMOUS_NAME, (UNAUTHENTICATED,))
"""The user of a request without credentials."""

REQUEST: Final[ContextVar[ApiRequest | None]] = ContextVar("request", default=None)
"""The current request; None within the server's own controllers."""


def current_user() -> User:
    """Return the user of the current request."""
    request = REQUEST.get()
    return OWNER if request is None else request.user


class ApiRequest(msgspec.Struct, frozen=True):
    """One request. Header names are lower case; `query` holds all values of each parameter."""

    method: str
    path: str
    query: Mapping[str, list[str]] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""
    user: User = OWNER

    def first(self, name: str) -> str | None:
        """Return the first value of a query parameter."""
        values = self.query.get(name)
        return values[0] if values else None

    def flag(self, name: str) -> bool:
        """Return a boolean parameter as Go parses it: only `0` and `false` are false.

        Absent is false.
        """
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
    """Streamed answer (a watch, or followed logs).

    Batches of whole lines, each without its newline.

    With `raw` a batch holds bytes that are sent as they are. Closing the iterator (`aclose`) ends the subscription.
    """

    batches: AsyncIterator[list[bytes]]
    content_type: str = "application/json"
    warnings: tuple[str, ...] = ()
    raw: bool = False


class ApiUpgrade(ApiResponse, frozen=True, kw_only=True):
    """An offer to upgrade the connection; for a client without an upgrade it is a refusal."""

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
    """Offer to forward connections to ports of a pod.

    The first of its addresses that answers is used.
    """

    pod: str
    addresses: tuple[str, ...]
