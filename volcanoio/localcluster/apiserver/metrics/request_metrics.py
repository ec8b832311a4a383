"""`/metrics`: counts and durations of HTTP requests in Prometheus' text format, named as kube-apiserver's.

Requests from this process are not counted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterator
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

from volcanoio.localcluster.apiserver.apimachinery.errors import ApiError
from volcanoio.localcluster.apiserver.apimachinery.paths import parse
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.apimachinery.served_resources import Registry
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.http.health import KUBERNETES_VERSION

BUCKETS: Final = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0),
    *(10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
"""Upper bounds in seconds, as kube-apiserver's."""
_VERBS: Final = {"PUT": "PUT", "POST": "POST", "PATCH": "PATCH", "DELETE": "DELETE", "GET": "GET"}
_PAGES: Final = ("/apis", "/api", "/healthz", "/livez", "/metrics", "/openapi", "/readyz", "/version")


class About(NamedTuple):
    """Labels of a request in kube-apiserver's metrics."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    scope: str = ""


class Durations:
    """A histogram of durations in seconds."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Add one duration."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds


class _RequestStatistics:
    """Counts and durations of requests with the same labels."""

    __slots__ = ("about", "answers", "durations")

    def __init__(self, about: About) -> None:
        self.about = about
        self.answers: dict[int, int] = {}
        self.durations = Durations()


class Traffic:
    """Counts of all requests so far."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._figures: dict[About, _RequestStatistics] = {}
        self._by_shape: dict[tuple[object, ...], _RequestStatistics] = {}

    def answered(self, request: ApiRequest, status: int, seconds: float) -> None:
        """Count a request and the time until its answer began."""
        shape = _shape(request)
        figures = self._by_shape.get(shape)
        if figures is None:
            figures = self._learn(request, shape)
        figures.answers[status] = figures.answers.get(status, 0) + 1
        figures.durations.add(seconds)

    def answers(self) -> Iterator[tuple[About, int, int]]:
        """Yield labels, answer codes and counts of requests."""
        for about, figures in sorted(self._figures.items(), key=lambda item: item[0]):
            for status, count in sorted(figures.answers.items()):
                yield about, status, count

    def durations(self) -> Iterator[tuple[About, Durations]]:
        """Yield histograms by labels; the duration of a watch is that of its connection."""
        for about, figures in sorted(self._figures.items(), key=lambda item: item[0]):
            if about.verb != "WATCH":
                yield about, figures.durations

    def _learn(self, request: ApiRequest, shape: tuple[object, ...]) -> _RequestStatistics:
        about = self._about(request)
        figures = self._figures.setdefault(about, _RequestStatistics(about))
        if about.resource:  # random paths must not fill the memory
            self._by_shape[shape] = figures
        return figures

    def _about(self, request: ApiRequest) -> About:
        verb = _VERBS.get(request.method, "OTHER")
        try:
            target = parse(request.path, self._registry)
        except ApiError:
            page = next((one for one in _PAGES if request.path.startswith(one)), "")
            return About(verb, subresource=page)
        resource, scope = target.resource, "resource"
        if not target.name and verb != "POST":
            scope = "namespace" if target.namespace else "cluster"
            verb = {"GET": "LIST", "DELETE": "DELETECOLLECTION"}.get(verb, verb)
        if request.method == "GET" and request.query and request.flag("watch"):
            verb = "WATCH"
        return About(verb, resource.group, resource.version, resource.plural, target.subresource, scope)


def _shape(request: ApiRequest) -> tuple[object, ...]:
    """Return the path without names and namespaces, the cache key of a request's labels."""
    parts = request.path.split("/")
    at = 3 if parts[1:2] == ["api"] else 4
    length = len(parts)
    namespaced = length > at + 2 and parts[at] == "namespaces"
    plural = at + 2 if namespaced else at
    watching = request.method == "GET" and bool(request.query) and request.flag("watch")
    del parts[plural + 1 : plural + 2]
    if namespaced:
        del parts[at + 1]
    return (request.method, watching, length, *parts)


Figures: TypeAlias = Callable[[], Awaitable[bytes]]
"""Return metrics in the same format."""
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
    """The metrics page.

    `more` returns the metrics of the other components of the process, in the same format.
    """

    def __init__(self, core: Core, traffic: Traffic, more: Figures | None = None) -> None:
        self._core = core
        self._traffic = traffic
        self._more = more

    async def __call__(self, request: ApiRequest) -> ApiResponse | None:
        """Return the current metrics; None for any other path."""
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
