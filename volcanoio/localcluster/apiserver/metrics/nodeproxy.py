"""What kubelets tell under `/api/v1/nodes/NAME/proxy/`: `stats/summary`, `metrics/resource` and `metrics/cadvisor`.

Counters of CPU time grow with the time a container has run; names are those of Kubernetes 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from volcanoio.localcluster.apiserver.api import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.clock import TimeOfDay, parse_rfc3339, rfc3339
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.errors import not_found
from volcanoio.localcluster.apiserver.metrics.usage import Usage, container_usages, total
from volcanoio.localcluster.apiserver.objects import Ref, encode
from volcanoio.model.base import Manifest

_PATH: Final = re.compile(r"/api/v1/nodes/([^/]+)/proxy/(stats/summary|metrics/resource|metrics/cadvisor)")
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


class _Sample(NamedTuple):
    """A container that runs, and for how many seconds it has."""

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
    """The route."""

    def __init__(self, core: Core, clock: TimeOfDay) -> None:
        self._core = core
        self._clock = clock

    async def __call__(self, request: ApiRequest) -> ApiResponse | None:
        """Answer for a node; None for any other request. Raises ApiError 404 for a node that is not there."""
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
            began = _began(pod)
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


def _began(pod: Manifest) -> dict[str, str]:
    """When each running container began."""
    status = pod.get("status") or {}
    statuses = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    return {one["name"]: (one["state"].get("running") or {}).get("startedAt", "") for one in statuses if "state" in one}


def _stats(usage: Usage, seconds: float, now: str) -> dict[str, Any]:
    return {
        "cpu": {"time": now, "usageNanoCores": usage.cpu * 10**6, "usageCoreNanoSeconds": int(seconds * 10**9)},
        "memory": {"time": now, "usageBytes": usage.memory, "workingSetBytes": usage.memory},
    }


def _resource(samples: list[_Sample]) -> Iterator[str]:
    """As the kubelet's resource metrics endpoint."""
    yield from _cadvisor(samples)
    yield "# TYPE node_cpu_usage_seconds_total counter"
    yield f"node_cpu_usage_seconds_total {sum(one.cpu_seconds for one in samples):g}"
    yield "# TYPE node_memory_working_set_bytes gauge"
    yield f"node_memory_working_set_bytes {total(one.usage for one in samples).memory}"


def _cadvisor(samples: list[_Sample]) -> Iterator[str]:
    """The two families of cAdvisor that dashboards are built on."""
    yield "# TYPE container_cpu_usage_seconds_total counter"
    for one in samples:
        yield f"container_cpu_usage_seconds_total{one.labels} {one.cpu_seconds:g}"
    yield "# TYPE container_memory_working_set_bytes gauge"
    for one in samples:
        yield f"container_memory_working_set_bytes{one.labels} {one.usage.memory}"


_RENDERERS: Final = {"metrics/resource": _resource, "metrics/cadvisor": _cadvisor}
