"""The runtime where the kernel gives no namespaces, against a server in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from volcanoio.kube.transport import Transport
from volcanoio.localcluster.apiserver import server as routes
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.localcluster.apiserver.streams.pod_connections import LogOptions
from volcanoio.localcluster.clock import RunningClock
from volcanoio.localcluster.nodes.container_runtime import StartError, StartOrder
from volcanoio.localcluster.processes import runtime as rooms
from volcanoio.localcluster.processes.container_spec import Images
from volcanoio.localcluster.processes.launch.order import NONE
from volcanoio.localcluster.processes.runtime import ProcessRuntime, attempt_of
from volcanoio.model.base import ObjectMeta
from volcanoio.model.core import Container, Pod, PodSpec

NAMESPACE = "/api/v1/namespaces/default"


async def _create(transport: Transport, plural: str, manifest: dict[str, Any]) -> bytes:
    answer = await transport.request("POST", f"{NAMESPACE}/{plural}", body=msgspec.json.encode(manifest))
    assert answer.ok, answer.body
    return answer.body


@asynccontextmanager
async def _served() -> AsyncIterator[Transport]:
    """A server."""
    server = ApiServer.open(None)
    routes.install(server)
    async with server.running():
        yield InProcessTransport(server)


@asynccontextmanager
async def _runtime(transport: Transport, state: Path) -> AsyncIterator[ProcessRuntime]:
    """A runtime that serves."""
    runtime = ProcessRuntime(transport, RunningClock(), state)
    async with runtime.running():
        yield runtime


def _order(pod: Pod) -> StartOrder:
    return StartOrder(pod=pod, container="main", attempt=0, node="n", host_ip="127.0.0.1", pod_ip="127.9.0.2")


async def test_paths_are_rewritten_where_nothing_can_be_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(_: Path) -> str:
        return NONE

    monkeypatch.setattr(rooms, "find_namespaces", nothing)
    script = 'cat /etc/volcano/ps.host "$FILE" $VOLCANOIO_MOUNT_ROOT/etc/volcano/ps.host; pwd'
    container = {
        "name": "main",
        "image": "none",
        "command": ["sh", "-c", script],
        "env": [{"name": "FILE", "value": "/etc/volcano/ps.host"}],
        "volumeMounts": [{"name": "v", "mountPath": "/etc/volcano"}],
    }
    spec = {"nodeName": "n", "containers": [container], "volumes": [{"name": "v", "configMap": {"name": "hosts"}}]}
    async with _served() as transport, _runtime(transport, tmp_path) as runtime:
        await _create(transport, "configmaps", {"metadata": {"name": "hosts"}, "data": {"ps.host": "ps-0.job"}})
        body = await _create(transport, "pods", {"metadata": {"name": "p"}, "spec": spec})
        pod = msgspec.json.decode(body, type=Pod)
        run = await runtime.start(_order(pod))
        assert (await run.wait()).code == 0
        lines = [
            line
            async for batch in runtime.read("default", msgspec.json.decode(body), "main", LogOptions())
            for line in batch
        ]
        await runtime.forget(pod)
    work = tmp_path / "pods" / pod.metadata.uid / "work" / "main"
    assert [line.partition(b" ")[2].decode() for line in lines] == [f"{'ps-0.job' * 3}{work}"]
    assert not work.exists()


async def test_a_pod_that_is_gone_cannot_start(tmp_path: Path) -> None:
    pod = Pod(metadata=ObjectMeta(name="gone", namespace="default", uid="u"))
    async with _served() as transport, _runtime(transport, tmp_path) as runtime:
        with pytest.raises(StartError, match="the pod is gone"):
            await runtime.start(_order(pod))


async def test_without_disk_space_no_container_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rooms, "CriLog", full)
    container = {"name": "main", "image": "none", "command": ["true"]}
    async with _served() as transport, _runtime(transport, tmp_path) as runtime:
        manifest = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [container]}}
        pod = msgspec.json.decode(await _create(transport, "pods", manifest), type=Pod)
        with pytest.raises(StartError, match="No space left"):
            await runtime.start(_order(pod))


async def test_only_commands_can_be_run(tmp_path: Path) -> None:
    containers = (
        Container(name="command", command=("true",)),
        Container(name="image", image="known:1"),
        Container(name="neither", image="unknown", args=("a",)),
    )
    pod = Pod(spec=PodSpec(containers=containers))
    async with _served() as transport:
        runtime = ProcessRuntime(transport, RunningClock(), tmp_path, Images.parse(["known=true"]))
        objections = {one.name: runtime.objection(pod, one.name) for one in containers}
    assert objections["command"] == objections["image"] == ""
    assert "--run-image 'unknown=COMMAND'" in objections["neither"]


async def test_directories_of_pods_that_are_gone_are_removed(tmp_path: Path) -> None:
    left = tmp_path / "pods" / "some-uid" / "logs"
    left.mkdir(parents=True)
    async with _served() as transport, _runtime(transport, tmp_path):
        assert not left.exists()


@pytest.mark.parametrize(
    ("state", "previous", "attempt"),
    [
        ({"running": {}}, False, 3),
        ({"running": {}}, True, 2),
        ({"terminated": {}}, False, 3),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, False, 2),
    ],
)
def test_logs_are_those_of_the_right_run(state: dict[str, Any], previous: bool, attempt: int) -> None:
    status = {
        "name": "main",
        "containerID": "process://u/main/3",
        "state": state,
        "lastState": {"terminated": {"containerID": "process://u/main/2"}},
    }
    assert attempt_of({"status": {"containerStatuses": [status]}}, "main", previous=previous) == attempt
