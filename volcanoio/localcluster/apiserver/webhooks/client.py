"""Calls to webhooks over HTTPS, with connections that are kept per authority and closed with the server."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from volcanoio.localcluster.apiserver.webhooks.endpoints import Endpoint

_IDLE_SECONDS: Final = 5.0
_MAX_ANSWER: Final = 8 * 1024 * 1024
_TEXTS: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    403: "unknown",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    415: "the body of the request was in an unknown format - accepted media types include: application/json",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
}
"""What Kubernetes' clients make of an answer without a Status (apimachinery `NewGenericServerResponse`)."""


class CallFailed(Exception):  # noqa: N818 - named for what happened
    """The webhook gave no answer; the text says why, as Go's client words it."""


class Caller:
    """Posts to webhooks."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[bytes, ssl.SSLContext] = {}

    async def post(self, endpoint: Endpoint, authority: bytes, body: bytes, seconds: int) -> bytes:
        """The body of a 200 answer within `seconds`; raises CallFailed."""
        shown = f'Post "{endpoint.shown}?timeout={seconds}s"'
        try:
            context = self._context(authority)
        except ssl.SSLError as error:
            msg = f"unable to load root certificates: {error.reason or error}"
            raise CallFailed(msg) from None
        try:
            async with asyncio.timeout(seconds):
                return await self._post(endpoint, context, body, seconds)
        except TimeoutError:
            msg = f"{shown}: context deadline exceeded"
            raise CallFailed(msg) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            msg = f"{shown}: {_reason(error, urlsplit(endpoint.url).netloc)}"
            raise CallFailed(msg) from None

    async def _post(self, endpoint: Endpoint, context: ssl.SSLContext, body: bytes, seconds: int) -> bytes:
        if self._session is None:
            connector = aiohttp.TCPConnector(keepalive_timeout=_IDLE_SECONDS, limit=0)
            # A proxy of the environment must not be asked: a webhook is called by its address.
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False, trust_env=False)
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
        headers["Host"] = urlsplit(endpoint.shown).netloc
        async with self._session.post(
            endpoint.url,
            params={"timeout": f"{seconds}s"},
            data=body,
            headers=headers,
            ssl=context,
            server_hostname=endpoint.server_name,
            allow_redirects=False,
        ) as response:
            answer = await response.content.read(_MAX_ANSWER)
            if not 200 <= response.status < 300:
                raise CallFailed(_unexpected(response.status, response.headers.get("Content-Type", ""), answer))
            return answer

    def _context(self, authority: bytes) -> ssl.SSLContext:
        """TLS settings that trust one authority; those of the machine where none is named."""
        found = self._contexts.get(authority)
        if found is None:
            found = ssl.create_default_context(cadata=authority.decode("ascii", "replace") if authority else None)
            self._contexts[authority] = found
        return found

    async def aclose(self) -> None:
        """Close what is open and wait until it is closed."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _unexpected(status: int, content_type: str, answer: bytes) -> str:
    if status in _TEXTS:
        return _TEXTS[status]
    if status >= 500:
        is_text = not content_type or content_type.startswith("text/")
        text = answer[:2048].decode(errors="replace").strip() if is_text else "unknown"
        return f'an error on the server ("{text}") has prevented the request from succeeding'
    return f"the server responded with the status code {status} but did not return more information"


def _reason(error: Exception, address: str) -> str:
    cause = error.__cause__ or error
    certificate = getattr(error, "certificate_error", None) or cause
    if isinstance(certificate, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {_x509(certificate)}"
    if isinstance(cause, ConnectionRefusedError) or isinstance(error, aiohttp.ClientConnectorDNSError):
        why = "connect: connection refused" if isinstance(cause, ConnectionRefusedError) else str(cause)
        return f"dial tcp {address}: {why}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(cause)


def _x509(error: ssl.SSLCertVerificationError) -> str:
    text = error.verify_message
    if "self-signed" in text or "unable to get local issuer" in text:
        return "certificate signed by unknown authority"
    if "expired" in text:
        return "certificate has expired or is not yet valid"
    return text
