"""The route of `metrics.k8s.io/v1beta1`: read-only objects made when they are asked for, so `kubectl top` works."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from volcanoio.localcluster.apiserver.api import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.clock import TimeOfDay, rfc3339
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.crd import compile_version
from volcanoio.localcluster.apiserver.errors import ApiError, method_not_allowed
from volcanoio.localcluster.apiserver.metrics.usage import Usage, container_usages, total
from volcanoio.localcluster.apiserver.objects import Stored
from volcanoio.localcluster.apiserver.paging import Page
from volcanoio.localcluster.apiserver.paths import Target, parse
from volcanoio.localcluster.apiserver.reader import Reader
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.model.base import Manifest

_GROUP: Final = "metrics.k8s.io"
_PREFIX: Final = f"/apis/{_GROUP}/v1beta1/"
_WINDOW: Final = "10s"
_QUANTITIES: Final = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
_TIMES: Final = {"timestamp": {"type": "string", "format": "date-time"}, "window": {"type": "string"}}
_CONTAINERS: Final = {
    "type": "array",
    "items": {"type": "object", "properties": {"name": {"type": "string"}, "usage": _QUANTITIES}},
}


def _resource(kind: str, plural: str, namespaced: bool, properties: Manifest, columns: Manifest) -> Resource:
    version = {
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {**_TIMES, **properties}}},
        "additionalPrinterColumns": [
            {"name": name, "type": "string", "jsonPath": path} for name, path in columns.items()
        ],
    }
    return Resource(_GROUP, "v1beta1", kind, plural, namespaced, verbs=("get", "list"), custom=compile_version(version))


RESOURCES: Final = (
    _resource(
        "NodeMetrics", "nodes", False, {"usage": _QUANTITIES},
        {"CPU": ".usage.cpu", "Memory": ".usage.memory", "Window": ".window"},
    ),
    _resource("PodMetrics", "pods", True, {"containers": _CONTAINERS}, {"Window": ".window"}),
)  # fmt: skip


class MetricsRoute:
    """The route; registers its resources, so that discovery and OpenAPI tell of them."""

    def __init__(self, core: Core, reader: Reader, clock: TimeOfDay) -> None:
        self._core = core
        self._reader = reader
        self._clock = clock
        for one in RESOURCES:
            core.registry.add_custom(one)

    async def __call__(self, request: ApiRequest) -> ApiResponse | None:
        """Answer a read of metrics; None for any other request. Raises ApiError."""
        if not request.path.startswith(_PREFIX):
            return None
        target = parse(request.path, self._core.registry)
        if request.flag("watch"):
            raise method_not_allowed()
        now = rfc3339(self._clock.now())
        build = self._pods if target.resource.namespaced else self._nodes
        selection = self._reader.selection(target, request)
        found = [one for one in build(target, now) if selection.selects(one)]
        shown = self._reader.rendering(request, target.resource)
        if not target.name:
            return ApiResponse(200, shown.page(Page(found, self._core.store.revision)))
        if not found:
            name = f"{target.namespace}/{target.name}" if target.namespace else target.name
            kind = target.resource.kind.lower()
            raise ApiError(404, "NotFound", f'{kind}.{_GROUP} "{name}" not found')
        return ApiResponse(200, shown.one(found[0]))

    def _pods(self, target: Target, now: str) -> Iterator[Stored]:
        for pod in self._running(target.namespace, target.name):
            usages = container_usages(pod)
            if usages:
                containers = [{"name": name, "usage": one.resources()} for name, one in usages.items()]
                yield _stored(target.resource, pod, now, {"containers": containers})

    def _nodes(self, target: Target, now: str) -> Iterator[Stored]:
        used: dict[str, list[Usage]] = {}
        for pod in self._running("", ""):
            used.setdefault(pod["spec"].get("nodeName", ""), []).extend(container_usages(pod).values())
        for (_, name), stored in self._core.store.collection("nodes").objects.items():
            if target.name in ("", name):
                usage = total(used.get(name, ())).resources()
                yield _stored(target.resource, stored.decode(), now, {"usage": usage})

    def _running(self, namespace: str, name: str) -> Iterator[Manifest]:
        """Pods that run, of one namespace and name or ("") of all."""
        for (place, called), stored in self._core.store.collection("pods").objects.items():
            if namespace in ("", place) and name in ("", called) and b'"running"' in stored.data:
                yield stored.decode()


def _stored(resource: Resource, about: Manifest, now: str, told: Manifest) -> Stored:
    meta = about["metadata"]
    metadata = {"name": meta["name"], "creationTimestamp": now}
    if resource.namespaced:
        metadata["namespace"] = meta["namespace"]
    if meta.get("labels"):
        metadata["labels"] = meta["labels"]
    obj = {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": metadata,
        "timestamp": now,
        "window": _WINDOW,
        **told,
    }
    return Stored(meta.get("namespace", ""), meta["name"], 0, obj)
