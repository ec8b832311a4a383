"""Documents built from the registry (discovery, OpenAPI): encoded once per revision, with an ETag."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from volcanoio.localcluster.apiserver.api import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.registry import Registry


@dataclass(frozen=True, slots=True)
class Document:
    """An encoded document and the hash of its bytes."""

    body: bytes
    digest: str

    def answer(
        self, request: ApiRequest, content_type: str = "application/json", headers: Mapping[str, str] | None = None
    ) -> ApiResponse:
        """The document, or 304 when the client's copy is the same."""
        etag = f'"{self.digest}"'
        sent = {"ETag": etag, "Vary": "Accept", "Cache-Control": "no-cache, private", **(headers or {})}
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if etag in known:
            return ApiResponse(304, b"", sent, content_type)
        return ApiResponse(200, self.body, sent, content_type)


class Documents:
    """Documents by key, forgotten when the registry changes. Equal content has an equal hash, also after a restart."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._revision = registry.revision
        self._cache: dict[object, Document] = {}

    def get(self, key: object, build: Callable[[], Any]) -> Document:
        """The document under `key`, built when first asked for in this revision: bytes, or what becomes JSON."""
        if self._revision != self._registry.revision:
            self._cache.clear()
            self._revision = self._registry.revision
        document = self._cache.get(key)
        if document is None:
            built = build()
            body = built if isinstance(built, bytes) else msgspec.json.encode(built)
            document = self._cache[key] = Document(body, hashlib.sha256(body).hexdigest().upper()[:32])
        return document
