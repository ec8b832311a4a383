"""Which lines of which container a log request gets, and how it is refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest, ApiResponse, ApiStream
from volcanoio.localcluster.apiserver.streams.pod_connections import LogOptions, PodLogs

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
BACKLOG = [b"2026-01-01T11:59:%02dZ line %d" % (second, second) for second in (0, 20, 40)]
LATER = [b"2026-01-01T12:00:01Z later"]
RUNNING: dict[str, Any] = {"state": {"running": {}}}


class Noon:
    def now(self) -> datetime:
        return NOW


class Lines:
    """A source with a backlog and one more batch; remembers what was asked for and that it was closed."""

    def __init__(self) -> None:
        self.asked: tuple[str, str, LogOptions] | None = None
        self.closed = False

    async def read(
        self, namespace: str, pod_manifest: dict[str, Any], container: str, options: LogOptions
    ) -> AsyncIterator[list[bytes]]:
        self.asked = (namespace, container, options)
        try:
            yield BACKLOG
            yield LATER
        finally:
            self.closed = True


def a_pod(*names: str, **status: Any) -> dict[str, Any]:
    statuses = [{"name": name, **status} for name in names]
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": name} for name in names], "initContainers": [{"name": "init"}]},
        "status": {"containerStatuses": statuses},
    }


async def read(pod: dict[str, Any] | None, source: Lines, **query: str) -> ApiResponse | list[bytes]:
    async def get(request: ApiRequest) -> ApiResponse | ApiStream:
        assert request.path == "/api/v1/namespaces/ns/pods/p"
        return ApiResponse(404, b"no such pod") if pod is None else ApiResponse(200, msgspec.json.encode(pod))

    route = PodLogs(get, source, Noon())
    values = {name: [value] for name, value in query.items()}
    answer = await route(ApiRequest("GET", "/api/v1/namespaces/ns/pods/p/log", values))
    if not isinstance(answer, ApiStream):
        assert answer is not None
        return answer
    assert answer.content_type == "text/plain"
    assert answer.raw
    return b"".join([piece async for batch in answer.batches for piece in batch]).splitlines(keepends=True)


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ({}, [b"line 0", b"line 20", b"line 40"]),
        ({"tailLines": "1"}, [b"line 40"]),
        ({"tailLines": "0"}, []),
        ({"tailLines": "9"}, [b"line 0", b"line 20", b"line 40"]),
        ({"tailLines": "1", "follow": "true"}, [b"line 40", b"later"]),
        ({"sinceSeconds": "30"}, [b"line 40"]),
        ({"sinceTime": "2026-01-01T11:59:20Z"}, [b"line 20", b"line 40"]),
        ({"tailLines": "1", "timestamps": "true"}, BACKLOG[2:]),
        ({"limitBytes": "10"}, [b"line 0", b"lin"]),
        ({"limitBytes": "10", "follow": "true"}, [b"line 0", b"lin"]),
        ({"container": "main", "follow": "0"}, [b"line 0", b"line 20", b"line 40"]),
    ],
)
async def test_options_choose_lines(query: dict[str, str], lines: list[bytes]) -> None:
    source = Lines()
    cut = "limitBytes" in query
    sent = [line + b"\n" for line in lines[:-1]] + [line + (b"" if cut else b"\n") for line in lines[-1:]]
    assert await read(a_pod("main", **RUNNING), source, **query) == sent
    assert source.closed


async def test_the_source_is_asked_for_the_container() -> None:
    source = Lines()
    ended: dict[str, Any] = {"state": {"running": {}}, "lastState": {"terminated": {}}}
    await read(a_pod("a", "b", **ended), source, container="b", previous="true", follow="true")
    assert source.asked is not None
    namespace, container, options = source.asked
    assert (namespace, container) == ("ns", "b")
    assert (options.follow, options.previous) == (True, True)


@pytest.mark.parametrize(
    ("pod", "query", "text"),
    [
        (a_pod("a", "b", **RUNNING), {}, "a container name must be specified for pod p, choose one of: [a b]"),
        (a_pod("a", **RUNNING), {"container": "z"}, "container z is not valid for pod p"),
        (a_pod("a", state={"waiting": {"reason": "X"}}), {}, 'container "a" in pod "p" is waiting to start: X'),
        (a_pod("a"), {}, "not yet assigned to a node"),
        (a_pod("a"), {"container": "init"}, "waiting to start"),
        (a_pod("a", **RUNNING), {"previous": "true"}, 'previous terminated container "a" in pod "p" not found'),
        (a_pod("a", **RUNNING), {"tailLines": "-1"}, "tailLines: '-1' must be a whole number of at least 0"),
        (a_pod("a", **RUNNING), {"limitBytes": "0"}, "limitBytes"),
        (a_pod("a", **RUNNING), {"sinceTime": "noon"}, "sinceTime"),
        (a_pod("a", **RUNNING), {"sinceTime": "2026-01-01T00:00:00"}, "sinceTime"),
        (a_pod("a", **RUNNING), {"sinceTime": "2026-01-01T00:00:00Z", "sinceSeconds": "1"}, "at most one"),
    ],
)
async def test_refusals_name_the_reason(pod: dict[str, Any], query: dict[str, str], text: str) -> None:
    answer = await read(pod, Lines(), **query)
    assert isinstance(answer, ApiResponse)
    status = json.loads(answer.body)
    assert (answer.status, status["reason"]) == (400, "BadRequest")
    assert text in status["message"]


async def test_a_missing_pod_is_reported_as_the_server_reports_it() -> None:
    answer = await read(None, Lines())
    assert isinstance(answer, ApiResponse)
    assert answer.body == b"no such pod"


async def test_a_closed_follower_closes_its_source() -> None:
    source = Lines()
    pod = a_pod("a", **RUNNING)

    async def get(_: ApiRequest) -> ApiResponse | ApiStream:
        return ApiResponse(200, msgspec.json.encode(pod))

    route = PodLogs(get, source, Noon())
    answer = await route(ApiRequest("GET", "/api/v1/namespaces/ns/pods/p/log", {"follow": ["1"]}))
    assert isinstance(answer, ApiStream)
    async with aclosing(answer.batches) as batches:  # type: ignore[type-var]  # it is a generator
        assert await anext(batches) == [b"line 0\nline 20\nline 40\n"]
    assert source.closed


async def test_other_requests_are_left_to_others() -> None:
    async def get(_: ApiRequest) -> ApiResponse | ApiStream:
        raise AssertionError

    route = PodLogs(get, Lines(), Noon())
    assert await route(ApiRequest("GET", "/api/v1/namespaces/ns/pods/p")) is None
    assert await route(ApiRequest("POST", "/api/v1/namespaces/ns/pods/p/log")) is None
