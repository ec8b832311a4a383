"""The Authorization header of requests, and how it is kept valid.

A header that can expire is renewed shortly before, on a thread of its own: requests go on with the old one meanwhile.
They wait for the new one only if the old one has expired or was refused. Transports on several event loops, such as
that of leader election, share one source.
"""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import structlog

_REREAD = 30.0
"""Seconds after which a token file is read again."""
_LEAD = 60.0
"""Seconds before its expiry at which a header is renewed; a quarter of its lifetime if that is less."""
_PAUSE = 5.0
"""Least seconds between the end of one renewal and the start of the next."""
_LOG = structlog.get_logger(__name__)


class CredentialsError(Exception):
    """There are no valid credentials; the message contains the reason and the next step."""


class Credentials(Protocol):
    """Source of the Authorization header of requests."""

    async def header(self, *, refused: str | None = None) -> str:
        """Return the header's value, "" for none. Raises CredentialsError.

        `refused` is a value that the server did not accept; another one is returned if there is one.
        """
        ...


class StaticCredentials:
    """A fixed header."""

    def __init__(self, value: str = "") -> None:
        self._value = value

    async def header(self, *, refused: str | None = None) -> str:
        """Return the header's value."""
        del refused
        return self._value


class TokenFile:
    """A bearer token in a file that another program rotates. Raises CredentialsError if it cannot be read at first."""

    def __init__(self, path: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._now = now
        self._value, self._read_at = self._read(), now()

    async def header(self, *, refused: str | None = None) -> str:
        """Return the token, read again every 30 s; while the file has none, the last one."""
        now = self._now()
        if now - self._read_at > _REREAD or refused == self._value:
            self._read_at = now
            with suppress(CredentialsError):  # the file is being replaced
                self._value = self._read()
        return self._value

    def _read(self) -> str:
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise CredentialsError(f"{self._path}: {error.strerror}; check the path and its permissions") from error
        except UnicodeDecodeError:  # its text contains the file's
            raise CredentialsError(f"{self._path}: not text; write a token to it") from None
        if not token:
            raise CredentialsError(f"{self._path}: empty; write a token to it")
        return bearer_authorization(token)


def bearer_authorization(token: str) -> str:
    """Return the header's value for a token (RFC 6750). Raises CredentialsError."""
    if not (token.isascii() and token.isprintable()):
        raise CredentialsError("the token has a character that no header may have; get a new token")
    return f"Bearer {token}"


def basic_authorization(username: str, password: str) -> str:
    """Return the header's value for a name and a password (RFC 7617)."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


@dataclass(frozen=True, slots=True)
class Issued:
    """Credentials that another program issued.

    `certificate` is a client certificate and its key (PEM). `expires` is in seconds since the epoch.
    """

    header: str = ""
    certificate: tuple[bytes, bytes] | None = None
    expires: float = float("inf")


Issue: TypeAlias = Callable[[Issued | None], Issued]
"""Returns credentials other than the given ones; blocks, within a limit of its own. Raises CredentialsError."""


class RenewedCredentials:
    """Credentials that are issued again shortly before they expire and when the server refuses them.

    Any thread and event loop may use them; `issue` is called once for all that wait.
    """

    def __init__(self, issue: Issue, *, now: Callable[[], float] = time.time) -> None:
        self._issue = issue
        self._now = now
        self._lock = threading.Lock()
        self._issued: Issued | None = None
        self._due = 0.0
        self._renewal: Future[str] | None = None
        """The last renewal; its result is the error, "" for none."""
        self._ended = float("-inf")

    @property
    def certificate(self) -> tuple[bytes, bytes] | None:
        """The client certificate and its key (PEM) that were issued last."""
        return None if self._issued is None else self._issued.certificate

    async def header(self, *, refused: str | None = None) -> str:
        """Return the header's value, without waiting while the last one may be valid. Raises CredentialsError."""
        with self._lock:
            issued, now = self._issued, self._now()
            usable = issued is not None and issued.header != refused and now < issued.expires
            if issued is not None and usable and now < self._due:
                return issued.header
            renewal = self._begin(now)
        if issued is not None and usable:
            return issued.header
        if error := await asyncio.wrap_future(renewal):
            raise CredentialsError(error)
        assert self._issued is not None
        return self._issued.header

    def _begin(self, now: float) -> Future[str]:
        """Return the renewal that runs or ended just now, else a new one."""
        last = self._renewal
        if last is not None and (not last.done() or 0 <= now - self._ended < _PAUSE):
            return last
        renewal: Future[str] = Future()
        renewal.set_running_or_notify_cancel()  # so that no waiting task can cancel it for the others
        self._renewal = renewal
        threading.Thread(target=self._renew, args=(renewal,), name="credentials", daemon=True).start()
        return renewal

    def _renew(self, renewal: Future[str]) -> None:
        before = self._issued
        try:
            self._adopt(self._issue(before))
            error = ""
        except CredentialsError as problem:
            error = str(problem)
        except Exception as problem:
            _LOG.exception("the renewal of credentials raised an error")
            error = f"the renewal raised {type(problem).__name__}; see the log"
        if error and before is not None:
            _LOG.warning("credentials were not renewed", error=error)
        self._ended = self._now()
        renewal.set_result(error)

    def _adopt(self, issued: Issued) -> None:
        left = issued.expires - self._now()
        with self._lock:
            self._issued, self._due = issued, issued.expires - min(_LEAD, left / 4)
