"""`WebhookServer`: AdmissionReview v1 over HTTPS.

A review that cannot be made (the API server does not answer) gets status 500, and the failure policy of the webhook
decides. Reviews have no side effects, so a dry run is reviewed like any other request.

Clients are not authenticated, so memory and time are bounded: few bodies are read at the same time, each within
seconds, and fewer large ones are reviewed. These are worked on in a thread, as one of the largest size takes seconds
and the event loop also answers the health checks.
"""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext

import anyio
import structlog
from aiohttp import web

from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.kube.errors import ApiError
from volcanoio.kube.transport import TransportError
from volcanoio.runtime.webhooks import admission_review
from volcanoio.runtime.webhooks.admission_review import DecodedReview, ReviewError
from volcanoio.runtime.webhooks.paths import TIMEOUT_SECONDS, WebhookPath, denial_text
from volcanoio.runtime.webhooks.reviewer import AdmissionReviewer, perform

MAX_BODY = 3 << 20
"""Largest body in bytes, as in Volcano: what etcd stores, twice, for an update."""
REQUESTS, DURATION = "volcanoio_admission_requests_total", "volcanoio_admission_duration_seconds"
_LOG = structlog.get_logger(__name__)
MOST_REVIEWS, MOST_LARGE, LARGE = 32, 2, 64 << 10
"""Requests that are answered at the same time, and how many of those with more than `LARGE` bytes are reviewed."""
BODY_SECONDS = 3.0
"""Seconds for the body of a request to arrive."""
_MARGIN = 0.9
"""Part of the API server's timeout after which a review is given up, so that its answer still arrives."""


class WebhookServer:
    """Serves the webhooks of some paths.

    `context` may get another certificate while the server runs: new connections use it, open ones stay.
    `grace` is how many seconds reviews in progress may take once the server stops.
    """

    def __init__(
        self,
        reviewer: AdmissionReviewer,
        paths: Iterable[WebhookPath],
        *,
        grace: float = 30.0,
        probe: Probe | None = None,
    ) -> None:
        self._reviewer = reviewer
        self._probe = probe or NoProbe()
        self._is_retiring = False
        self._answering: set[object] = set()
        """Connections with a request that has no answer yet."""
        app = web.Application(client_max_size=MAX_BODY)
        for row in paths:
            app.router.add_post(row.path, self._handler(row))
        self._reviews, self._large = anyio.CapacityLimiter(MOST_REVIEWS), anyio.CapacityLimiter(MOST_LARGE)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=grace)

    async def start(self, host: str, port: int, context: ssl.SSLContext) -> int:
        """Listen, on all addresses for host ""; returns the port. Raises OSError."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, host or None, port, ssl_context=context)
        await site.start()
        return int(self._runner.addresses[0][1])

    def retire(self) -> None:
        """Close connections that are idle, and all others after their answer; new ones are still served."""
        self._is_retiring = True
        if isinstance(server := self._runner.server, web.Server):
            for connection in server.connections:
                if connection not in self._answering:
                    connection.force_close()

    async def stop(self) -> None:
        """Stop listening, and return once reviews in progress are answered and all connections are closed.

        API servers keep idle connections open. Their TLS handshake at the end could outlive the event loop, so the
        sockets are closed without it.
        """
        server = self._runner.server
        open_ones = [each.transport for each in server.connections] if isinstance(server, web.Server) else []
        await self._runner.cleanup()
        for transport in filter(None, open_ones):
            transport.abort()
        for _ in range(2):  # the sockets are closed by callbacks of the loop
            await asyncio.sleep(0)

    def _handler(self, row: WebhookPath) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            begun, connection = time.perf_counter(), request.protocol
            self._answering.add(connection)
            try:
                response, result = await self._answer(row, request)
            finally:
                self._answering.discard(connection)
            if self._is_retiring:
                response.force_close()
            self._probe.count(REQUESTS, path=row.path, result=result)
            self._probe.observe(DURATION, time.perf_counter() - begun, path=row.path)
            return response

        return handle

    async def _answer(self, row: WebhookPath, request: web.Request) -> tuple[web.Response, str]:
        """Return the response, and its result for the metrics."""
        if request.content_type != "application/json":
            text = f"content type {request.content_type} is not supported; send application/json"
            return web.Response(status=415, text=text), "invalid"
        try:
            with anyio.fail_after(review_seconds(request.query.get("timeout", ""))):
                async with self._reviews:
                    with anyio.fail_after(BODY_SECONDS):
                        body = await request.read()
                    is_large = len(body) > LARGE
                    async with self._large if is_large else nullcontext():
                        decoded = await perform(is_large, admission_review.decode, body)
                        return await self._decided(row, decoded, is_large=is_large)
        except web.HTTPRequestEntityTooLarge:
            return web.Response(status=413, text=f"the body has more than {MAX_BODY} bytes"), "invalid"
        except ReviewError as error:
            return web.Response(status=400, text=str(error)), "invalid"
        except TimeoutError:
            _LOG.warning("a review was not made in time", path=row.path, bytes=request.content_length)
            return web.Response(status=500, text="admission has no answer in time; try again"), "error"

    async def _decided(self, row: WebhookPath, decoded: DecodedReview, *, is_large: bool) -> tuple[web.Response, str]:
        """Return the response to a request that could be decoded, and its result. Raises TimeoutError."""
        try:
            body, result = await self._review(row, decoded, is_large=is_large)
        except (ApiError, TransportError) as error:
            _LOG.warning("a review failed", path=row.path, object=_object(decoded), error=str(error))
            text = f"admission cannot read what it needs: {error}; try again"
            return web.Response(status=500, text=text), "error"
        except TimeoutError:
            raise
        except Exception as error:
            _LOG.exception("a review raised an error", path=row.path, object=_object(decoded))
            text = f"the review raised {type(error).__name__}; see the log of the webhook manager"
            return web.Response(status=500, text=text), "error"
        return web.Response(body=body, content_type="application/json"), result

    async def _review(self, row: WebhookPath, decoded: DecodedReview, *, is_large: bool) -> tuple[bytes, str]:
        uid, asked = decoded.uid, decoded.request
        if asked.resource not in {kind.resource for kind in row.operations}:
            known = ", ".join(kind.resource for kind in row.operations)
            return admission_review.denied(
                uid, f"{row.path} reviews {known}, not {asked.resource}; fix the rules"
            ), "denied"
        if row.is_mutating:
            defaulted = await self._reviewer.default(asked, in_thread=is_large)
            patch = await perform(is_large, admission_review.json_patch, asked.object or {}, defaulted.object or {})
            return admission_review.allowed(uid, patch), "allowed"
        answer = await self._reviewer.review(asked, decoded.user, in_thread=is_large)
        if answer.allowed:
            return admission_review.allowed(uid, warnings=answer.warnings), "allowed"
        return admission_review.denied(uid, denial_text(answer), answer.warnings), "denied"


def _object(decoded: DecodedReview) -> str:
    asked = decoded.request
    return f"{asked.resource} {asked.namespace}/{asked.name}"


def review_seconds(text: str) -> float:
    """Return the seconds for a review, from the API server's `timeout` parameter such as `10s`."""
    try:
        seconds = float(text.removesuffix("s"))
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds):
        seconds = TIMEOUT_SECONDS
    return min(max(seconds, 1.0), 30.0) * _MARGIN
