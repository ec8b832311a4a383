"""The server of the web page: routes, and what protects them.

Everything under /api needs an `Authorization: Bearer` header: on loopback the key that the command printed, in a
cluster the user's own token. Browsers do not send that by themselves, unless a proxy adds it; therefore requests of
other sites are refused (Sec-Fetch-Site, Origin), and actions need the session's token in `X-Volcanoio-CSRF` too. On
loopback the Host header must be a name of this machine, so that no other site's name can lead here (DNS rebinding).
"""

from __future__ import annotations

import math
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import anyio
import msgspec
import structlog
from aiohttp import web

from volcanoio import __version__
from volcanoio.bus.journal import JournalError
from volcanoio.compose.journals.timeline import UnknownJobError
from volcanoio.compose.live.reading import installed_configuration
from volcanoio.compose.simulate import SimulateOptions
from volcanoio.engine.scheduling.diagnosis.answers import UnknownTargetError
from volcanoio.kube.errors import ApiError, Unauthorized, error_of
from volcanoio.kube.transport import StreamRefused, TransportError
from volcanoio.model import kinds
from volcanoio.web import details
from volcanoio.web.actions import ActionError, act_on_job, act_on_queue
from volcanoio.web.details import (
    MANIFESTS,
    ROW_KINDS,
    BadInputError,
    Configure,
    Explainer,
    History,
    LogRequest,
    NoHistoryError,
    checked_name,
    line_count,
)
from volcanoio.web.feed import Feed, Part
from volcanoio.web.viewers import TooManyFeedsError, TooManyViewersError, Viewer, Viewers

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""Addresses on which the page may be served with the rights of the process, and host names that lead there."""
CSRF_HEADER = "X-Volcanoio-CSRF"
HEARTBEAT = 15.0
"""Seconds after which an event stream without events gets a comment, and the rights of its user are checked again."""
_MOST_BODY = 64 * 1024
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "manifest-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_PAGES = ("/", "/jobs", "/queues", "/nodes", "/history")
_ROW_PAGES = tuple(f"/{kind.lower()}/{{namespace}}/{{name}}" for kind in ROW_KINDS)
CHART_PACKAGE, CHART_SCRIPT = "plotly", "package_data/plotly.min.js"
"""The chart library: the script that an installed Python package ships (extra `volcanoio[web]`)."""
_STREAM_ENDS = (ConnectionError, ApiError, TransportError)
"""The browser of an event stream has gone, or the rights of its user; it connects again."""
_VIEWER = web.RequestKey("viewer", Viewer)
_log = structlog.get_logger(__name__)

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Options of the page. `hosts` are the values of the Host header that are accepted; () accepts all.

    `now` returns the cluster's time, which runs `rate` times as fast as the browser's. `scheduler` and `configuration`
    are for `why`; `journal` is the scheduler's, for the page of the past.
    """

    hosts: frozenset[str] = LOOPBACK
    scheduler: SimulateOptions = field(default_factory=lambda: SimulateOptions(files=()))
    configuration: Configure = installed_configuration
    journal: Path | None = None
    now: Callable[[], float] = time.time
    rate: float = 1.0


