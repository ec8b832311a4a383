"""`/metrics`: the API server's own figures in Prometheus' text format, under kube-apiserver's names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from itertools import accumulate
from typing import Final, TypeAlias

from volcanoio.localcluster.apiserver.api import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.health import KUBERNETES_VERSION
from volcanoio.localcluster.apiserver.metrics.traffic import BUCKETS, About, Traffic

Figures: TypeAlias = Callable[[], Awaitable[bytes]]
"""Gives figures in the same format."""
_FORMAT: Final = "text/plain; version=0.0.4; charset=utf-8"
_ABOUT: Final = {
    "kubernetes_build_info": ("gauge", "Always 1; the labels say which API is served."),
    "apiserver_request_total": ("counter", "Requests over HTTP by verb, resource and code of the answer."),
    "apiserver_request_duration_seconds": ("histogram", "Seconds until an answer began; watches are left out."),
    "apiserver_longrunning_requests": ("gauge", "Watches that are open, those of components in this process too."),
    "apiserver_resource_objects": ("gauge", "Stored objects by resource."),
    "apiserver_storage_objects": ("gauge", "Stored objects by resource (the name before Kubernetes 1.34)."),
    "apiserver_storage_revision": ("gauge", "The newest resourceVersion."),
}


class MetricsPage:
    """The page. `more` gives the figures of the other components of the process, in the same format."""

    def __init__(self, core: Core, traffic: Traffic, more: Figures | None = None) -> None:
        self._core = core
        self._traffic = traffic
        self._more = more

    async def __call__(self, request: ApiRequest) -> ApiResponse | None:
        """The figures as they are now; None for any other path."""
        if request.path != "/metrics" or request.method != "GET":
            return None
        own = "".join(self._lines()).encode()
        return ApiResponse(200, own + (await self._more() if self._more else b""), content_type=_FORMAT)

    def _lines(self) -> Iterator[str]:
        families = (
            ("kubernetes_build_info", self._build()),
            ("apiserver_request_total", self._requests()),
            ("apiserver_request_duration_seconds", self._durations()),
            ("apiserver_longrunning_requests", self._watches()),
            ("apiserver_resource_objects", self._objects()),
            ("apiserver_storage_objects", self._stored()),
            ("apiserver_storage_revision", iter([f"apiserver_storage_revision {self._core.store.revision}\n"])),
        )
        for name, samples in families:
            type_, text = _ABOUT[name]
            yield f"# HELP {name} {text}\n# TYPE {name} {type_}\n"
            yield from samples

    def _build(self) -> Iterator[str]:
        major, minor, patch = KUBERNETES_VERSION
        labels = f'git_version="v{major}.{minor}.{patch}+volcanoio",major="{major}",minor="{minor}"'
        yield f"kubernetes_build_info{{{labels}}} 1\n"

    def _requests(self) -> Iterator[str]:
        for about, status, count in self._traffic.answers():
            yield f'apiserver_request_total{{code="{status}",{_labels(about)}}} {count}\n'

    def _durations(self) -> Iterator[str]:
        name = "apiserver_request_duration_seconds"
        for about, durations in self._traffic.durations():
            labels = _labels(about)
            bounds = (*(f"{bound:g}" for bound in BUCKETS), "+Inf")
            for bound, count in zip(bounds, accumulate(durations.counts), strict=True):
                yield f'{name}_bucket{{{labels},le="{bound}"}} {count}\n'
            yield f"{name}_sum{{{labels}}} {durations.total:.6f}\n{name}_count{{{labels}}} {sum(durations.counts)}\n"

    def _watches(self) -> Iterator[str]:
        for name, collection in self._core.store.collections():
            resource = self._core.registry.named(name)
            if resource is not None and collection.watchers:
                about = About("WATCH", resource.group, resource.version, resource.plural)
                yield f"apiserver_longrunning_requests{{{_labels(about)}}} {collection.watchers}\n"

    def _objects(self) -> Iterator[str]:
        for name, collection in self._core.store.collections():
            plural, _, group = name.partition(".")
            yield f'apiserver_resource_objects{{group="{group}",resource="{plural}"}} {len(collection.objects)}\n'

    def _stored(self) -> Iterator[str]:
        for name, collection in self._core.store.collections():
            yield f'apiserver_storage_objects{{resource="{name}"}} {len(collection.objects)}\n'


def _labels(about: About) -> str:
    given = {"component": "apiserver", "dry_run": "", **about._asdict()}
    return ",".join(f'{name}="{value}"' for name, value in sorted(given.items()))
