"""Requests to the API server are counted by verb, resource, subresource and code."""

from __future__ import annotations

import pytest

from tests.unit.kube.scripted import Call, ScriptedTransport, answer, refusal
from tests.unit.runtime.virtual_time import VirtualClock
from volcanoio.kube.transport import Response, StreamRefused, TransportError
from volcanoio.model import kinds
from volcanoio.runtime.api_metrics import REQUESTS, CountingTransport, target
from volcanoio.runtime.metrics import PrometheusProbe


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (kinds.POD.path("ns", "p", "binding"), ("pods", "p", "binding")),
        (kinds.POD.path(), ("pods", "", "")),
        (kinds.POD_GROUP.path("ns"), ("podgroups.scheduling.volcano.sh", "", "")),
        (kinds.QUEUE.path("", "q", "status"), ("queues.scheduling.volcano.sh", "q", "status")),
        ("/api/v1/namespaces/ns", ("namespaces", "ns", "")),
        ("/api/v1/namespaces", ("namespaces", "", "")),
        ("/version", ("version", "", "")),
        ("/", ("", "", "")),
    ],
)
def test_a_path_names_resource_and_subresource(path: str, expected: tuple[str, str, str]) -> None:
    assert target(path) == expected


async def test_requests_are_counted_by_verb_and_code() -> None:
    async def script(call: Call) -> Response:
        if call.path.endswith("lost"):
            raise TransportError("reset")
        return refusal(409, "Conflict") if call.method == "PATCH" else answer({})

    probe = PrometheusProbe(process=False)
    transport = CountingTransport(
        ScriptedTransport(script, streams=[refusal(410, "Expired"), TransportError("reset"), []]), probe, VirtualClock()
    )
    for method in ("POST", "PUT", "DELETE", "GET", "PATCH"):
        await transport.request(method, kinds.POD.path("ns", "p"))
    await transport.request("GET", kinds.POD.path("ns"))
    with pytest.raises(TransportError):
        await transport.request("GET", kinds.POD.path("ns", "lost"))
    for error in (StreamRefused, TransportError):
        with pytest.raises(error):
            async with transport.stream(kinds.POD.path()):
                pass
    async with transport.stream(kinds.POD.path(), query={"watch": "true"}) as lines:
        assert [line async for line in lines] == []

    def counted(verb: str, code: str) -> float:
        return probe.value(REQUESTS, verb=verb, resource="pods", subresource="", code=code)

    assert [counted(verb, "200") for verb in ("create", "update", "delete", "get", "list", "watch")] == [1] * 6
    assert (counted("patch", "409"), counted("get", "<error>")) == (1, 1)
    assert (counted("watch", "410"), counted("watch", "<error>")) == (1, 1)
