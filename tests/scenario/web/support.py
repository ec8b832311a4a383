"""The page's server under test, as a browser or another program reaches it, and users with few rights."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Self, Unpack

import aiohttp
import msgspec

from volcanoio.compose.local import install_crds
from volcanoio.kube.client import Client
from volcanoio.kube.transport import RequestOptions, Response, StreamRefused, Transport
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.web.app import Address, PageOptions, serving_page
from volcanoio.web.viewers import Viewers

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Limited:
    """A transport of a user without some rights, each `verb plural` or `verb plural namespace`.

    Access reviews deny them, and requests that need them are refused with 403, as an API server with RBAC does.
    """

    def __init__(self, transport: Transport, *denied: str) -> None:
        self._transport = transport
        self.denied = set(denied)
        self.sent: list[tuple[str, str]] = []
        self.closed = False

    def _is_denied(self, verb: str, plural: str, namespace: str) -> bool:
        return f"{verb} {plural}" in self.denied or f"{verb} {plural} {namespace}".strip() in self.denied

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        """Send a request if the user has the right."""
        self.sent.append((method, path))
        if path == REVIEWS:
            review = msgspec.json.decode(options.get("body", b""))
            asked = review["spec"]["resourceAttributes"]
            allowed = not self._is_denied(asked["verb"], asked["resource"], asked.get("namespace", ""))
            return Response(201, msgspec.json.encode({**review, "status": {"allowed": allowed}}))
        if (refused := self._refusal(method, path)) is not None:
            return refused
        return await self._transport.request(method, path, **options)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Open a stream if the user has the right."""
        self.sent.append(("GET", path))
        if (refused := self._refusal("GET", path)) is not None:
            raise StreamRefused(refused)
        async with self._transport.stream(path, query=query) as lines:
            yield lines

    async def aclose(self) -> None:
        """Record that it was closed."""
        self.closed = True

    def _refusal(self, method: str, path: str) -> Response | None:
        words = path.split("/")
        at = words.index("namespaces") if "namespaces" in words[:-2] else len(words)
        namespace, rest = ("".join(words[at + 1 : at + 2]), words[at + 2 :] or words[-1:])
        verb = {"POST": "create", "DELETE": "delete", "GET": "get" if len(rest) > 1 else "list"}.get(method, "update")
        if not self._is_denied(verb, rest[0], namespace):
            return None
        status = {
            "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
            "message": f'{rest[0]} is forbidden: User "ann" cannot {verb} resource "{rest[0]}"',
        }  # fmt: skip
        return Response(403, msgspec.json.encode(status))


class Unaccepted(Limited):
    """A transport whose credentials the API server does not accept."""

    def _refusal(self, method: str, path: str) -> Response | None:
        status = {
            "kind": "Status",
            "status": "Failure",
            "reason": "Unauthorized",
            "code": 401,
            "message": "Unauthorized",
        }
        return Response(401, msgspec.json.encode(status))


class ServerEvent(NamedTuple):
    """One server-sent event."""

    id: str
    kind: str
    data: Any


class Site:
    """A served page and a client of it; `headers` go with every request."""

    def __init__(self, session: aiohttp.ClientSession, url: str, key: str) -> None:
        self.session = session
        self.url = url
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def signed_in(self, token: str) -> Self:
        """Return a client with this token."""
        return type(self)(self.session, self.url, token)

    async def get(self, path: str, *, headers: Mapping[str, str] | None = None, **query: str) -> Any:
        """Return the JSON of an answer with status 200."""
        status, found = await self.ask("GET", path, headers=headers, **query)
        assert status == 200, (status, found)
        return found

    async def ask(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, body: Any = None, **query: str
    ) -> tuple[int, Any]:
        """Return the status and the JSON, or the text, of an answer."""
        given = {**self.headers, **(headers or {})}
        async with self.session.request(
            method, f"{self.url}/{path}", headers=given, params=query, json=body, allow_redirects=False
        ) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, await answer.json() if is_json else await answer.text()

    async def act(self, path: str, *, csrf: str | None = None) -> tuple[int, Any]:
        """Post an action as the page does."""
        token = csrf if csrf is not None else (await self.get("api/session"))["csrf"]
        return await self.ask("POST", f"api/{path}", headers={"X-Volcanoio-CSRF": token}, body={})

    @asynccontextmanager
    async def stream(self, last: str = "", **query: str) -> AsyncIterator[AsyncIterator[ServerEvent]]:
        """Open the event stream, after the event with the id `last`."""
        headers = {**self.headers, **({"Last-Event-ID": last} if last else {})}
        async with self.session.get(f"{self.url}/api/stream", headers=headers, params=query) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            yield _events(answer.content)


async def _events(content: aiohttp.StreamReader) -> AsyncIterator[ServerEvent]:
    fields: dict[str, str] = {}
    async for line in content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name in ("id", "event", "data"):
            fields[name] = value
        elif not name and fields:
            yield ServerEvent(fields.get("id", ""), fields.get("event", ""), msgspec.json.decode(fields["data"]))
            fields = {}


@asynccontextmanager
async def site(viewers: Viewers, options: PageOptions | None = None) -> AsyncIterator[Site]:
    """Serve the page for these viewers."""
    jar = aiohttp.DummyCookieJar()
    limit = aiohttp.ClientTimeout(total=None, sock_read=60)
    async with (
        serving_page(viewers, Address("127.0.0.1", 0), options or PageOptions()) as url,
        aiohttp.ClientSession(cookie_jar=jar, read_bufsize=1 << 24, timeout=limit) as session,
    ):
        yield Site(session, url.partition("/#")[0].rstrip("/"), viewers.key)


@asynccontextmanager
async def api_server() -> AsyncIterator[Client]:
    """An API server with our kinds and nothing that acts; yields a client of it."""
    api = ApiServer.open(None)
    async with api.running():
        transport = InProcessTransport(api)
        await install_crds(transport)
        for namespace in ("default", "team"):
            await transport.request(
                "POST", kinds.NAMESPACE.path(), body=msgspec.json.encode({"metadata": {"name": namespace}})
            )
        yield Client(transport)


def queue(name: str, **spec: Any) -> Manifest:
    """Return a Queue."""
    return {"metadata": {"name": name}, "spec": {"weight": 1, **spec}}


def node(name: str, cpu: str = "4") -> Manifest:
    """Return a node that is ready."""
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True"}
    return {"metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}}
