"""Usage of simulated containers: `metrics.k8s.io/v1beta1` and the kubelets' metrics.

A pod's annotations set each container's usage (as in kwok); without one it is a share of the requests, and nearly zero
for a container without requests. `metrics.k8s.io` objects are read-only and created on request, so that `kubectl top`
works. Under `/api/v1/nodes/NAME/proxy/` are `stats/summary`, `metrics/resource` and `metrics/cadvisor`; counters of CPU
time grow with the running time of a container; names are those of Kubernetes 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from volcanoio.localcluster.apiserver.apimachinery.clock import TimeOfDay, parse_rfc3339, rfc3339
from volcanoio.localcluster.apiserver.apimachinery.errors import ApiError, method_not_allowed, not_found
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref, Stored, encode
from volcanoio.localcluster.apiserver.apimachinery.paths import Target, parse
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource, compile_version
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.reader import Reader
from volcanoio.localcluster.apiserver.storage.paging import Page
from volcanoio.model import names, quantity
from volcanoio.model.base import Manifest
from volcanoio.model.quantity import QuantityError

SHARE = 0.5
"""Default usage of a container, as a part of its requests."""
_LEAST_CPU, _LEAST_MEMORY = 1, 2**20


class Usage(NamedTuple):
    """CPU in milli-cores, memory in bytes."""

    cpu: int = 0
    memory: int = 0

    def resources(self) -> dict[str, str]:
        """Return the usage as metrics-server writes it."""
        return {"cpu": f"{self.cpu}m", "memory": f"{self.memory // 1024}Ki"}


def container_usages(pod: Manifest) -> dict[str, Usage]:
    """Return the usage of each running container, by name; sidecars after the others."""
    spec, status = pod["spec"], pod.get("status") or {}
    statuses = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    running = {one["name"] for one in statuses if "running" in (one.get("state") or {})}
    annotations = pod["metadata"].get("annotations") or {}
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    return {one["name"]: _usage(one, annotations) for one in containers if one["name"] in running}


def _usage(container: Manifest, annotations: Manifest) -> Usage:
    requests = (container.get("resources") or {}).get("requests") or {}
    cpu = _scaled_quantity(annotations.get(names.KWOK_USAGE_CPU), 1000)
    memory = _scaled_quantity(annotations.get(names.KWOK_USAGE_MEMORY), 1)
    return Usage(
        max(_LEAST_CPU, int((_scaled_quantity(requests.get("cpu"), 1000) or 0) * SHARE)) if cpu is None else cpu,
        max(_LEAST_MEMORY, int((_scaled_quantity(requests.get("memory"), 1) or 0) * SHARE))
        if memory is None
        else memory,
    )


def _scaled_quantity(text: object, scale: int) -> int | None:
    """Return a quantity times `scale`, rounded up; None when it is missing or invalid."""
    if text is None:
        return None
    try:
        exact = quantity.parse(str(text)) * scale
    except QuantityError:
        return None
    return -(-exact.numerator // exact.denominator)


def total(usages: Iterable[Usage]) -> Usage:
    """Return the sum of usages."""
    cpu = memory = 0
    for one in usages:
        cpu += one.cpu
        memory += one.memory
    return Usage(cpu, memory)


_PATH: Final = re.compile(r"/api/v1/nodes/([^/]+)/proxy/(stats/summary|metrics/resource|metrics/cadvisor)")
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


class _Sample(NamedTuple):
    """A running container and its running time in seconds."""

    pod: Manifest
    container: str
    usage: Usage
    seconds: float

    @property
    def cpu_seconds(self) -> float:
        return self.usage.cpu / 1000 * self.seconds

    @property
    def labels(self) -> str:
        meta = self.pod["metadata"]
        return f'{{container="{self.container}",namespace="{meta["namespace"]}",pod="{meta["name"]}"}}'


class NodeProxy:
    """The route of the node proxy."""

    def __init__(self, core: Core, clock: TimeOfDay) -> None:
        self._core = core
        self._clock = clock

    async def __call__(self, request: ApiRequest) -> ApiResponse | None:
        """Answer for a node.

        The result is None for any other request. Raises ApiError 404 for a node that is not there.
        """
        match = _PATH.fullmatch(request.path)
        if match is None:
            return None
        node, what = match.groups()
        if self._core.store.get(Ref("nodes", "", node)) is None:
            raise not_found(self._core.registry.builtin("nodes"), node)
        samples = list(self._samples(node))
        if what == "stats/summary":
            return ApiResponse(200, encode(self._summary(node, samples)))
        lines = _RENDERERS[what](samples)
        return ApiResponse(200, ("\n".join(lines) + "\n").encode(), content_type=_TEXT)

    def _samples(self, node: str) -> Iterator[_Sample]:
        now = self._clock.now()
        for stored in self._core.store.collection("pods").objects.values():
            if b'"running"' not in stored.data:
                continue
            pod = stored.decode()
            if pod["spec"].get("nodeName") != node:
                continue
            began = _start_times(pod)
            for name, usage in container_usages(pod).items():
                since = began.get(name)
                seconds = (now - parse_rfc3339(since)).total_seconds() if since else 0.0
                yield _Sample(pod, name, usage, max(0.0, seconds))

    def _summary(self, node: str, samples: list[_Sample]) -> dict[str, Any]:
        now = rfc3339(self._clock.now())
        pods: dict[str, dict[str, Any]] = {}
        for one in samples:
            meta = one.pod["metadata"]
            reference = {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}
            entry = pods.setdefault(meta["uid"], {"podRef": reference, "containers": []})
            entry["containers"].append({"name": one.container, **_stats(one.usage, one.cpu_seconds, now)})
        used = total(one.usage for one in samples)
        spent = sum(one.cpu_seconds for one in samples)
        return {"node": {"nodeName": node, **_stats(used, spent, now)}, "pods": list(pods.values())}


def _start_times(pod: Manifest) -> dict[str, str]:
    """Return the start times of the running containers."""
    status = pod.get("status") or {}
    statuses = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    return {one["name"]: (one["state"].get("running") or {}).get("startedAt", "") for one in statuses if "state" in one}


def _stats(usage: Usage, seconds: float, now: str) -> dict[str, Any]:
    return {
        "cpu": {"time": now, "usageNanoCores": usage.cpu * 10**6, "usageCoreNanoSeconds": int(seconds * 10**9)},
        "memory": {"time": now, "usageBytes": usage.memory, "workingSetBytes": usage.memory},
    }


def _resource_metrics(samples: list[_Sample]) -> Iterator[str]:
    """Yield the text of the kubelet's resource metrics endpoint."""
    yield from _cadvisor(samples)
    yield "# TYPE node_cpu_usage_seconds_total counter"
    yield f"node_cpu_usage_seconds_total {sum(one.cpu_seconds for one in samples):g}"
    yield "# TYPE node_memory_working_set_bytes gauge"
    yield f"node_memory_working_set_bytes {total(one.usage for one in samples).memory}"


def _cadvisor(samples: list[_Sample]) -> Iterator[str]:
    """Yield the text of the two families of cAdvisor that dashboards use."""
    yield "# TYPE container_cpu_usage_seconds_total counter"
    for one in samples:
        yield f"container_cpu_usage_seconds_total{one.labels} {one.cpu_seconds:g}"
    yield "# TYPE container_memory_working_set_bytes gauge"
    for one in samples:
        yield f"container_memory_working_set_bytes{one.labels} {one.usage.memory}"


_RENDERERS: Final = {"metrics/resource": _resource_metrics, "metrics/cadvisor": _cadvisor}


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
    """The route of metrics.k8s.io; registers its resources for discovery and OpenAPI."""

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
        """Yield running pods of one namespace and name, or ("") of all."""
        for (place, called), stored in self._core.store.collection("pods").objects.items():
            if namespace in ("", place) and name in ("", called) and b'"running"' in stored.data:
                yield stored.decode()


def _stored(resource: Resource, about: Manifest, now: str, usage: Manifest) -> Stored:
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
        **usage,
    }
    return Stored(meta.get("namespace", ""), meta["name"], 0, obj)
