"""Killed outright and started again on the same directory: every object is there, and jobs in flight finish."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from tests.scenario.cluster.harness import job_manifest
from volcanoio.bus.runs import read_runs
from volcanoio.compose.replay import replay_controllers, replay_scheduler
from volcanoio.kube import config
from volcanoio.kube.client import Client
from volcanoio.kube.http import HttpTransport
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.runtime.loading import discover


class Server:
    """`volcanoio up` as a process of its own."""

    def __init__(self, data: Path, process: anyio.abc.Process, line: str) -> None:
        self.data = data
        self.process = process
        self.line = line

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A client with the kubeconfig it wrote."""
        transport = HttpTransport(await config.from_file(self.data / "kubeconfig"))
        try:
            yield Client(transport)
        finally:
            await transport.aclose()

    def kill(self) -> None:
        """kill -9."""
        self.process.send_signal(signal.SIGKILL)


@asynccontextmanager
async def up(data: Path, *options: str) -> AsyncIterator[Server]:
    """Start it, wait for its ready line, and end it in the end."""
    command = [sys.executable, "-m", "volcanoio", "up", "--data", str(data), "--speed", "5", *options]
    async with await anyio.open_process(command, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        with anyio.fail_after(30):
            line = (await process.stdout.receive()).decode()
        assert line.startswith("ready server=https://127.0.0.1:"), line
        yield Server(data, process, line)
        if process.returncode is None:
            process.terminate()


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


async def test_after_kill_minus_nine_everything_goes_on(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    async with up(tmp_path, "--journal", str(journal)) as server, server.client() as client:
        await _submit(client, job_manifest("quick", replicas=2, run="100ms"))
        await _finished(client, "quick")
        await _submit(client, job_manifest("long", replicas=3, run="10s"))
        await _finished(client, "long", "Running")
        before = {job.metadata.uid for job in await client.list(kinds.JOB)}
        server.kill()
        await server.process.wait()
    async with up(tmp_path, "--journal", str(journal)) as server, server.client() as client:
        assert {job.metadata.uid for job in await client.list(kinds.JOB)} == before
        done = await _finished(client, "long")
        assert (done.status.succeeded, done.status.retry_count, done.status.version) == (3, 0, 0)
    for process, replayed in (("controllers", replay_controllers), ("scheduler", replay_scheduler)):
        assert len(read_runs(journal / process)) == 2
        assert replayed(journal / process, discover()) is None


@pytest.mark.parametrize(
    ("options", "ending"),
    [((), signal.SIGTERM), ((), signal.SIGINT), (("--memory",), signal.SIGHUP)],
)
async def test_signals_stop_it_cleanly_and_a_second_one_is_refused(
    tmp_path: Path, options: tuple[str, ...], ending: signal.Signals
) -> None:
    async with up(tmp_path, *options) as server:
        second = await anyio.run_process(
            [sys.executable, "-m", "volcanoio", "up", "--data", str(tmp_path), *options], check=False
        )
        assert second.returncode == 2
        assert f"{tmp_path} is in use by process {server.process.pid}" in second.stderr.decode()
        server.process.send_signal(ending)
        with anyio.fail_after(10):
            assert await server.process.wait() == 0
