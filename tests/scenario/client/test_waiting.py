"""Waiting that is interrupted, limited, watched or done inside a running event loop; and servers that are not there."""

from __future__ import annotations

import asyncio
import gc
import io
import itertools
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import structlog

from tests.scenario.client.conftest import Refusing, User
from volcanoio.client import (
    AsyncClient,
    AsyncJob,
    Client,
    ClientError,
    JobNotFound,
    LocalOptions,
    Reason,
    Refused,
    Timeout,
    Unreachable,
)
from volcanoio.client import job as job_module
from volcanoio.client.progress import BAR
from volcanoio.model import names
from volcanoio.runtime.scheduler.answers import WHY

FOREVER = {"metadata": {"annotations": {names.RUN_DURATION: "never"}}}
_NUMBERS = itertools.count()


class CtrlC(io.StringIO):
    """A stderr on which the progress "Running" is answered by Ctrl-C."""

    def write(self, text: str) -> int:
        """Keep the text."""
        if "Running" in text:
            os.kill(os.getpid(), signal.SIGINT)
        return super().write(text)


def test_ctrl_c_leaves_the_job_running_and_says_so(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"stopped-{next(_NUMBERS)}"
    monkeypatch.setattr(sys, "stderr", CtrlC())
    with pytest.raises(KeyboardInterrupt) as stopped:
        user.call(user.client.run, name=name, image="busybox", pod=FOREVER, progress=True)
    text = "".join(traceback.format_exception(stopped.value))
    assert f'job default/{name} keeps running; client.job("{name}").wait() waits again' in text
    job = user.call(user.client.job, name)
    assert user.answer(job.status).phase == "Running"
    user.call(job.cancel)


def test_progress_is_a_line_for_each_phase_where_there_is_no_terminal(
    user: User, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"shown-{next(_NUMBERS)}"
    user.call(user.client.run, name=name, image="busybox", command="sleep 1", replicas=2, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    last = shown.err.splitlines()[-1].split()
    assert (last[0], last[1], last[3]) == (name, "Completed", "2/2")


def until_closed(screen: io.FileIO) -> Iterator[bytes]:
    """Yield what is on a terminal; Linux ends it with EIO."""
    with suppress(OSError):
        while data := screen.read(4096):
            yield data


def test_progress_is_a_bar_in_a_terminal(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"drawn-{next(_NUMBERS)}"
    monkeypatch.setenv("TERM", "xterm")
    screen, terminal = os.openpty()
    with os.fdopen(screen, "rb", buffering=0) as drawn:
        with os.fdopen(terminal, "w") as stderr, monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stderr)
            user.call(user.client.run, name=name, image="busybox", command="sleep 1", replicas=2)
        shown = b"".join(until_closed(drawn)).decode()
    assert f"{name}  Completed  {'█' * BAR} 2/2" in shown


def test_nothing_is_shown_where_there_is_no_terminal(user: User, capsys: pytest.CaptureFixture[str]) -> None:
    user.call(user.client.run, image="busybox", command="sleep 1")
    assert capsys.readouterr() == ("", "")


def test_a_program_without_logs_of_its_own_sees_warnings_only(
    cluster: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    before = structlog.get_config() if structlog.is_configured() else None
    structlog.reset_defaults()
    try:
        with Client(cluster.kubeconfig):
            structlog.get_logger().info("a retry")
            structlog.get_logger().warning("a lost watch")
        shown = capsys.readouterr()
    finally:
        structlog.reset_defaults() if before is None else structlog.configure(**before)
    assert "a lost watch" in shown.err
    assert "a retry" not in shown.out + shown.err


async def test_the_synchronous_client_works_in_a_running_event_loop(cluster: Client) -> None:
    assert asyncio.get_running_loop().is_running()
    with Client(cluster.kubeconfig) as client:
        assert client.run(image="busybox", command="sleep 1").succeeded == 1


def test_a_job_keeps_its_client_open(cluster: Client) -> None:
    job = Client(cluster.kubeconfig).submit(image="busybox", command="sleep 1")
    gc.collect()
    assert job.wait().phase == "Completed"
    found = next(each for each in Client(cluster.kubeconfig).jobs() if each.name == job.name)
    gc.collect()
    assert found.status.succeeded == 1


async def test_the_asynchronous_client_runs_jobs_at_once(cluster: Client) -> None:
    async with AsyncClient(cluster.kubeconfig) as client, asyncio.TaskGroup() as tasks:
        runs = [tasks.create_task(client.run(image="busybox", command="sleep 1")) for _ in range(3)]
        await asyncio.gather(*runs)
    assert [run.result().succeeded for run in runs] == [1, 1, 1]


async def test_a_limit_of_the_caller_ends_the_wait(cluster: Client) -> None:
    async with AsyncClient(cluster.kubeconfig) as client:
        job = await client.submit(image="busybox", pod=FOREVER)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await job.wait()
        await job.cancel()


async def test_a_user_who_may_not_watch_waits_all_the_same(cluster: Client) -> None:
    submitted = cluster.submit(image="busybox", command="sleep 1")
    async with AsyncClient(cluster.kubeconfig) as client:
        async with client._cluster.requests() as kube:
            kube.transport = Refusing(kube.transport, "/jobs")
        job = await client.job(submitted.name)
        assert (await job.result()).succeeded == 1


async def test_a_user_who_may_read_no_reasons_times_out_all_the_same(cluster: Client) -> None:
    async with AsyncClient(cluster.kubeconfig) as client:
        job = await client.submit(image="busybox", resources={"cpu": 100})
        async with client._cluster.requests() as kube:
            kube.transport = Refusing(kube.transport, WHY, "/podgroups", "/nodes")
        with pytest.raises(Refused):
            await job.why()
        with pytest.raises(Timeout, match="still Pending after"):
            await job.wait(timeout=0.1)
        await job.cancel()


async def test_a_slow_reason_delays_no_end_of_the_wait(cluster: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def explain(*_: object, **__: object) -> Reason:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def cancel_once_asked(job: AsyncJob) -> None:
        await asked.wait()
        await job.cancel()

    asked = asyncio.Event()
    monkeypatch.setattr(job_module, "explain_job", explain)
    monkeypatch.setattr(job_module, "_FIRST_NOTE", 0.0)
    async with AsyncClient(cluster.kubeconfig) as client, asyncio.timeout(20):
        job = await client.submit(image="busybox", resources={"cpu": 100})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(cancel_once_asked(job))
            with pytest.raises(JobNotFound):
                await job.wait(progress=True)


async def test_an_embedded_cluster_is_started_and_stopped() -> None:
    async with AsyncClient(local=True) as client:
        kubeconfig = client.kubeconfig
        assert kubeconfig is not None
        assert (await client.jobs()) == []
    assert not kubeconfig.exists()
    with pytest.raises(ClientError, match="this client is closed; make a new one"):
        await client.jobs()


def test_options_of_the_embedded_cluster_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match=r"local cluster: --node-resources: .cpu.: each entry must be NAME=QUANTITY"):
        Client(local=LocalOptions(node_resources="cpu"))
    with pytest.raises(ClientError, match="leave kubeconfig= and context= out"):
        Client(tmp_path / "kubeconfig", local=True)


def test_without_a_kubeconfig_the_next_step_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        Unreachable, match=r"\.kube/config: No such file.*; without a cluster, use Client\(local=True\)"
    ):
        Client()


def test_the_kubeconfig_of_volcanoio_up_is_found(
    cluster: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    assert cluster.kubeconfig is not None
    (tmp_path / ".volcanoio").mkdir()
    (tmp_path / ".volcanoio" / "kubeconfig").write_bytes(cluster.kubeconfig.read_bytes())
    with Client() as client:
        assert client.server == cluster.server


def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: c}}],"
        " clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]}"
    )
    with (
        Client(file) as client,
        pytest.raises(Unreachable, match=r"at http://127\.0\.0\.1:1: .*Connection refused; check"),
    ):
        client.submit(image="busybox")
