"""What a request is counted as."""

from __future__ import annotations

import pytest

from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest
from volcanoio.localcluster.apiserver.apimachinery.served_resources import Registry
from volcanoio.localcluster.apiserver.metrics.request_metrics import About, Traffic

CASES = {
    ("GET", "/api/v1/nodes"): About("LIST", "", "v1", "nodes", "", "cluster"),
    ("GET", "/api/v1/namespaces/x"): About("GET", "", "v1", "namespaces", "", "resource"),
    ("GET", "/api/v1/namespaces/x/status"): About("GET", "", "v1", "namespaces", "status", "resource"),
    ("GET", "/api/v1/namespaces/x/pods"): About("LIST", "", "v1", "pods", "", "namespace"),
    ("POST", "/api/v1/namespaces/x/pods"): About("POST", "", "v1", "pods", "", "resource"),
    ("PUT", "/api/v1/namespaces/x/pods/y/status"): About("PUT", "", "v1", "pods", "status", "resource"),
    ("DELETE", "/apis/apps/v1/deployments"): About("DELETECOLLECTION", "apps", "v1", "deployments", "", "cluster"),
    ("GET", "/apis/apps/v1"): About("GET", subresource="/apis"),
    ("GET", "/healthz"): About("GET", subresource="/healthz"),
    ("BREW", "/made/up"): About("OTHER"),
    ("GET", ""): About("GET"),
}


@pytest.mark.parametrize(("method", "path"), CASES)
def test_target_of_a_request(method: str, path: str) -> None:
    traffic = Traffic(Registry())
    for name in ("x", "z"):
        traffic.answered(ApiRequest(method, path.replace("/x", f"/{name}")), 200, 0.01)
    assert list(traffic.answers()) == [(CASES[method, path], 200, 2)]


def test_a_watch_is_no_list_and_has_no_duration() -> None:
    traffic = Traffic(Registry())
    traffic.answered(ApiRequest("GET", "/api/v1/pods"), 200, 0.01)
    traffic.answered(ApiRequest("GET", "/api/v1/pods", {"watch": ["true"]}), 200, 0.01)
    assert [about.verb for about, _, _ in traffic.answers()] == ["LIST", "WATCH"]
    ((about, durations),) = traffic.durations()
    assert (about.verb, sum(durations.counts)) == ("LIST", 1)


def test_made_up_paths_fill_no_memory() -> None:
    traffic = Traffic(Registry())
    for number in range(100):
        traffic.answered(ApiRequest("GET", f"/made/up/{number}"), 404, 0.01)
    assert list(traffic.answers()) == [(About("GET"), 404, 100)]
