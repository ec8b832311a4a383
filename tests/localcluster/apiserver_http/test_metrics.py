"""metrics.k8s.io: what nodes and pods use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.localcluster.apiserver.api import Api
from tests.localcluster.apiserver.api import running as served
from volcanoio.kube.transport import ContentType
from volcanoio.localcluster.apiserver import server
from volcanoio.localcluster.apiserver.metrics.container_usage import Usage, container_usages, total
from volcanoio.model import names

ROOT = "/apis/metrics.k8s.io/v1beta1"


def pod(name: str, requests: dict[str, str] | None = None, **annotations: str) -> dict[str, Any]:
    container = {"name": "main", "image": "i", "resources": {"requests": requests or {}}}
    meta = {"name": name, "labels": {"app": name}, "annotations": annotations}
    return {"metadata": meta, "spec": {"nodeName": "node-0", "containers": [container]}}


def running(subject: dict[str, Any]) -> dict[str, Any]:
    state = {"containerStatuses": [{"name": "main", "state": {"running": {}}}]}
    return {**subject, "status": state}


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (pod("p", {"cpu": "3", "memory": "2Gi"}), Usage(1500, 2**30)),
        (pod("p"), Usage(1, 2**20)),
        (pod("p", {}, **{names.KWOK_USAGE_CPU: "250m", names.KWOK_USAGE_MEMORY: "5Mi"}), Usage(250, 5 * 2**20)),
        (pod("p", {"cpu": "1"}, **{names.KWOK_USAGE_CPU: "lots"}), Usage(500, 2**20)),
    ],
)
def test_usage_is_annotated_or_a_share_of_the_requests(subject: dict[str, Any], expected: Usage) -> None:
    assert container_usages(running(subject)) == {"main": expected}
    assert container_usages(subject) == {}


def test_usages_add_up() -> None:
    assert total([Usage(1, 2), Usage(3, 4)]) == Usage(4, 6)


@asynccontextmanager
async def metered() -> AsyncIterator[Api]:
    async with served() as found:
        server.install(found.server)
        yield found


async def loaded(api: Api) -> None:
    """A node with one running pod and one that waits."""
    await api.made("/api/v1/nodes", {"metadata": {"name": "node-0"}})
    for one in (pod("runs", {"cpu": "3", "memory": "2Gi"}), pod("waits")):
        await api.made("/api/v1/namespaces/default/pods", one)
    status = {"status": running(pod("runs"))["status"]}
    await api("PATCH", "/api/v1/namespaces/default/pods/runs/status", status, ContentType.MERGE_PATCH)


async def test_nodes_and_running_pods_are_sent() -> None:
    async with metered() as api:
        await loaded(api)
        (node,) = (await api.got(f"{ROOT}/nodes"))["items"]
        assert (node["kind"], node["usage"]) == ("NodeMetrics", {"cpu": "1500m", "memory": "1048576Ki"})
        found = await api.got(f"{ROOT}/pods")
        assert (found["kind"], found["apiVersion"]) == ("PodMetricsList", "metrics.k8s.io/v1beta1")
        (one,) = found["items"]
        assert one["metadata"]["name"] == "runs"
        assert one["containers"] == [{"name": "main", "usage": {"cpu": "1500m", "memory": "1048576Ki"}}]
        assert await api.names(f"{ROOT}/namespaces/default/pods", labelSelector="app=waits") == []
        assert await api.names(f"{ROOT}/namespaces/other/pods") == []
        assert (await api.got(f"{ROOT}/nodes/node-0"))["usage"] == node["usage"]


async def test_objects_without_metrics_are_not_found() -> None:
    async with metered() as api:
        await loaded(api)
        answer = await api("GET", f"{ROOT}/namespaces/default/pods/waits")
        assert (answer.code, answer.message) == (404, 'podmetrics.metrics.k8s.io "default/waits" not found')
        answer = await api("GET", f"{ROOT}/nodes/nope")
        assert (answer.code, answer.message) == (404, 'nodemetrics.metrics.k8s.io "nope" not found')


async def test_they_are_read_only_and_discovered() -> None:
    async with metered() as api:
        assert (await api("POST", f"{ROOT}/nodes", {"metadata": {"name": "n"}})).code == 405
        assert (await api("GET", f"{ROOT}/pods", watch="true")).code == 405
        listed = (await api.got(ROOT))["resources"]
        assert [(one["name"], one["kind"], one["verbs"]) for one in listed] == [
            ("nodes", "NodeMetrics", ["get", "list"]),
            ("pods", "PodMetrics", ["get", "list"]),
        ]


async def test_they_print_as_tables() -> None:
    async with metered() as api:
        await loaded(api)
        table = (await api("GET", f"{ROOT}/nodes", accept="application/json;as=Table;g=meta.k8s.io;v=v1")).body
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "CPU", "Memory", "Window"]
        assert [row["cells"] for row in table["rows"]] == [["node-0", "1500m", "1048576Ki", "10s"]]


async def test_kubelets_report_it_too() -> None:
    async with metered() as api:
        await loaded(api)
        proxy = "/api/v1/nodes/node-0/proxy"
        summary = (await api("GET", f"{proxy}/stats/summary")).body
        assert summary["node"]["cpu"]["usageNanoCores"] == 1_500_000_000
        assert [entry["podRef"]["name"] for entry in summary["pods"]] == ["runs"]
        for page in ("metrics/resource", "metrics/cadvisor"):
            text = (await api("GET", f"{proxy}/{page}")).message
            line = 'container_memory_working_set_bytes{container="main",namespace="default",pod="runs"} 1073741824'
            assert line in text.splitlines()
        assert (await api("GET", "/api/v1/nodes/nope/proxy/stats/summary")).code == 404
