"""Killed outright and started again on the same directory: every object is there, and jobs in flight finish."""

from __future__ import annotations

import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.to_thread
import pytest
from structlog.testing import capture_logs

from tests.commands import Command, run_aside
from tests.scenario.cluster.harness import cluster, job_manifest
from volcanoio.bus.journal import read_runs
from volcanoio.compose.controllers import ControllerManager
from volcanoio.compose.journals.replay import replay_controllers, replay_scheduler
from volcanoio.compose.local import LocalCluster
from volcanoio.compose.options import LocalOptions
from volcanoio.compose.scheduler import SchedulerProcess
from volcanoio.kube import kubeconfig
from volcanoio.kube.client import Client
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.runtime.loading.registry import discover


class Server:
    """`volcanoio up` as a process of its own."""

    def __init__(self, data: Path, process: Command) -> None:
        self.data = data
        self.process = process

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A client with the kubeconfig it wrote."""
        transport = HttpTransport(await kubeconfig.from_file(self.data / "kubeconfig"))
        try:
            yield Client(transport)
        finally:
            await transport.aclose()


@asynccontextmanager
async def up(data: Path, *options: str) -> AsyncIterator[Server]:
    """Start it, wait for its ready line, and end it in the end."""
    with Command("up", "--data", str(data), "--speed", "5", *options) as process:
        line = await anyio.to_thread.run_sync(process.stdout.readline)
        assert line.startswith("ready server=https://127.0.0.1:"), line
        yield Server(data, process)


async def _finished(client: Client, name: str, phase: str = "Completed") -> Job:
    with anyio.fail_after(60):
        async with client.watch(kinds.JOB, "default") as changes:
            async for change in changes:
                job = change.object
                assert isinstance(job, Job)
                if job.metadata.name == name and job.status.state.phase == phase:
                    return job
    raise AssertionError(name)


async def _submit(client: Client, manifest: Manifest) -> None:
    await client.create(kinds.JOB, manifest, namespace="default")


async def test_all_components_continue_after_kill_9(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    async with up(tmp_path, "--journal", str(journal)) as server, server.client() as client:
        await _submit(client, job_manifest("quick", replicas=2, run="100ms"))
        await _finished(client, "quick")
        await _submit(client, job_manifest("long", replicas=3, run="10s"))
        await _finished(client, "long", "Running")
        before = {job.metadata.uid for job in await client.list(kinds.JOB)}
        server.process.kill()
        await anyio.to_thread.run_sync(server.process.wait)
    async with up(tmp_path, "--journal", str(journal)) as server, server.client() as client:
        assert {job.metadata.uid for job in await client.list(kinds.JOB)} == before
        done = await _finished(client, "long")
        assert (done.status.succeeded, done.status.retry_count, done.status.version) == (3, 0, 0)
    for process, replayed in (("controllers", replay_controllers), ("scheduler", replay_scheduler)):
        assert len(read_runs(journal / process)) == 2
        assert replayed(journal / process, discover()).first is None


@pytest.mark.parametrize("component", ["controllers", "scheduler"])
async def test_a_component_that_was_stopped_has_ended_before_another_takes_its_place(
    component: Literal["controllers", "scheduler"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it still sends is what a killed process has sent: its successor must find it when it lists."""
    seen: list[str] = []
    process: Any = {"controllers": ControllerManager, "scheduler": SchedulerProcess}[component]
    run = process.run

    async def noted(self: Any) -> None:
        seen.append("begins")
        try:
            await run(self)
        finally:
            seen.append("ends")

    monkeypatch.setattr(process, "run", noted)
    async with cluster(nodes=1) as c:
        c.local.stop(component)
        await {"controllers": c.local.start_controllers, "scheduler": c.local.start_scheduler}[component]()
        assert seen == ["begins", "ends", "begins"]


@pytest.mark.parametrize(
    ("options", "ending"),
    [((), signal.SIGTERM), ((), signal.SIGINT), (("--memory",), signal.SIGHUP)],
)
async def test_signals_stop_it_cleanly_and_a_second_one_is_refused(
    tmp_path: Path, options: tuple[str, ...], ending: signal.Signals
) -> None:
    async with up(tmp_path, *options) as server:
        second = await run_aside("up", "--data", str(tmp_path), *options)
        assert second.code == 2
        assert f"{tmp_path} is in use by process {server.process.pid}" in second.err
        server.process.send(ending)
        assert await anyio.to_thread.run_sync(server.process.wait, 10.0) == 0


async def test_a_later_start_takes_the_same_port_again_unless_it_is_taken(tmp_path: Path) -> None:
    options = LocalOptions(nodes=1, data=tmp_path / "data")
    servers: list[str] = []
    for _ in range(2):
        async with LocalCluster(options) as running:
            servers.append(running.server)
    assert servers[0] == servers[1]
    with socket.create_server(("127.0.0.1", int(servers[0].rpartition(":")[2]))), capture_logs() as logs:
        async with LocalCluster(options) as running:
            servers.append(running.server)
    assert servers[2] != servers[0]
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == [
        "the port of the last start is in use; copies of the kubeconfig need the new address"
    ]
