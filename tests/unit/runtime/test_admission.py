"""Admission behind the embedded server's hook, on the real server in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import msgspec
from volcanoio_plugins.job.env import EnvPlugin

from volcanoio.compose.local import install_crds
from volcanoio.engine.admission.request import AdmissionSettings
from volcanoio.framework import entrypoints
from volcanoio.kube.transport import ContentType
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import Kind
from volcanoio.runtime.admission import InProcessAdmission
from volcanoio.runtime.loading.registry import Candidate, Registry

JOB: Manifest = {
    "metadata": {"name": "j", "namespace": "default"},
    "spec": {
        "tasks": [
            {
                "name": "main",
                "replicas": 2,
                "template": {"spec": {"containers": [{"name": "c", "image": "busybox"}], "restartPolicy": "Never"}},
            }
        ]
    },
}


class Cluster:
    """A server in memory with our kinds, admission, and a queue."""

    def __init__(self, transport: InProcessTransport) -> None:
        self.transport = transport

    async def send(self, method: str, kind: Kind, manifest: Manifest | None = None, name: str = "") -> tuple[int, Any]:
        namespace = "default" if kind.namespaced else ""
        body = b""
        if manifest is not None:
            body = msgspec.json.encode({"apiVersion": kind.api_version, "kind": kind.kind, **manifest})
        response = await self.transport.request(method, kind.path(namespace, name), body=body)
        return response.status, msgspec.json.decode(response.body)

    async def queue(self, name: str, **spec: Any) -> int:
        status, _ = await self.send("POST", kinds.QUEUE, {"metadata": {"name": name}, "spec": spec})
        return status

    async def job(self, **spec: Any) -> tuple[int, Any]:
        manifest = deepcopy(JOB)
        manifest["spec"].update(spec)
        return await self.send("POST", kinds.JOB, manifest)


@asynccontextmanager
async def cluster(**settings: Any) -> AsyncIterator[Cluster]:
    registry = Registry([Candidate(entrypoints.JOB_PLUGINS, "env", "test 1", lambda: EnvPlugin)])
    async with ApiServer.open(None).running() as api:
        transport = InProcessTransport(api)
        await install_crds(transport)
        plugins = registry.factories(entrypoints.JOB_PLUGINS)
        api.core.admission.append(InProcessAdmission(transport, AdmissionSettings(job_plugins=plugins, **settings)))
        made = Cluster(transport)
        assert await made.queue("default") == 201
        yield made


async def test_a_job_is_stored_with_its_defaults() -> None:
    async with cluster() as on:
        status, stored = await on.job()
        assert (status, stored["spec"]["minAvailable"], stored["spec"]["schedulerName"]) == (201, 2, "volcano")
        assert stored["spec"]["tasks"][0]["maxRetry"] == 3


async def test_a_refusal_lists_all_problems_and_stores_nothing() -> None:
    async with cluster() as on:
        status, answer = await on.job(minAvailable=9, queue="absent", plugins={"envy": []})
        assert (status, answer["reason"]) == (403, "Forbidden")
        head, *lines = answer["message"].split("\n- ")
        assert head == 'admission webhook "validatejob.volcano.sh" denied the request: '
        assert [line.partition(":")[0] for line in lines] == ["spec.minAvailable", "spec.plugins.envy", "spec.queue"]
        status, _ = await on.send("GET", kinds.JOB, name="j")
        assert status == 404


async def test_a_job_may_follow_its_queue_at_once() -> None:
    async with cluster() as on:
        assert await on.queue("new") == 201
        status, _ = await on.job(queue="new")
        assert status == 201


async def test_older_volumes_are_taken_unless_strict() -> None:
    volumes = [{"mountPath": "/in"}]
    async with cluster() as on:
        assert (await on.job(volumes=volumes))[0] == 201
    async with cluster(strict=True) as on:
        status, answer = await on.job(volumes=volumes)
        assert status == 403
        assert "spec.volumes[0]: either VolumeClaim or VolumeClaimName must be specified" in answer["message"]


async def test_empty_values_get_their_defaults_before_the_schema_is_checked() -> None:
    task = {"name": "", "replicas": 1, "template": JOB["spec"]["tasks"][0]["template"]}
    async with cluster() as on:
        status, stored = await on.send("POST", kinds.QUEUE, {"metadata": {"name": "q"}, "spec": {"weight": 0}})
        assert (status, stored["spec"]["weight"]) == (201, 1)
        stored["spec"]["weight"] = 0
        assert (await on.send("PUT", kinds.QUEUE, stored, "q"))[0] == 422
        status, stored = await on.job(queue="", tasks=[task])
        assert (status, stored["spec"]["queue"], stored["spec"]["tasks"][0]["name"]) == (201, "default", "default0")


async def test_a_queue_created_closed_is_accepted_and_its_state_is_left_to_the_controller() -> None:
    async with cluster() as on:
        closed = {"metadata": {"name": "q"}, "spec": {}, "status": {"state": "Closed"}}
        status, stored = await on.send("POST", kinds.QUEUE, closed)
        assert (status, "status" in stored) == (201, False)


async def test_queues_that_must_stay_stay() -> None:
    async with cluster() as on:
        assert await on.queue("spare") == 201
        assert (await on.send("DELETE", kinds.QUEUE, name="spare"))[0] == 200
        status, answer = await on.send("DELETE", kinds.QUEUE, name="default")
        assert status == 403
        assert "`default` queue can not be deleted" in answer["message"]


async def left_in_a_queue(on: Cluster) -> None:
    """A queue with pods and a PodGroup in it."""
    assert await on.queue("q") == 201
    status, _ = await on.send("POST", kinds.POD_GROUP, {"metadata": {"name": "g"}, "spec": {"queue": "q"}})
    assert status == 201
    path = kinds.QUEUE.path("", "q", "status")
    body = msgspec.json.encode({"status": {"allocated": {"cpu": "2", "pods": "2"}}})
    response = await on.transport.request("PATCH", path, body=body, content_type=ContentType.MERGE_PATCH)
    assert response.status == 200


async def test_deleting_a_queue_reports_its_remaining_jobs() -> None:
    async with cluster() as on:
        await left_in_a_queue(on)
        response = await on.transport.request("DELETE", kinds.QUEUE.path("", "q"))
        assert response.status == 200
        (warning,) = [value for name, value in response.headers.items() if name.lower() == "warning"]
        assert "queue q still has 1 waiting (PodGroup default/g); what waits stays pending until" in warning


async def test_a_queue_with_pods_is_not_deleted_where_that_is_checked() -> None:
    async with cluster(queue_allocated_pods_check=True) as on:
        await left_in_a_queue(on)
        status, answer = await on.send("DELETE", kinds.QUEUE, name="q")
        assert status == 403
        assert "queue q cannot be deleted because it has allocated Pods: 2" in answer["message"]


async def test_other_kinds_are_not_looked_at() -> None:
    async with cluster() as on:
        status, _ = await on.send("POST", kinds.CONFIG_MAP, {"metadata": {"name": "c"}, "data": {"a": "b"}})
        assert status == 201
