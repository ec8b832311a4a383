"""The API server below HTTP: one request in, one answer or stream out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from volcanoio.localcluster.apiserver.api import ApiRequest, ApiResponse, ApiStream
from volcanoio.localcluster.apiserver.registry import Registry
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.model.base import Manifest

Route: TypeAlias = Callable[[ApiRequest], Awaitable[ApiResponse | ApiStream | None]]
"""Something tried before the resources (discovery, version, health, logs); None lets the next one try."""


class TableView(Protocol):
    """Prints objects as a `meta.k8s.io/v1` Table."""

    def __call__(
        self, resource: Resource, objects: list[Manifest], *, include_object: str, with_columns: bool
    ) -> Manifest:
        """The Table; `include_object` is None, Metadata or Object as in the query parameter includeObject."""
        ...


class ApiServer:
    """Kubernetes' API semantics over a store.

    `routes` are tried first, in order. `table` prints answers to requests that accept `as=Table`.
    """

    def __init__(self) -> None:
        self.registry = Registry()
        self.routes: list[Route] = []
        self.table: TableView | None = None

    async def handle(self, request: ApiRequest) -> ApiResponse | ApiStream:
        """Answer one request; never raises for what a client sent."""
        for route in self.routes:
            answer = await route(request)
            if answer is not None:
                return answer
        raise NotImplementedError
