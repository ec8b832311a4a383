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
_PAGES: Final = ("/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi", "/readyz", "/version")


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


class Traffic:
    """The requests so far."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._answers: dict[tuple[About, int], int] = {}
        self._durations: dict[About, Durations] = {}

    def answered(self, request: ApiRequest, status: int, seconds: float) -> None:
        """Count a request and the time until its answer began."""
        about = self._about(request)
        key = (about, status)
        self._answers[key] = self._answers.get(key, 0) + 1
        if about.verb != "WATCH":
            durations = self._durations.get(about)
            if durations is None:
                durations = self._durations[about] = Durations()
            durations.add(seconds)

    def answers(self) -> Iterator[tuple[About, int, int]]:
        """What requests were about, the code of their answers, and how many there were."""
        for (about, status), count in sorted(self._answers.items()):
            yield about, status, count

    def durations(self) -> Iterator[tuple[About, Durations]]:
        """How long they took."""
        yield from sorted(self._durations.items(), key=lambda item: item[0])

    def _about(self, request: ApiRequest) -> About:
        verb = _VERBS.get(request.method, "OTHER")
        try:
            target = parse(request.path, self._registry)
        except ApiError:
            page = next((one for one in _PAGES if request.path.startswith(one)), "")
            return About(
                verb, subresource=page
            )  # nothing else of the path: whoever makes paths up must not fill memory
        resource, scope = target.resource, "resource"
        if not target.name and verb != "POST":
            scope = "namespace" if target.namespace else "cluster"
            verb = {"GET": "LIST", "DELETE": "DELETECOLLECTION"}.get(verb, verb)
        if request.method == "GET" and request.query and request.flag("watch"):
            verb = "WATCH"
        return About(verb, resource.group, resource.version, resource.plural, target.subresource, scope)
