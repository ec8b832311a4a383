"""What Prometheus scrapes from an API server."""

from __future__ import annotations

import re

from tests.contract.support import Cluster, Namespace

_SAMPLE = re.compile(r"(?P<name>[a-z0-9_]+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def scraped(cluster: Cluster, name: str, **labels: str) -> list[float]:
    """The values of a metric's samples that have these labels."""
    answer = cluster.get("/metrics", accept="text/plain")
    assert answer.code == 200
    found = []
    for line in answer.body.decode().splitlines():
        if not line.startswith("#"):
            sample = _SAMPLE.fullmatch(line)
            assert sample, line
            if sample["name"] == name and labels.items() <= dict(_LABEL.findall(sample["labels"] or "")).items():
                found.append(float(sample["value"]))
    return found


def test_requests_are_counted(cluster: Cluster, namespace: Namespace) -> None:
    about = {"verb": "POST", "resource": "configmaps", "group": "", "version": "v1", "scope": "resource"}
    before = sum(scraped(cluster, "apiserver_request_total", **about, code="201"))
    namespace.config_map("a")
    assert sum(scraped(cluster, "apiserver_request_total", **about, code="201")) >= before + 1
    namespace.cluster.get(namespace.path("configmaps", "absent")).refused(404, "NotFound")
    assert scraped(cluster, "apiserver_request_total", verb="GET", resource="configmaps", code="404")[0] >= 1


def test_their_duration_is_a_histogram(cluster: Cluster, namespace: Namespace) -> None:
    namespace.cluster.get(namespace.path("configmaps")).ok()
    about = {"verb": "LIST", "resource": "configmaps", "scope": "namespace"}
    (count,) = scraped(cluster, "apiserver_request_duration_seconds_count", **about)
    buckets = scraped(cluster, "apiserver_request_duration_seconds_bucket", **about)
    assert count >= 1
    assert buckets == sorted(buckets)
    assert buckets[-1] >= count


def test_watches_and_objects_are_gauges(cluster: Cluster, namespace: Namespace) -> None:
    namespace.config_map("a")
    with namespace.cluster.watch(namespace.path("configmaps")) as changes:
        next(changes)
        assert sum(scraped(cluster, "apiserver_longrunning_requests", verb="WATCH", resource="configmaps")) >= 1
    assert scraped(cluster, "apiserver_storage_objects", resource="configmaps") >= [0.0]


def test_the_build_is_reported(cluster: Cluster) -> None:
    assert scraped(cluster, "kubernetes_build_info", major="1") == [1.0]
