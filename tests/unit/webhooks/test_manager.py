"""The webhook manager as API servers meet it: the embedded one calls it over TLS."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from volcanoio.compose.local import install_crds
from volcanoio.compose.webhooks import WebhookManager, WebhookSettings
from volcanoio.engine.admission.resource_groups import AdmissionConfError
from volcanoio.kube.client import Client
from volcanoio.kube.clock import Clock, WallClock
from volcanoio.kube.errors import ApiError
from volcanoio.kube.transport import ContentType
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.runtime.loading.mounted_files import MountError
from volcanoio.runtime.metrics import PrometheusProbe
from volcanoio.runtime.webhooks.paths import Target

LOCAL = "volcanoio.dev/local-endpoint"
CONF = "resourceGroups: [{resourceGroup: gpu, object: {key: namespace, value: [default]}, labels: {type: gpu}}]"


def job(name: str, **spec: Any) -> Manifest:
    template = {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"tasks": [{"replicas": 2, "template": template}], **spec},
    }


@asynccontextmanager
async def cluster(
    clock: Clock | None = None, **settings: Any
) -> AsyncIterator[tuple[Client, PrometheusProbe, WebhookManager]]:
    """An API server that calls a webhook manager, the manager's metrics, and the manager."""
    async with ApiServer.open(None).running() as api:
        transport = InProcessTransport(api)
        await install_crds(transport)
        client, probe = Client(transport), PrometheusProbe()
        for name in ("volcano-system", "default"):
            if name not in {each.metadata.name for each in await client.list(kinds.NAMESPACE)}:
                await client.create(kinds.NAMESPACE, {"metadata": {"name": name}})
        manager = WebhookManager(
            transport,
            settings=WebhookSettings(port=0, listen_address="127.0.0.1", **settings),
            clock=clock,
            probe=probe,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(manager.run)
            await manager.synced()
            metadata = {"name": "volcano-admission-service", "annotations": {LOCAL: f"127.0.0.1:{manager.port}"}}
            service = {"metadata": {**metadata, "namespace": "volcano-system"}, "spec": {"ports": [{"port": 443}]}}
            await client.create(kinds.SERVICE, service)
            await manager.ready()
            yield client, probe, manager
            tasks.cancel_scope.cancel()


class HeldClock(WallClock):
    """A clock whose sleep of five seconds ends when the test sets `wakes`."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asleep, self.wakes = anyio.Event(), anyio.Event()

    async def sleep(self, seconds: float) -> None:
        if seconds == 5.0:
            self.is_asleep.set()
            await self.wakes.wait()
        else:
            await super().sleep(seconds)


async def test_a_manager_that_ends_answers_until_its_service_has_forgotten_it() -> None:
    clock = HeldClock()
    async with cluster(clock, shutdown_delay=5.0) as (client, _, manager), anyio.create_task_group() as tasks:
        tasks.start_soon(manager.drain)
        await clock.is_asleep.wait()
        stored = await client.create(kinds.QUEUE, {"metadata": {"name": "late"}, "spec": {"weight": 0}})
        assert stored["spec"]["weight"] == 1
        clock.wakes.set()


async def test_an_api_server_defaults_and_validates_by_webhook(tmp_path: Path) -> None:
    conf = tmp_path / "volcano-admission.conf"
    conf.write_text(CONF)
    async with cluster(admission_conf=conf) as (client, probe, _):
        await client.create(kinds.QUEUE, {"metadata": {"name": "q"}, "spec": {}})
        stored = await client.create(kinds.JOB, job("a", queue="q"))
        assert (stored["spec"]["minAvailable"], stored["spec"]["tasks"][0]["name"]) == (2, "default0")
        with pytest.raises(ApiError, match="unable to find job queue") as refused:
            await client.create(kinds.JOB, job("b", queue="absent"))
        assert refused.value.code == 403
        pod = {
            "metadata": {"name": "p", "namespace": "default"},
            "spec": job("x")["spec"]["tasks"][0]["template"]["spec"],
        }
        assert (await client.create(kinds.POD, pod))["spec"]["nodeSelector"] == {"type": "gpu"}
        metrics = (await probe.render()).decode()
        assert 'volcanoio_admission_requests_total{path="/jobs/validate",result="denied"} 1' in metrics
        assert 'volcanoio_admission_requests_total{path="/queues/mutate",result="allowed"} 1' in metrics
        assert "volcanoio_admission_certificate_expiry_timestamp_seconds" in metrics


async def test_without_the_server_our_kinds_and_pods_are_refused_and_foreign_pods_are_not() -> None:
    async with cluster() as (client, _, _):
        path = kinds.SERVICE.path("volcano-system", "volcano-admission-service")
        body = msgspec.json.encode({"metadata": {"annotations": {LOCAL: "127.0.0.1:1"}}})
        transport = client.transport
        assert (await transport.request("PATCH", path, body=body, content_type=ContentType.MERGE_PATCH)).ok
        with pytest.raises(ApiError, match="failed calling webhook"):
            await client.create(kinds.JOB, job("a"))
        template = job("x")["spec"]["tasks"][0]["template"]["spec"]
        ours = {"metadata": {"name": "p", "namespace": "default"}, "spec": {**template, "schedulerName": "volcano"}}
        with pytest.raises(ApiError, match="failed calling webhook"):
            await client.create(kinds.POD, ours)
        await client.create(kinds.POD, {**ours, "spec": template})
        await client.create(kinds.POD, {**ours, "metadata": {"name": "p", "namespace": "volcano-system"}})


@pytest.mark.parametrize(
    ("text", "error"), [(None, MountError), ("resourceGroups: [{}]", AdmissionConfError)], ids=["missing", "invalid"]
)
async def test_a_bad_admission_configuration_is_refused_at_the_start(
    tmp_path: Path, text: str | None, error: type[Exception]
) -> None:
    conf = tmp_path / "conf"
    if text is not None:
        conf.write_text(text)
    async with ApiServer.open(None).running() as api:
        with pytest.raises(error):
            WebhookManager(InProcessTransport(api), settings=WebhookSettings(admission_conf=conf, target=Target()))
