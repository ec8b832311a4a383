"""Admission behind the embedded server's hook, on the real server in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import msgspec
from volcanoio_plugins.job.env import EnvPlugin

from volcanoio.compose.crds import install_crds
from volcanoio.framework import groups
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import Kind
from volcanoio.runtime.admission import InProcessAdmission
from volcanoio.runtime.loading import Candidate, Registry

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
async def cluster(*, strict: bool = False) -> AsyncIterator[Cluster]:
    registry = Registry([Candidate(groups.JOB_PLUGINS, "env", "test 1", lambda: EnvPlugin)])
    async with ApiServer.open(None).running() as api:
        transport = InProcessTransport(api)
        await install_crds(transport)
        api.core.admission.append(InProcessAdmission(transport, registry, strict=strict))
        made = Cluster(transport)
        assert await made.queue("default") == 201
        yield made


async def test_a_job_is_stored_with_its_defaults() -> None:
    async with cluster() as on:
        status, stored = await on.job()
        assert (status, stored["spec"]["minAvailable"], stored["spec"]["schedulerName"]) == (201, 2, "volcano")
        assert stored["spec"]["tasks"][0]["maxRetry"] == 3


async def test_a_refusal_names_everything_and_stores_nothing() -> None:
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
        assert "spec.volumes[0]: either volumeClaim or volumeClaimName must be specified" in answer["message"]


async def test_queues_that_must_stay_stay() -> None:
    async with cluster() as on:
        assert await on.queue("spare") == 201
        assert (await on.send("DELETE", kinds.QUEUE, name="spare"))[0] == 200
        status, answer = await on.send("DELETE", kinds.QUEUE, name="default")
        assert status == 403
        assert "`default` queue can not be deleted" in answer["message"]


async def test_other_kinds_are_not_looked_at() -> None:
    async with cluster() as on:
        status, _ = await on.send("POST", kinds.CONFIG_MAP, {"metadata": {"name": "c"}, "data": {"a": "b"}})
        assert status == 201
