"""A webhook server on loopback with TLS, the answers of an API server, and a client that trusts the server."""

from __future__ import annotations

import base64
import io
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiohttp
import msgspec

from tests.unit.kube.scripted import Call, ScriptedTransport, answer, refusal
from volcanoio.engine.admission.request import AdmissionSettings
from volcanoio.kube.transport import Response
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import Kind
from volcanoio.runtime.webhooks.certificates import Certificates, create, server_context
from volcanoio.runtime.webhooks.paths import PATHS
from volcanoio.runtime.webhooks.reviewer import AdmissionReviewer, RightsSource
from volcanoio.runtime.webhooks.server import WebhookServer

STORED: Mapping[str, Manifest] = {
    kinds.QUEUE.path(): {"items": [{"metadata": {"name": name}, "spec": {"weight": 1}} for name in ("default", "q")]},
    kinds.POD_GROUP.path(): {"items": []},
    kinds.NAMESPACE.path("", "team"): {"metadata": {"name": "team", "annotations": {names.QUEUE_NAME_ANNOTATION: "q"}}},
}
"""What the API server answers, by path."""


async def read(call: Call) -> Response:
    """Answer as an API server that has `STORED`."""
    found = STORED.get(call.path)
    return refusal(404, "NotFound") if found is None else answer(found)


@dataclass
class Hooks:
    """A running server."""

    url: str
    held: Certificates
    context: ssl.SSLContext
    transport: ScriptedTransport
    reviewer: AdmissionReviewer
    session: aiohttp.ClientSession = field(repr=False)
    server: WebhookServer = field(repr=False)

    async def post(self, path: str, body: bytes, content_type: str = "application/json") -> tuple[int, bytes]:
        headers = {"Content-Type": content_type}
        async with self.session.post(self.url + path, data=io.BytesIO(body), headers=headers) as got:
            return got.status, await got.read()

    async def review(self, path: str, kind: Kind, manifest: Manifest | None, **more: Any) -> Manifest:
        """The response to a request about an object; `old` and further fields of the request as keywords."""
        status, content = await self.post(path, review_body(kind, manifest, **more))
        assert status == 200, content
        review: Manifest = msgspec.json.decode(content)
        assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        response: Manifest = review["response"]
        assert response.pop("uid") == "u1"
        return response


def review_body(kind: Kind, manifest: Manifest | None, old: Manifest | None = None, **more: Any) -> bytes:
    operation = "DELETE" if manifest is None else "CREATE" if old is None else "UPDATE"
    meta = (manifest or old or {}).get("metadata") or {}
    request = {
        "uid": "u1",
        "resource": {"group": kind.group, "version": kind.version, "resource": kind.plural},
        "operation": operation,
        "name": meta.get("name", ""),
        "namespace": meta.get("namespace", ""),
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "object": manifest,
        "oldObject": old,
        **more,
    }
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def patch_of(response: Manifest) -> list[Manifest]:
    assert response["allowed"] is True
    operations: list[Manifest] = msgspec.json.decode(base64.b64decode(response.get("patch", "W10=")))
    return operations


def trusting(held: Certificates) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=held.bundle.decode())


@asynccontextmanager
async def hooks(settings: AdmissionSettings | None = None, rights: RightsSource | None = None) -> AsyncIterator[Hooks]:
    """Serve every path; the queues default and q exist, and the namespace team, whose queue is q."""
    transport = ScriptedTransport(read)
    reviewer = AdmissionReviewer(transport, settings or AdmissionSettings(), rights=rights)
    held = create(("localhost",), datetime.now(UTC))
    context = server_context(held)
    server = WebhookServer(reviewer, PATHS.values(), grace=1.0)
    port = await server.start("127.0.0.1", 0, context)
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(held))) as session:
            yield Hooks(f"https://localhost:{port}", held, context, transport, reviewer, session, server)
    finally:
        await server.stop()
