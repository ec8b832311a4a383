"""A server in memory and short ways to speak to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec

from volcanoio.kube.transport import ContentType
from volcanoio.localcluster.apiserver.admission.reviewers import Admission
from volcanoio.localcluster.apiserver.apimachinery.clock import Clock
from volcanoio.localcluster.apiserver.http.faults import Faults
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.model.base import Manifest

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
NAMESPACES = "/api/v1/namespaces"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"

STRATEGIC = ContentType.STRATEGIC_MERGE_PATCH
MERGE = ContentType.MERGE_PATCH
JSON_PATCH = ContentType.JSON_PATCH


class SetClock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.moment = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    async def idle(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def advance(self, **by: float) -> None:
        self.moment += timedelta(**by)


@dataclass
class Answer:
    """A status code and the decoded body."""

    code: int
    body: Any
    warning: str = ""

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


class Api:
    """Requests to one server."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.transport = InProcessTransport(server)

    async def __call__(
        self, method: str, path: str, body: Any = None, kind: str = ContentType.JSON, accept: str = "", **query: str
    ) -> Answer:
        data = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        answer = await self.transport.request(
            method, path, body=data, content_type=kind, query=query, accept=accept or "application/json"
        )
        decoded = msgspec.json.decode(answer.body) if answer.body[:1] in b"{[" else {"message": answer.body.decode()}
        return Answer(answer.status, decoded, answer.headers.get("Warning", ""))

    async def made(self, path: str, body: Manifest, **query: str) -> Manifest:
        """Create an object that must be accepted."""
        answer = await self("POST", path, body, **query)
        assert answer.code == 201, answer.body
        return dict(answer.body)

    async def got(self, path: str) -> Manifest:
        """Read an object that must be there."""
        answer = await self("GET", path)
        assert answer.code == 200, answer.body
        return dict(answer.body)

    async def gone(self, path: str) -> None:
        """Wait until an object is no more."""
        await self.until(path, lambda answer: answer.code == 404)

    async def until(self, path: str, holds: Callable[[Answer], bool]) -> Answer:
        """Read a path until something holds of it."""
        with anyio.fail_after(5):
            while not holds(answer := await self("GET", path)):
                await anyio.lowlevel.checkpoint()
        return answer

    async def names(self, path: str, **query: str) -> list[str]:
        answer = await self("GET", path, **query)
        assert answer.code == 200, answer.body
        return [one["metadata"]["name"] for one in answer.body["items"]]

    @asynccontextmanager
    async def watch(self, path: str, **query: str) -> AsyncIterator[Lines]:
        """A watch, read line by line."""
        async with self.transport.stream(path, query={"watch": "true", **query}) as batches:
            yield Lines(batches)


class Lines:
    """Watch events one by one."""

    def __init__(self, batches: AsyncIterator[list[bytes]]) -> None:
        self._batches = batches
        self._queue: list[bytes] = []

    async def next(self) -> tuple[str, Manifest]:
        """Type and object of the next event."""
        while not self._queue:
            with anyio.fail_after(5):
                self._queue = await anext(self._batches)
        event = msgspec.json.decode(self._queue.pop(0))
        return event["type"], event["object"]

    async def types_and_names(self, count: int) -> list[tuple[str, str]]:
        events = [await self.next() for _ in range(count)]
        return [(type_, obj["metadata"]["name"]) for type_, obj in events]


@asynccontextmanager
async def running(
    data: Path | None = None,
    *,
    admission: Sequence[Admission] = (),
    faults: Faults | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Api]:
    """A running server."""
    server = ApiServer.open(data, admission=admission, faults=faults, clock=clock)
    async with server.running():
        yield Api(server)


def pod(name: str = "p", **spec: Any) -> Manifest:
    """A small valid pod."""
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "busybox:1"}], **spec}}


def is_deleting(answer: Answer) -> bool:
    """Whether the object is marked for deletion."""
    return "deletionTimestamp" in answer.body["metadata"]


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> Manifest:
    """A config map."""
    return {"metadata": {"name": name, "labels": labels or {}}, "data": data}


def owned(obj: Manifest, owner: Manifest, *, block: bool = False) -> Manifest:
    """The object with an owner reference."""
    meta = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    if block:
        reference["blockOwnerDeletion"] = True
    obj["metadata"]["ownerReferences"] = [*obj["metadata"].get("ownerReferences", ()), reference]
    return obj


WIDGET_SCHEMA: Manifest = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10},
                "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
                "replicas": {"type": "integer", "default": 1},
                "port": {"x-kubernetes-int-or-string": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string", "pattern": "^[a-z]+$"},
                            "count": {"type": "integer", "default": 2},
                        },
                    },
                },
            },
        },
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}}},
    },
}


def widget_definition(*, status: bool = True, schema: Manifest | None = None) -> Manifest:
    """A small custom resource."""
    version: Manifest = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema or WIDGET_SCHEMA},
        "selectableFields": [{"jsonPath": ".spec.color"}],
    }
    if status:
        scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        version["subresources"] = {"status": {}, "scale": scale}
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [version],
        },
    }


def widget(name: str = "w", **spec: Any) -> Manifest:
    """A valid widget."""
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 3, **spec}}
