"""How many requests over HTTP were answered, how, and how fast. What this process asks of itself is not counted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from volcanoio.localcluster.apiserver.api import ApiRequest
from volcanoio.localcluster.apiserver.errors import ApiError
from volcanoio.localcluster.apiserver.paths import parse
from volcanoio.localcluster.apiserver.registry import Registry

BUCKETS: Final = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0),
    *(10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
"""Upper bounds in seconds, as kube-apiserver's."""
_VERBS: Final = {"PUT": "PUT", "POST": "POST", "PATCH": "PATCH", "DELETE": "DELETE", "GET": "GET"}
_PAGES: Final = ("/apis", "/api", "/healthz", "/livez", "/metrics", "/openapi", "/readyz", "/version")


class About(NamedTuple):
    """What a request is about: the labels of kube-apiserver's metrics."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    scope: str = ""


class Durations:
    """A histogram of seconds."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds


class _Figures:
    """What became of requests that are about the same."""

    __slots__ = ("about", "answers", "durations")

    def __init__(self, about: About) -> None:
        self.about = about
        self.answers: dict[int, int] = {}
        self.durations = Durations()


class Traffic:
    """The requests so far."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._figures: dict[About, _Figures] = {}
        self._by_shape: dict[tuple[object, ...], _Figures] = {}

    def answered(self, request: ApiRequest, status: int, seconds: float) -> None:
        """Count a request and the time until its answer began."""
        shape = _shape(request)
        figures = self._by_shape.get(shape)
        if figures is None:
            figures = self._learn(request, shape)
        figures.answers[status] = figures.answers.get(status, 0) + 1
        figures.durations.add(seconds)

    def answers(self) -> Iterator[tuple[About, int, int]]:
        """What requests were about, the code of their answers, and how many there were."""
        for about, figures in sorted(self._figures.items(), key=lambda item: item[0]):
            for status, count in sorted(figures.answers.items()):
                yield about, status, count

    def durations(self) -> Iterator[tuple[About, Durations]]:
        """How long they took; a watch lasts as long as its client likes."""
        for about, figures in sorted(self._figures.items(), key=lambda item: item[0]):
            if about.verb != "WATCH":
                yield about, figures.durations

    def _learn(self, request: ApiRequest, shape: tuple[object, ...]) -> _Figures:
        about = self._about(request)
        figures = self._figures.setdefault(about, _Figures(about))
        if about.resource:  # made-up paths must not fill the memory
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
    """What requests about the same have in common: their paths but for names and namespaces."""
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
