"""What `volcanoio` says when something is wrong: one line with cause and next step, and an exit code."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import Command, run

_BAD_JOB = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x}\nspec: {tasks: []}\n"


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
        (["up", "--scheduler-conf", "configmap:a/b"], "", 2, "names no key of a ConfigMap; write configmap:NAMESPACE/"),
        (["up", "--feature-gates", "Nope=true"], "", 2, "--feature-gates: Nope is unknown; valid values: "),
        (["up", "--default-queue", "A_B"], "", 2, '--default-queue: "A_B" cannot be the name of a queue'),
        (["up", "--schedule-period", "0"], "", 2, "--schedule-period: it must be longer than 0"),
        (["up", "--controller-conf", "file"], "policies:\n- name: declare\n", 2, 'did you mean "declared"?'),
        (["up", "--policies-dir", "nowhere"], "", 2, "nowhere: not a directory"),
        (["up", "--controllers-dir", "nowhere"], "", 2, "nowhere: not a directory"),
        (["up", "--scheduler-name", ""], "", 2, "--scheduler-name: a name must not be empty"),
        (["up", "--controllers", "*,-job-controler"], "", 2, 'no controller "job-controler"; did you mean'),
        (["up", "--data", "file"], "not a directory", 2, "choose another directory with --data"),
        (["up", "--speed", "nan"], "", 2, "'nan' is not a number from 0.01 on"),
        (["up", "--kubelet-lag", "inf"], "", 2, '--kubelet-lag: "inf" is not a number of seconds'),
        (
            ["up", "--memory", "--data", "file"],
            "a file",
            2,
            "file cannot be used: it is not a directory, or is",
        ),
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
    ended = run(*words, cwd=tmp_path)
    assert said in ended.err
    assert ended.code == code
    assert "Traceback" not in ended.err


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
        (_TOO_BIG, 4, "too-big is still Pending: resource in cluster is insufficient"),
    ],
)
def test_the_demo_lists_incomplete_jobs(tmp_path: Path, manifest: str, code: int, said: str) -> None:
    (tmp_path / "job.yaml").write_text(manifest)
    done = run("demo", "--examples", str(tmp_path), "--timeout", "4")
    assert said in done.out
    assert "0 of 1 gang completed" in done.out
    assert done.code == code


@pytest.mark.parametrize("lines", [1, 3], ids=["at once", "while the cluster's tasks run"])
def test_the_demo_into_a_pipe_that_closes_ends_without_a_word(lines: int) -> None:
    with Command("demo") as demo:
        for _ in range(lines):
            demo.stdout.readline()
        demo.stdout.close()
        demo.wait()
        assert demo.stderr.read() == ""


def test_the_demo_onto_a_disk_that_is_full_ends_without_a_traceback() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "volcanoio", "demo"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr.endswith("No space left on device; send it elsewhere\n")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_the_demo_and_leave_nothing_behind(tmp_path: Path, ending: signal.Signals) -> None:
    with Command("demo", environment={**os.environ, "TMPDIR": str(tmp_path)}) as demo:
        assert "starting" in demo.stdout.readline()
        demo.send(ending)
        done = demo.ended()
    assert (done.code, done.err) == (130, "\nstopped\n")
    assert list(tmp_path.iterdir()) == []


def test_a_busy_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        command = [sys.executable, "-m", "volcanoio", "up", "--memory", "--port", port]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"volcanoio: port {port} on 127.0.0.1 is in use")
