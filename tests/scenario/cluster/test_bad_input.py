"""Bad input over HTTPS: each is refused with field, rule and next step, and nothing is stored."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.kube.errors import ApiError
from volcanoio.model import kinds
from volcanoio.model.base import Manifest


def _job(**spec: Any) -> Manifest:
    return job_manifest("bad", **spec)


def _with_task(change: dict[str, Any]) -> Manifest:
    manifest = _job()
    manifest["spec"]["tasks"][0].update(change)
    return manifest


def _with_pod(change: dict[str, Any]) -> Manifest:
    manifest = _job()
    manifest["spec"]["tasks"][0]["template"]["spec"].update(change)
    return manifest


def _policy(**policy: Any) -> Manifest:
    return _job(policies=[policy])


_CASES: dict[str, tuple[Manifest, tuple[str, ...]]] = {
    "minAvailable over replicas": (_job(minAvailable=9), ("minAvailable", "replicas")),
    "task minAvailable over replicas": (_with_task({"minAvailable": 5}), ("minAvailable", "replicas")),
    "duplicate task names": (_job(tasks=_job()["spec"]["tasks"] * 2), ("duplicated task name", "task")),
    "unknown event": (_policy(event="PodExploded", action="RestartJob"), ("event", "PodExploded")),
    "unknown action": (_policy(event="PodFailed", action="RestartJobs"), ("action", "RestartJobs", "RestartJob")),
    "unknown plugin": (_job(plugins={"svk": []}), ("plugin", "svk", "svc")),
    "unknown plugin flag": (_job(plugins={"ssh": ["--prot=22"]}), ("spec.plugins.ssh", "--prot", "ssh-port")),
    "bad plugin argument": (_job(plugins={"ssh": ["--ssh-port=high"]}), ("spec.plugins.ssh", "whole number", "high")),
    "unknown queue": (_job(queue="nowhere"), ("queue", "nowhere")),
    "no tasks": (_job(tasks=[]), ("tasks",)),
    "no container": (_with_pod({"containers": []}), ("containers",)),
    "bad quantity": (
        _with_pod({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "lots"}}}]}),
        ("cpu",),
    ),
    "bad restart policy": (_with_pod({"restartPolicy": "Sometimes"}), ("restartPolicy", "Sometimes")),
}


async def _refusal(c: Cluster, manifest: Manifest) -> ApiError:
    with pytest.raises(ApiError) as refusal:
        await c.create(manifest)
    return refusal.value


async def test_bad_jobs_are_refused_and_nothing_is_stored() -> None:
    async with cluster() as c:
        for case, (manifest, words) in _CASES.items():
            error = await _refusal(c, manifest)
            assert error.code in (400, 403, 422), case
            for word in words:
                assert word in error.message, (case, error.message)
        assert await c.client.list(kinds.JOB) == []


async def test_a_closed_queue_takes_no_jobs() -> None:
    async with cluster() as c:
        await c.create(
            {"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", "metadata": {"name": "shut"}, "spec": {}}
        )
        queue = await c.queue("shut", lambda q: q.status.state == "Open", "Open")
        target = {"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", "name": "shut", "uid": queue.metadata.uid}
        await c.create(
            {
                "apiVersion": kinds.COMMAND.api_version,
                "kind": "Command",
                "metadata": {"generateName": "shut-", "namespace": "default"},
                "action": "CloseQueue",
                "target": target,
            }
        )
        await c.queue("shut", lambda q: q.status.state == "Closed", "Closed")
        error = await _refusal(c, _job(queue="shut"))
        assert "shut" in error.message
        assert "Open" in error.message


@pytest.mark.parametrize("weight", [-1, 2**31])
async def test_a_weight_out_of_range_is_refused(weight: int) -> None:
    async with cluster(nodes=1) as c:
        queue = {"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", "metadata": {"name": "heavy"}}
        error = await _refusal(c, {**queue, "spec": {"weight": weight}})
        assert "weight" in error.message
        assert not any(each.metadata.name == "heavy" for each in await c.client.list(kinds.QUEUE))


@pytest.mark.parametrize("name", ["root", "default"])
async def test_root_and_default_queue_cannot_be_deleted(name: str) -> None:
    async with cluster(nodes=1) as c:
        with pytest.raises(ApiError) as refusal:
            await c.client.delete(kinds.QUEUE, name)
        assert name in refusal.value.message


async def test_a_request_over_three_mebibytes_is_refused() -> None:
    async with cluster(nodes=1) as c:
        manifest = _job()
        manifest["metadata"]["annotations"] = {"big": "x" * (3 * 1024 * 1024)}
        body = msgspec.json.encode(manifest)
        response = await c.client.transport.request("POST", kinds.JOB.path("default"), body=body)
        assert response.status == 413
        assert b"limit" in response.body


async def test_the_wrong_key_priority_class_gets_a_hint() -> None:
    async with cluster(nodes=1) as c:
        body = msgspec.json.encode(_with_pod({"priorityClass": "high"}))
        query = {"fieldValidation": "Strict"}
        response = await c.client.transport.request("POST", kinds.JOB.path("default"), query=query, body=body)
        assert response.status == 400
        assert b"priorityClassName" in response.body


async def test_a_queue_with_pods_is_deleted_only_where_that_is_not_checked() -> None:
    """The scheduler writes what the check reads, a moment after the pods have run."""
    async with cluster(enable_queue_allocated_pods_check=True) as c:
        await c.create({"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", "metadata": {"name": "q"}, "spec": {}})
        await c.create(job_manifest("busy", queue="q", run="10m"))
        await c.queue("q", lambda queue: queue.status.allocated.get("pods") == "1", "with a pod")
        with pytest.raises(ApiError) as refusal:
            await c.client.delete(kinds.QUEUE, "q")
        assert "queue q cannot be deleted because it has allocated Pods: 1" in refusal.value.message
