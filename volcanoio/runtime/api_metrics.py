"""`CountingTransport`: counts the requests of a process to the API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, Unpack

from volcanoio.framework.probe import Probe
from volcanoio.kube.clock import Clock
from volcanoio.kube.transport import NotSent, RequestOptions, Response, StreamRefused, Transport, TransportError

REQUESTS: Final = "volcanoio_api_requests_total"
SECONDS: Final = "volcanoio_api_request_seconds"
NO_RESPONSE: Final = "<error>"
"""Label `code` of a request without a response, as client-go writes it."""
_WRITE_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def target(path: str) -> tuple[str, str, str]:
    """Return the resource (`plural.group`), the name and the subresource of a path of the Kubernetes API.

    Other paths, such as `/version`, have their first segment as the resource.
    """
    parts = path.partition("?")[0].split("/")
    count = len(parts)
    if parts[1] == "api" and count > 3:
        at, group = 3, ""
    elif parts[1] == "apis" and count > 4:
        at, group = 4, "." + parts[2]
    else:
        return parts[1], "", ""
    if parts[at] == "namespaces" and count > at + 2:
        at += 2
    return (
        parts[at] + group,
        parts[at + 1] if count > at + 1 else "",
        parts[at + 2] if count > at + 2 else "",
    )


class CountingTransport:
    """A `Transport` that counts requests by verb, resource, subresource and status code, and measures them by verb.

    It adds about 5 µs to a request.
    """

    def __init__(self, transport: Transport, probe: Probe, clock: Clock) -> None:
        self._transport = transport
        self._probe = probe
        self._clock = clock

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        """Send one request; see `Transport`."""
        resource, name, subresource = target(path)
        verb = _WRITE_VERBS.get(method) or ("get" if name else "list")
        since = self._clock.monotonic()
        try:
            response = await self._transport.request(method, path, **options)
        except NotSent:
            raise
        except TransportError:
            self._count(verb, resource, subresource, NO_RESPONSE)
            raise
        self._probe.observe(SECONDS, (self._clock.monotonic() - since) / self._clock.rate, verb=verb)
        self._count(verb, resource, subresource, str(response.status))
        return response

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Open a stream; see `Transport`. It is counted when it is accepted or refused."""
        resource, _, subresource = target(path)
        code = NO_RESPONSE
        try:
            async with self._transport.stream(path, query=query) as lines:
                code = "200"
                self._count("watch", resource, subresource, code)
                yield lines
        except StreamRefused as refused:
            if code == NO_RESPONSE:
                self._count("watch", resource, subresource, str(refused.response.status))
            raise
        except TransportError:
            if code == NO_RESPONSE:
                self._count("watch", resource, subresource, code)
            raise

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    def _count(self, verb: str, resource: str, subresource: str, code: str) -> None:
        self._probe.count(REQUESTS, verb=verb, resource=resource, subresource=subresource, code=code)