class _RefusedError(Exception):
    """An answer with an error: HTTP status, and a message with the next step."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Page:
    """The application: static files, and the API that they use."""

    def __init__(self, viewers: Viewers, options: PageOptions) -> None:
        self._viewers = viewers
        self._options = options
        self._explainer = Explainer(options.scheduler, options.configuration, options.now)
        self._history = History(options.journal)
        self._files = _static_files()
        self._streams: set[anyio.CancelScope] = set()

    def application(self) -> web.Application:
        """Return the aiohttp application."""
        app = web.Application(middlewares=[self._protect], client_max_size=_MOST_BODY)
        for path in (*_PAGES, *_ROW_PAGES):
            app.router.add_get(path, self._index)
        app.router.add_get("/static/{name:.+}", self._file)
        for path, handler in self._api().items():
            app.router.add_get(f"/api/{path}", handler)
        app.router.add_post("/api/jobs/{namespace}/{name}/{action}", self._act_on_job)
        app.router.add_post("/api/queues/{name}/{action}", self._act_on_queue)
        return app

    def end_streams(self) -> None:
        """End all event streams."""
        for scope in self._streams:
            scope.cancel()

    def _api(self) -> Mapping[str, Handler]:
        return {
            "session": self._session,
            "state": self._state,
            "changes": self._changes,
            "stream": self._stream,
            "trend": self._trend,
            "job": self._job,
            "node": self._node,
            "queue": self._queue,
            "events": self._events,
            "timeline": self._timeline,
            "yaml": self._yaml,
            "logs": self._logs,
            "logs/follow": self._follow,
            "why": self._why,
            "history": self._span,
            "history/at": self._past,
        }

    # -- protection

    @web.middleware
    async def _protect(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._check_origin(request)
            response = await handler(request)
        except web.HTTPException as error:
            response = _error(error.status, error.reason)
        except Unauthorized as error:
            if (viewer := request.get(_VIEWER)) is not None:
                await self._viewers.forget(viewer)
            if self._viewers.uses_tokens:
                response = _error(401, "the API server does not accept your token (any more); sign in again")
            else:
                text = "the API server does not accept the credentials of the kubeconfig"
                response = _error(502, f"{text} ({error.message}); renew them, then start this again")
        except Exception as error:
            response = _error(*_status_of(error, request))
        if not response.prepared:
            response.headers.update(_HEADERS)
            response.headers.setdefault("Cache-Control", "no-store")
        return response

    def _check_origin(self, request: web.Request) -> None:
        """Raise _RefusedError for requests under a foreign name or of other sites."""
        try:
            host = urlsplit(f"//{request.host}").hostname or ""
        except ValueError:
            host = ""
        if self._options.hosts and host not in self._options.hosts:
            raise _RefusedError(
                421, f'this page is not served as "{host[:80]}"; use one of {", ".join(sorted(self._options.hosts))}'
            )
        if not request.path.startswith("/api/"):
            return
        origin = request.headers.get("Origin")
        foreign = request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none")
        if foreign or (origin is not None and urlsplit(origin).netloc != request.host):
            raise _RefusedError(403, "requests of other sites are refused; open the page itself")

    async def _viewer(self, request: web.Request) -> Viewer:
        """Return the user of a request. Raises _RefusedError for none."""
        try:
            viewer = await self._viewers.find(request.headers.get("Authorization", ""))
        except TooManyViewersError as error:
            raise _RefusedError(503, str(error)) from None
        if viewer is None:
            hint = (
                "sign in with a token of the cluster"
                if self._viewers.uses_tokens
                else "open the link that the command printed"
            )
            raise _RefusedError(401, f"you are not signed in; {hint}")
        request[_VIEWER] = viewer
        return viewer

    async def _acting_viewer(self, request: web.Request) -> Viewer:
        """Return the user of an action. Raises _RefusedError for a request that the page did not make."""
        viewer = await self._viewer(request)
        if request.headers.get(CSRF_HEADER, "") != viewer.csrf:
            raise _RefusedError(403, f"the header {CSRF_HEADER} is missing or old; reload the page")
        if request.content_type != "application/json":
            raise _RefusedError(415, "actions need Content-Type: application/json")
        return viewer

    async def _feed(self, request: web.Request) -> tuple[Viewer, Feed]:
        viewer = await self._viewer(request)
        namespace = checked_name("namespace", request.query.get("within", ""), required=False)
        await self._viewers.running.wait()
        return viewer, await viewer.feed(namespace, self._viewers.tasks)

    # -- the page

    async def _index(self, request: web.Request) -> web.StreamResponse:
        return self._static(request, "index.html")

    async def _file(self, request: web.Request) -> web.StreamResponse:
        return self._static(request, request.match_info["name"])

    def _static(self, request: web.Request, name: str) -> web.Response:
        if (found := self._files.get(name)) is None:
            raise web.HTTPNotFound
        content_type, body, tag = found
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        response = web.Response(body=body, content_type=content_type, charset="utf-8", headers=headers)
        response.enable_compression()
        return response

    # -- state

    async def _session(self, request: web.Request) -> web.StreamResponse:
        viewer = await self._viewer(request)
        if self._viewers.uses_tokens:  # it may have expired since it was first used
            await viewer.introduce()
        return _json(
            {
                "user": viewer.name or "",
                "csrf": viewer.csrf,
                "version": __version__,
                "now": self._options.now(),
                "rate": self._options.rate,
                "usesTokens": self._viewers.uses_tokens,
                "charts": chart_library() is not None,
                "journal": self._options.journal is not None,
            }
        )

    async def _state(self, request: web.Request) -> web.StreamResponse:
        _, feed = await self._feed(request)
        return _large(_parts([feed.snapshot()], feed), request)

    async def _changes(self, request: web.Request) -> web.StreamResponse:
        """Answer the poll of a browser that cannot keep a stream."""
        _, feed = await self._feed(request)
        return _parts(feed.since(request.query.get("after", "")), feed)

    async def _trend(self, request: web.Request) -> web.StreamResponse:
        _, feed = await self._feed(request)
        return _json(list(feed.trend))

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        viewer, feed = await self._feed(request)
        response = _event_stream()
        last = request.headers.get("Last-Event-ID") or request.query.get("after", "")
        async with self._streaming(request, response), viewer.reading(feed):
            parts, checked = feed.since(last), time.monotonic()
            while True:
                for part in parts:
                    kind = b"rows" if part.is_whole else b"changes"
                    await response.write(b"id: %s\nevent: %s\ndata: %s\n\n" % (part.id.encode(), kind, part.body))
                    last = part.id
                if not parts:
                    await response.write(b": nothing new\n\n")
                if time.monotonic() - checked > HEARTBEAT:
                    checked = time.monotonic()
                    if not await viewer.may_still_read(feed):
                        break
                parts = await feed.after(last, HEARTBEAT)
        return response

    @asynccontextmanager
    async def _streaming(self, request: web.Request, response: web.StreamResponse) -> AsyncIterator[None]:
        """Send an event stream until the block, the connection or the server ends."""
        response.headers.update(_HEADERS)
        await response.prepare(request)
        scope = anyio.CancelScope()
        self._streams.add(scope)
        try:
            with scope:
                yield
        except _STREAM_ENDS:
            pass
        finally:
            self._streams.discard(scope)

    # -- details

    async def _job(self, request: web.Request) -> web.StreamResponse:
        viewer, feed = await self._feed(request)
        return _json(await details.job_details(viewer, feed, *_job_of(request)))

    async def _node(self, request: web.Request) -> web.StreamResponse:
        _, feed = await self._feed(request)
        return _json(details.node_details(feed, checked_name("name", request.query.get("name", ""))))

    async def _queue(self, request: web.Request) -> web.StreamResponse:
        viewer = await self._viewer(request)
        return _json(await details.queue_details(viewer, checked_name("name", request.query.get("name", ""))))

    async def _events(self, request: web.Request) -> web.StreamResponse:
        viewer, feed = await self._feed(request)
        return _json(await details.events(viewer.client, feed, *_job_of(request)))

    async def _timeline(self, request: web.Request) -> web.StreamResponse:
        viewer = await self._viewer(request)
        namespace, name, _ = _job_of(request)
        return _json(await details.steps(viewer.client, namespace, name))

    async def _yaml(self, request: web.Request) -> web.StreamResponse:
        viewer = await self._viewer(request)
        kind = MANIFESTS.get(request.query.get("kind", "job").lower())
        if kind is None:
            raise BadInputError(f"kind: valid values: {', '.join(sorted(MANIFESTS))}")
        namespace = checked_name("namespace", request.query.get("namespace", ""), required=kind.namespaced)
        name = checked_name("name", request.query.get("name", ""))
        return web.Response(text=await details.manifest(viewer.client, kind, namespace, name))

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        viewer = await self._viewer(request)
        text = await details.log_text(viewer.client, _log_of(request))
        return web.Response(body=text, content_type="text/plain", charset="utf-8")

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        viewer = await self._viewer(request)
        response = _event_stream()
        async with (
            details.followed_log(viewer.client, _log_of(request)) as lines,
            self._streaming(request, response),
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(_keep_alive, response, tasks.cancel_scope)
            with suppress(*_STREAM_ENDS):
                async for batch in lines:
                    text = [line.decode("utf-8", "replace") for line in batch]
                    await response.write(b"event: lines\ndata: %s\n\n" % msgspec.json.encode(text))
                await response.write(b"event: end\ndata: {}\n\n")
            tasks.cancel_scope.cancel()
        return response

    async def _why(self, request: web.Request) -> web.StreamResponse:
        viewer, feed = await self._feed(request)
        kind = request.query.get("kind", "job")
        name = checked_name("name", request.query.get("name", ""))
        namespace = checked_name("namespace", request.query.get("namespace", ""), required=kind != "queue")
        remedies = request.query.get("remedies") == "true"
        return _json(await self._explainer.why(viewer, feed, f"{kind}/{name}", namespace, remedies=remedies))

    # -- the past

    async def _span(self, request: web.Request) -> web.StreamResponse:
        await self._check_past(request)
        return _json(await self._history.span())

    async def _past(self, request: web.Request) -> web.StreamResponse:
        await self._check_past(request)
        return _large(
            web.Response(body=await self._history.at(_moment_of(request)), content_type="application/json"), request
        )

    async def _check_past(self, request: web.Request) -> None:
        """Raise _RefusedError for users who may not list all pods: a journal contains no access rights."""
        viewer = await self._viewer(request)
        if not await viewer.may("list", kinds.POD):
            raise _RefusedError(403, "the past is shown to users who may list the pods of all namespaces")

    # -- actions

    async def _act_on_job(self, request: web.Request) -> web.StreamResponse:
        viewer = await self._acting_viewer(request)
        namespace, name = (checked_name(each, request.match_info[each]) for each in ("namespace", "name"))
        return _json({"message": await act_on_job(viewer, request.match_info["action"], namespace, name)})

    async def _act_on_queue(self, request: web.Request) -> web.StreamResponse:
        viewer = await self._acting_viewer(request)
        name = checked_name("name", request.match_info["name"])
        return _json({"message": await act_on_queue(viewer, request.match_info["action"], name)})


def _job_of(request: web.Request) -> tuple[str, str, str]:
    """Return namespace, name and kind of the job of a request. Raises BadInputError."""
    kind = request.query.get("kind", kinds.JOB.kind)
    if kind not in ROW_KINDS:
        raise BadInputError(f"kind: valid values: {', '.join(ROW_KINDS)}")
    namespace = checked_name("namespace", request.query.get("namespace", ""))
    return namespace, checked_name("name", request.query.get("name", "")), kind


def _log_of(request: web.Request) -> LogRequest:
    """Return the log that a request asks for. Raises BadInputError."""
    query = request.query
    return LogRequest(
        checked_name("namespace", query.get("namespace", "")),
        checked_name("pod", query.get("pod", "")),
        checked_name("container", query.get("container", ""), required=False),
        line_count(query.get("tail", "")),
        query.get("previous") == "true",
    )


def _moment_of(request: web.Request) -> float:
    """Return the time of a request. Raises BadInputError."""
    text = request.query.get("at", "")
    try:
        moment = float(text)
    except ValueError:
        moment = math.nan
    if not math.isfinite(moment):
        raise BadInputError(f'at: "{text[:30]}" is not a time; give seconds since 1970, such as 1790000000')
    return moment


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def _parts(parts: list[Part], feed: Feed) -> web.Response:
    """Return parts as one JSON document; `missing` are kinds that the user may not read."""
    last = parts[-1].id if parts else ""
    rows = [msgspec.Raw(part.body) for part in parts]
    missing = feed.missing
    return _json({"id": last, "isWhole": bool(parts) and parts[0].is_whole, "parts": rows, "missing": missing})


def _large(response: web.Response, request: web.Request) -> web.Response:
    """Compress an answer unless the browser is on this machine."""
    if request.remote not in LOOPBACK:
        response.enable_compression()
    return response


def _event_stream() -> web.StreamResponse:
    headers = {
        "Content-Type": "text/event-stream; charset=utf-8",
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",
    }
    return web.StreamResponse(headers=headers)


async def _keep_alive(response: web.StreamResponse, stream: anyio.CancelScope) -> None:
    """Write comments, which shows when the browser has gone; then end the stream."""
    with suppress(ConnectionError):
        while True:
            await anyio.sleep(HEARTBEAT)
            await response.write(b": nothing new\n\n")
    stream.cancel()


def _error(status: int, message: str) -> web.Response:
    response = _json({"error": {"code": status, "message": message}})
    response.set_status(status)
    return response


def _status_of(error: Exception, request: web.Request) -> tuple[int, str]:
    """Return the HTTP status and text for an error of a handler."""
    match error:
        case _RefusedError():
            return error.status, str(error)
        case BadInputError():
            return 400, str(error)
        case TooManyFeedsError():
            return 429, str(error)
        case ActionError():
            return error.code, str(error)
        case UnknownTargetError() | UnknownJobError() | NoHistoryError():
            return 404, str(error)
        case JournalError():
            return 500, str(error)
        case ApiError():
            return (error.code if 400 <= error.code < 600 else 502), error.message
        case StreamRefused():
            refused = error_of(error.response)
            return refused.code or 502, refused.message
        case TransportError():
            return 502, f"cannot reach the API server: {error}"
        case _:
            _log.error("a request of the page failed", path=request.path, exc_info=error)
            return 500, "the page's server failed; its log has the trace"


@cache
def chart_library() -> bytes | None:
    """Return the chart library's script; None if its package is not installed."""
    try:
        script = resources.files(CHART_PACKAGE) / CHART_SCRIPT
        return script.read_bytes() if script.is_file() else None
    except (ModuleNotFoundError, OSError):
        return None


