"""Completion in shells, and volcanoio as a plugin of kubectl: real shells, a real kubectl, and a cluster."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import anyio
import pytest

from tests.contract.kubectls import installed
from tests.scenario.cluster.harness import Cluster, cluster, job_manifest

SCRIPTS = {
    "volcanoio": "volcanoio.cli.main:main",
    "kubectl-volcano": "volcanoio.cli.main:kubectl_volcano",
    "kubectl_complete-volcano": "volcanoio.cli.main:kubectl_complete_volcano",
}
"""Console scripts of pyproject.toml, which a checkout that is not installed does not have."""
COMPLETE_IN_BASH = """
source {script}
COMP_WORDS=(volcanoio {words}) COMP_CWORD={last}
_volcanoio_completion volcanoio
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def programs(tmp_path: Path) -> str:
    """A PATH with the console scripts, run by this interpreter."""
    for name, target in SCRIPTS.items():
        module, function = target.split(":")
        script = tmp_path / name
        code = f"import sys; sys.argv[0] = '{name}'; from {module} import {function}; {function}()"
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
        script.chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


async def _run(programs: str, *command: str, c: Cluster | None = None, code: int = 0) -> tuple[str, str]:
    environment = {**os.environ, "PATH": programs, "HOME": "/nonexistent"}
    environment["KUBECONFIG"] = str(c.local.kubeconfig) if c else "/nonexistent"
    done = await anyio.run_process(command, check=False, env=environment)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout.decode(), done.stderr.decode()


async def _in_bash(programs: str, words: str, c: Cluster | None = None) -> list[str]:
    script = Path(programs.partition(":")[0]) / "completion.bash"
    if not script.exists():
        script.write_text((await _run(programs, "volcanoio", "completion", "bash"))[0])
    command = COMPLETE_IN_BASH.format(script=script, words=words, last=len(words.split(" ")))
    out, _ = await _run(programs, "bash", "--norc", "-c", command, c=c)
    return out.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
async def test_bash_completes_commands_options_and_names(programs: str) -> None:
    assert await _in_bash(programs, "susp") == ["suspend"]
    assert await _in_bash(programs, "queue c") == ["close", "create"]
    assert await _in_bash(programs, "queue set ml --cap") == ["--capability"]
    assert await _in_bash(programs, "completion ''") == ["bash", "zsh", "fish"]
    assert await _in_bash(programs, "suspend t") == []  # there is no cluster
    async with cluster(nodes=1) as c:
        await c.create(job_manifest("train", run="never"))
        await c.create(job_manifest("tune", run="never"))
        assert await _in_bash(programs, "suspend t", c) == ["train", "tune"]
        assert await _in_bash(programs, "suspend tune t", c) == ["train"]
        assert await _in_bash(programs, "queue open d", c) == ["default"]
        assert await _in_bash(programs, "logs -n volc", c) == ["volcano-system"]
        assert await _in_bash(programs, "logs tr", c) == ["train"]


@pytest.mark.parametrize(("shell", "function"), [("zsh", "#compdef volcanoio"), ("fish", "_volcanoio_completion")])
async def test_scripts_of_other_shells_are_valid(programs: str, shell: str, function: str, tmp_path: Path) -> None:
    script, _ = await _run(programs, "volcanoio", "completion", shell)
    assert function in script
    if shutil.which(shell):
        file = tmp_path / "script"
        file.write_text(script)
        await _run(programs, shell, "-n", str(file))


@pytest.mark.kubectl
@pytest.mark.skipif(not installed(), reason="no kubectl on this machine; set KUBECTL to the path of one")
async def test_kubectl_runs_and_completes_the_plugin(programs: str) -> None:
    kubectl = next(iter(installed().values()))
    async with cluster(nodes=1) as c:
        await c.create(job_manifest("train", run="never"))
        await c.job("train", "Running")
        out, _ = await _run(programs, kubectl, "volcano", "suspend", "train", c=c)
        assert out == "job train is being suspended; it was Running\n"
        _, err = await _run(programs, kubectl, "volcano", "resume", "trian", c=c, code=2)
        assert err == 'kubectl volcano: there is no job "trian" in namespace default; did you mean train?\n'
        out, _ = await _run(programs, kubectl, "volcano", "queue", "--help")
        assert out.startswith("Usage: kubectl volcano queue ")
        for words, completions in (
            (["susp"], ["suspend\tStop jobs and keep them, to be resumed."]),
            (["suspend", ""], ["train"]),
            (["queue", "open", ""], ["default", "root"]),
            (
                ["suspend", "--kube"],
                ["--kubeconfig\tThe cluster; else $KUBECONFIG, ~/.kube/config, a local cluster's."],
            ),
        ):
            out, _ = await _run(programs, kubectl, "__complete", "volcano", *words, c=c)
            assert out.splitlines() == [*completions, ":4"]
        out, _ = await _run(programs, kubectl, "__complete", "volcano", "config", "show", "", c=c)
        assert out.splitlines() == [":0"]  # file names
