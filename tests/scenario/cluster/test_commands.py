"""What `volcanoio` says when something is wrong: one line with cause and next step, and an exit code."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

_BAD_JOB = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x}\nspec: {tasks: []}\n"


def _volcanoio(*words: str, cwd: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "volcanoio", *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stderr


def _write(directory: Path, name: str, text: str) -> str:
    (directory / name).write_bytes(text.encode(errors="surrogateescape"))
    return name


@pytest.mark.parametrize(
    ("words", "text", "code", "said"),
    [
        (["up", "--node-resources", "cpu=lots"], "", 2, "--node-resources"),
        (["up", "--node-resources", "gpu=1"], "", 2, "--node-resources"),
        (["up", "--scheduler-conf", "nowhere"], "", 2, "there is no file nowhere"),
        (["up", "--scheduler-conf", "file"], 'actions: "allocat"\ntiers: []\n', 2, 'did you mean "allocate"?'),
        (["up", "--controller-conf", "file"], "policies:\n- name: declare\n", 2, 'did you mean "declared"?'),
        (["up", "--policies-dir", "nowhere"], "", 2, "nowhere: not a directory"),
        (["up", "--controllers-dir", "nowhere"], "", 2, "nowhere: not a directory"),
        (["up", "--scheduler-name", ""], "", 2, "--scheduler-name: a name must not be empty"),
        (["up", "--controllers", "*,-job-controler"], "", 2, 'no controller "job-controler"; did you mean'),
        (["up", "--data", "file"], "not a directory", 2, "choose another directory with --data"),
        (["up", "--speed", "nan"], "", 2, "'nan' is not a number from 0.01 on"),
        (["up", "--kubelet-lag", "inf"], "", 2, "--kubelet-lag: inf is no finite number"),
        (["up", "--memory", "--data", "file"], "a file", 2, "file cannot be used: it is no directory, or below a file"),
        (["up", "--memory", "--journal", "file"], "not a directory", 2, "file/controllers: Not a directory"),
        (["up", "--memory", "--scheduler-conf", "file"], "\udcff", 2, "file: not UTF-8 text"),
        (["demo", "--examples", "."], "", 2, "--examples: no .yaml files in ."),
        (["demo", "--examples", "nowhere"], "", 2, "--examples: there is no directory nowhere"),
        (["node", "list", "--kubeconfig", "file"], "a: [", 5, "file: not YAML"),
        (["node", "list", "--kubeconfig", "file"], "text", 5, "name one with --kubeconfig or KUBECONFIG"),
        (["demo", "--examples", "examples"], _BAD_JOB, 3, "Job x was refused"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, words: list[str], text: str, code: int, said: str) -> None:
    (tmp_path / "examples").mkdir()
    _write(tmp_path, "examples/job.yaml" if "examples" in words else "file", text)
    assert said in (outcome := _volcanoio(*words, cwd=tmp_path))[1]
    assert outcome[0] == code
    assert "Traceback" not in outcome[1]


_FAILING = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: fails}
spec:
  tasks:
  - replicas: 1
    template:
      metadata: {annotations: {sim.volcanoio.dev/run-duration: 10ms, sim.volcanoio.dev/exit-code: "3"}}
      spec: {restartPolicy: Never, containers: [{name: c, image: i}]}
"""
_TOO_BIG = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: too-big}
spec:
  tasks:
  - replicas: 1
    template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: 100}}}]}}
"""


@pytest.mark.parametrize(
    ("manifest", "code", "said"),
    [
        (_FAILING, 1, "fails ended Failed"),
        (_TOO_BIG, 4, "too-big is still Pending: resource in cluster is overused"),
    ],
)
def test_the_demo_ends_with_what_did_not_complete(tmp_path: Path, manifest: str, code: int, said: str) -> None:
    (tmp_path / "job.yaml").write_text(manifest)
    words = ["demo", "--examples", str(tmp_path), "--timeout", "4"]
    done = subprocess.run([sys.executable, "-m", "volcanoio", *words], capture_output=True, text=True, check=False)
    assert said in done.stdout
    assert "0 of 1 gangs completed" in done.stdout
    assert done.returncode == code


def test_the_demo_into_a_pipe_that_closes_or_a_disk_that_is_full_ends_without_a_traceback() -> None:
    demo = f"{sys.executable} -m volcanoio demo"
    for shell, told in (
        (f"{demo} | head -1", ""),
        (f"{demo} | head -3", ""),  # in the midst of the cluster's tasks
        (f"{demo} >/dev/full", "No space left on device; send it elsewhere\n"),
    ):
        done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False)
        assert done.stderr.endswith(told)
        assert len(done.stderr.splitlines()) == bool(told)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_the_demo_and_leave_nothing_behind(tmp_path: Path, ending: signal.Signals) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    demo = [sys.executable, "-m", "volcanoio", "demo"]
    with subprocess.Popen(demo, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert "starting" in process.stdout.readline()
        process.send_signal(ending)
        said = process.communicate(timeout=90)[1]
    assert (process.returncode, said) == (130, "\nstopped\n")
    assert list(tmp_path.iterdir()) == []


def test_a_busy_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        code, said = _volcanoio("up", "--memory", "--port", port, cwd=tmp_path)
    assert code == 2
    assert said.startswith(f"volcanoio: port {port} on 127.0.0.1 is in use")
