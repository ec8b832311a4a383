"""What `volcanoio` says when something is wrong: one line with cause and next step, and an exit code."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

_BAD_JOB = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x}\nspec: {tasks: []}\n"


def _volcanoio(*words: str, cwd: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "volcanoio", *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


def _write(directory: Path, name: str, text: str) -> str:
    (directory / name).write_text(text)
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
        (["up", "--data", "file"], "not a directory", 2, "choose another directory with --data"),
        (["demo", "--examples", "."], "", 2, "no .yaml files there"),
        (["demo", "--examples", "examples"], _BAD_JOB, 3, "Job x was refused"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, words: list[str], text: str, code: int, said: str) -> None:
    (tmp_path / "examples").mkdir()
    _write(tmp_path, "examples/job.yaml" if "examples" in words else "file", text)
    assert said in (outcome := _volcanoio(*words, cwd=tmp_path))[1]
    assert outcome[0] == code
    assert "Traceback" not in outcome[1]


def test_a_busy_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        code, said = _volcanoio("up", "--memory", "--port", port, cwd=tmp_path)
    assert code == 2
    assert said.startswith(f"volcanoio: port {port} on 127.0.0.1 is in use")
