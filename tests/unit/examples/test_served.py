"""Our CRDs and examples on the embedded API server, unchanged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from volcanoio.kube.transport import Response
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.model.kinds import JOB, QUEUE, named
from volcanoio.model.manifests import read_manifests
from volcanoio.model.packaged import config_path

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def documents(folder: str) -> list[dict[str, Any]]:
    paths: list[Path] = sorted(config_path(folder).glob("*.yaml"))
    return [manifest for path in paths for manifest in read_manifests(path)]


@asynccontextmanager
async def served() -> AsyncIterator[InProcessTransport]:
    async with ApiServer.open(None).running() as server:
        transport = InProcessTransport(server)
        for definition in documents("crds"):
            response = await transport.request("POST", CRDS, body=msgspec.json.encode(definition))
            assert response.status == 201, response.body
        yield transport


async def post(transport: InProcessTransport, manifest: dict[str, Any]) -> Response:
    kind = named(manifest["apiVersion"], manifest["kind"])
    assert kind is not None
    query = {"fieldValidation": "Strict"}
    return await transport.request("POST", kind.path("default"), query=query, body=msgspec.json.encode(manifest))


async def test_every_example_is_accepted_in_strict_mode() -> None:
    async with served() as transport:
        for manifest in documents("examples"):
            response = await post(transport, manifest)
            assert response.status == 201, response.body


async def test_defaults_of_the_schema_are_filled_in() -> None:
    async with served() as transport:
        pod = {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}}
        spec: dict[str, Any] = {"tasks": [{"template": pod}], "networkTopology": {}}
        job = {"apiVersion": JOB.api_version, "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
        stored = msgspec.json.decode((await post(transport, job)).body)["spec"]
        assert (stored["queue"], stored["maxRetry"]) == ("default", 3)
        assert stored["networkTopology"]["mode"] == "hard"
        assert stored["tasks"][0]["template"]["spec"]["containers"][0]["ports"][0]["protocol"] == "TCP"
        queue = {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": "q"}, "spec": {}}
        stored = msgspec.json.decode((await post(transport, queue)).body)["spec"]
        assert (stored["weight"], stored["dequeueStrategy"]) == (1, "traverse")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"weight": 0}, "spec.weight"),
        ({"weight": 2**31}, "spec.weight"),
        ({"weight": 1, "capability": {"cpu": "much"}}, "spec.capability"),
        ({"dequeueStrategy": "lifo"}, "spec.dequeueStrategy"),
        ({"parent": "Not A Name"}, "spec.parent"),
    ],
)
async def test_schema_violations_are_refused_with_the_field(spec: dict[str, Any], field: str) -> None:
    async with served() as transport:
        queue = {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": "q"}, "spec": spec}
        response = await post(transport, queue)
        assert response.status == 422
        assert field in msgspec.json.decode(response.body)["message"]


async def test_unknown_fields_of_an_embedded_pod_are_pruned() -> None:
    async with served() as transport:
        pod = {"metadata": {"labels": {"a": "b"}, "uid": "x"}, "spec": {"containers": [{"name": "c"}], "colour": "red"}}
        job = {
            "apiVersion": JOB.api_version, "kind": "Job", "metadata": {"name": "j"},
            "spec": {"tasks": [{"template": pod}]},
        }  # fmt: skip
        body = msgspec.json.encode(job)
        response = await transport.request("POST", JOB.path("default"), query={"fieldValidation": "Ignore"}, body=body)
        template = msgspec.json.decode(response.body)["spec"]["tasks"][0]["template"]
        assert template == {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}
