"""The commands as users start them: arguments, kubeconfig, exit codes, Ctrl-C, terminals and pipes."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from tests.commands import Command, Ended, run, run_aside
from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.cli.main import volcanoio
from volcanoio.model import kinds
from volcanoio.model.scheduling import PodGroup


def environment(c: Cluster, **variables: str) -> dict[str, str]:
    return {"KUBECONFIG": str(c.local.kubeconfig), "PATH": "", "HOME": "/nonexistent", **variables}


async def ended(c: Cluster, *words: str) -> Ended:
    return await run_aside(*words, environment=environment(c))


async def aside(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that blocks while the cluster's event loop goes on."""
    return await anyio.to_thread.run_sync(call, *arguments)


async def test_exit_codes_are_those_of_the_job() -> None:
    async with cluster(nodes=1) as c:
        await c.create(job_manifest("good", run="1s"))
        await c.create(job_manifest("bad", run="1s", annotations={"sim.volcanoio.dev/exit-code": "3"}))
        await c.create(job_manifest("long", run="never"))
        done = await ended(c, "wait", "good")
        assert (done.code, done.out) == (0, "job.batch.volcano.sh/good condition met\n")
        done = await ended(c, "watch", "bad")
        assert done.code == 1
        assert done.err.startswith("job bad is Failed")
        await c.job("long", "Running")
        done = await ended(c, "wait", "long", "--timeout", "10ms")
        assert (done.code, done.err) == (4, "not Completed in time: long\n")
        done = await ended(c, "job", "lang")
        assert (done.code, done.err) == (
            2, 'volcanoio: there is no job "lang" in namespace default; did you mean long?\n',
        )  # fmt: skip
        done = await ended(c, "jobs", "--context", "other")
        assert done.code == 5
        assert "contexts has no 'other'; it has volcanoio" in done.err


def _waits(group: PodGroup, job: str) -> bool:
    return group.metadata.name.startswith(f"{job}-") and bool(group.status.conditions)


async def test_jobs_pods_and_logs_of_a_running_cluster() -> None:
    async with cluster(nodes=2) as c:
        await c.create(job_manifest("a", replicas=2, run="never", annotations={"sim.volcanoio.dev/log": "hello"}))
        await c.create(job_manifest("big", cpu="1000"))
        await c.job("a", "Running")
        await c.until(
            kinds.POD_GROUP, PodGroup, lambda all_: any(_waits(group, "big") for group in all_.values()), "a reason"
        )
        rows = (await ended(c, "jobs")).out.splitlines()
        assert rows[1].split()[:5] == ["a", "volcanoio", "Running", "2/2", "2/0/0/0"]
        assert rows[2].split()[:5] == ["big", "volcanoio", "Pending", "0/1", "0/0/0/0"]
        assert rows[2].endswith("(ClusterInsufficient)")
        assert (await ended(c, "jobs", "--mine", "-o", "name", "--phase", "running")).out == "job.batch.volcano.sh/a\n"
        done = await ended(c, "pods", "a", "-o", "name", "-n", "default")
        assert done.out == "pod/a-task-0\npod/a-task-1\n"
        lines = (await ended(c, "logs", "a")).out.splitlines()
        assert [line for line in lines if "hello" in line] == ["[a-task-0] hello", "[a-task-1] hello"]
        assert (await ended(c, "logs", "a/task/1")).out.splitlines()[0] == "hello"
        assert "memory" in (await ended(c, "queues", "-o", "yaml")).out
        assert len((await ended(c, "nodes", "--summarize")).out.splitlines()) == 2
        assert "Scheduled" in (await ended(c, "events", "a")).out


async def test_ctrl_c_ends_the_display_and_not_the_job() -> None:
    async with cluster(nodes=1) as c:
        await c.create(job_manifest("a", run="never"))
        await c.job("a", "Running")
        with Command("watch", "a", environment=environment(c)) as watch:
            assert "a Running gang 1/1" in await aside(watch.stdout.readline)
            watch.send(signal.SIGINT)
            done = await aside(watch.ended)
        assert done.code == 130
        assert done.err.strip() == "volcanoio: job a runs on; see it again with: volcanoio watch a -n default"
        assert (await c.job("a", "Running")).status.running == 1


def _on_terminal(words: list[str], variables: Mapping[str, str]) -> str:
    """What a command writes to a terminal until it ends."""
    ours, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "volcanoio", *words], stdout=terminal, stderr=terminal, env={**os.environ, **variables}
    ) as process:
        os.close(terminal)
        shown = b""
        with suppress(OSError):  # the terminal's other end is closed
            while chunk := os.read(ours, 65536):
                shown += chunk
        process.wait()
    os.close(ours)
    return shown.decode()


async def test_a_terminal_has_colours_and_a_drawing_in_place() -> None:
    async with cluster(nodes=1) as c:
        await c.create(job_manifest("a", run="20s"))
        await c.job("a", "Running")
        variables = environment(c, TERM="xterm", PYTHONPATH=os.pathsep.join(sys.path))
        shown = await aside(_on_terminal, ["watch", "a"], variables)
        assert "gang ########## 1/1" in shown
        assert "task  ########## 1/1" in shown
        assert "\x1b[" in shown
        assert "job a is Completed" in shown
        listed = await aside(_on_terminal, ["jobs"], variables)
        assert "\x1b[32mCompleted\x1b[0m" in listed
        plain = await aside(_on_terminal, ["jobs"], {**variables, "NO_COLOR": "1"})
        assert "\x1b" not in plain
        assert "Completed" in plain


def test_a_server_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    done = run("jobs", environment={"KUBECONFIG": str(tmp_path / "none"), "HOME": "/nonexistent"})
    assert done.code == 5
    assert "start a local cluster with `volcanoio up`" in done.err


def test_top_names_the_package_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith(("textual", "volcanoio.cli.look.top"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "textual", None)
    context = {"name": "x", "context": {"cluster": "c"}}
    server = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps({"current-context": "x", "clusters": [server], "contexts": [context]}))
    with pytest.raises(SystemExit) as stopped:
        volcanoio.main(["top", "--kubeconfig", str(file)])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == (
        "volcanoio: top needs the package textual, which is not installed; run: pip install 'volcanoio[tui]'\n"
    )