def _static_files() -> Mapping[str, tuple[str, bytes, str]]:
    """Return the files of the page by name: content type, content and tag."""
    found: dict[str, tuple[str, bytes, str]] = {}

    def read(directory: Any, prefix: str) -> None:
        for entry in directory.iterdir():
            suffix = re.sub(r".*(?=\.)", "", entry.name)
            if entry.is_dir():
                read(entry, f"{prefix}{entry.name}/")
            elif suffix in _TYPES:
                body = entry.read_bytes()
                found[prefix + entry.name] = _TYPES[suffix], body, f'"{sha256(body).hexdigest()[:32]}"'

    read(resources.files("volcanoio.web") / "static", "")
    if (library := chart_library()) is not None:
        found["vendor/charts.js"] = "text/javascript", library, f'"{sha256(library).hexdigest()[:32]}"'
    return found


class PageError(Exception):
    """The page cannot be served; the message contains the cause and the next step."""


class Address(NamedTuple):
    """Where the page is served; `any_port` takes another port where the wanted one is in use."""

    host: str
    port: int
    any_port: bool = False
    tls: ssl.SSLContext | None = None


@asynccontextmanager
async def serving_page(viewers: Viewers, address: Address, options: PageOptions) -> AsyncIterator[str]:
    """Serve the page while open; yields its URL, with the key where there is one. Raises PageError."""
    page = Page(viewers, options)
    runner = web.AppRunner(page.application(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    host, port, _, tls = address
    try:
        try:
            await _listen(runner, address)
        except OSError as error:
            reason = error.strerror or error
            msg = f"cannot serve the page at {host}:{port}: {reason}; choose another port, or 0 for any"
            raise PageError(msg) from None
        async with anyio.create_task_group() as tasks:
            await tasks.start(viewers.run)
            name = f"[{host}]" if ":" in host else host
            fragment = f"/#key={viewers.key}" if viewers.key else "/"
            yield f"{'https' if tls else 'http'}://{name}:{runner.addresses[0][1]}{fragment}"
            page.end_streams()
            tasks.cancel_scope.cancel()
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, address: Address) -> None:
    try:
        await web.TCPSite(runner, address.host, address.port, ssl_context=address.tls, reuse_address=True).start()
    except OSError:
        if not address.any_port:
            raise
        await web.TCPSite(runner, address.host, 0, ssl_context=address.tls).start()
