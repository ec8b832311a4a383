"""Faults on the third of eight binds: nothing is doubled, no node overcommitted, and the gang ends whole."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.scenario.cluster.harness import cluster, job_manifest
from volcanoio.localcluster.apiserver.http.faults import Faults, Rule
from volcanoio.model import kinds
from volcanoio.model.core import Pod

_BINDING = "/binding$"
_FAULTS = {
    "409 before": Rule("POST", _BINDING, "status", nth=3, code=409),
    "429 before": Rule("POST", _BINDING, "status", nth=3, code=429),
    "500 after commit": Rule("POST", _BINDING, "status", when="after", nth=3, code=500),
    "reset after commit": Rule("POST", _BINDING, "reset", when="after", nth=3),
    "hang": Rule("POST", _BINDING, "hang", nth=3),
}


@pytest.mark.parametrize("fault", _FAULTS)
async def test_a_gang_is_complete_after_any_fault_of_the_third_bind(fault: str) -> None:
    rule = _FAULTS[fault]
    faults = Faults(Rule(rule.method, rule.path, rule.action, rule.when, rule.nth, rule.code, rule.seconds))
    async with cluster(faults=faults) as c:
        await c.create(job_manifest("gang", replicas=8, cpu="1"))
        done = await c.job("gang", "Completed")
        assert done.status.succeeded == 8
        assert done.status.retry_count == 0
        assert len(await c.pods("gang-")) == 8
    created = Counter(each.path for each in faults.requests if each.method == "POST" and each.path.endswith("/pods"))
    assert sum(created.values()) == 8


async def test_a_cluster_is_ready_once_the_default_queue_exists() -> None:
    async with cluster(faults=Faults(Rule("POST", "/queues$", "status", nth=2))) as c:  # the first is that of root
        await c.create(job_manifest("early"))
        await c.job("early", "Completed")


async def test_a_gang_goes_out_as_one_batch_and_reservations_never_reach_the_api() -> None:
    faults = Faults()
    async with cluster(faults=faults) as c:
        await c.create(job_manifest("gang", replicas=8, cpu="1"))
        await c.job("gang", "Completed")
        metrics = (await c.client.transport.request("GET", "/metrics")).body.decode().splitlines()
        assert "volcanoio_bind_batch_size_count 1.0" in metrics
        assert "volcanoio_bind_batch_size_sum 8.0" in metrics
        assert "volcanoio_binds_in_flight 0.0" in metrics
    binds = [each for each in faults.requests if each.path.endswith("/binding")]
    assert len(binds) == 8
    about_objects = [each for each in faults.requests if "customresourcedefinitions" not in each.path]
    for each in about_objects:
        assert b"Allocated" not in each.body
        assert b"Pipelined" not in each.body


async def test_a_new_scheduler_completes_a_gang_after_a_crash_at_the_third_bind() -> None:
    faults = Faults(Rule("POST", _BINDING, "hang", nth=3))
    async with cluster(faults=faults) as c:
        await c.create(job_manifest("gang", replicas=8, cpu="1"))
        await c.until(kinds.POD, Pod, lambda pods: sum(bool(pod.spec.node_name) for pod in pods.values()) == 7, "seven")
        c.local.stop("scheduler")
        await c.local.start_scheduler()
        done = await c.job("gang", "Completed")
        assert (done.status.succeeded, done.status.retry_count) == (8, 0)
