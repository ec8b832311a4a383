"""`volcanoio run` and `submit` on a cluster whose pods are processes: logs, results and exit codes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.commands import Command, Ended
from tests.commands import run as run_command
from tests.contract.support import Namespace
from tests.scenario.run.up_process import UpProcess


def _environment(running: UpProcess) -> dict[str, str]:
    return {**os.environ, "KUBECONFIG": str(running.kubeconfig)}


def _run(running: UpProcess, namespace: Namespace, *words: str, code: int = 0) -> Ended:
    first, *rest = words
    done = run_command(first, "-n", namespace.name, *rest, environment=_environment(running))
    assert done.code == code, done.out + done.err
    return done


def _shell(script: str) -> tuple[str, ...]:
    return ("--", "sh", "-c", script)


def test_a_job_is_followed_to_its_end(running: UpProcess, namespace: Namespace) -> None:
    done = _run(
        running, namespace, "run", "busybox", "--name", "a", "-e", "WHO=me", "--follow", *_shell("echo hi $WHO")
    )
    assert done.out == "job.batch.volcano.sh/a created\nhi me\n"
    done = _run(running, namespace, "run", "busybox", "--name", "b", "--follow", *_shell("echo oh; exit 3"), code=1)
    assert done.out == "job.batch.volcano.sh/b created\noh\n"
    assert done.err == "job b is Failed; see: volcanoio job b\n"


def test_each_index_of_an_array_is_a_pod_of_one_job(running: UpProcess, namespace: Namespace) -> None:
    words = ("run", "busybox", "--name", "a", "--array", "0-2", "--follow", *_shell("echo index $VC_TASK_INDEX"))
    lines = _run(running, namespace, *words).out.splitlines()
    assert sorted(lines[1:]) == [f"[a-default0-{index}] index {index}" for index in range(3)]
    words = ("run", "busybox", "--name", "b", "--array", "5-9:4", "--follow", *_shell("echo shard $VC_SHARD"))
    lines = _run(running, namespace, *words).out.splitlines()
    assert sorted(lines[1:]) == ["[b-default0-0] shard 5", "[b-default0-1] shard 9"]


def test_waiting_ends_in_time_and_ctrl_c_leaves_the_job_running(running: UpProcess, namespace: Namespace) -> None:
    late = _run(
        running, namespace, "run", "x", "--name", "a", "--wait", "--timeout", "1s", *_shell("sleep 1000"), code=4
    )
    assert late.err == "not Completed in time: a\n"
    words = ("run", "-n", namespace.name, "x", "--name", "b", "--follow", *_shell("echo started; sleep 1000"))
    with Command(*words, environment=_environment(running)) as command:
        assert [command.stdout.readline() for _ in range(2)] == ["job.batch.volcano.sh/b created\n", "started\n"]
        command.send(signal.SIGINT)
        ended = command.ended()
    assert ended.code == 130
    assert ended.err.startswith(f"volcanoio: b runs on; wait for it with: volcanoio wait b -n {namespace.name}")
    assert _run(running, namespace, "cancel", "a", "b").out.count("is cancelled") == 2


def test_what_is_refused_has_an_exit_code_of_its_own(running: UpProcess, namespace: Namespace) -> None:
    refused = _run(running, namespace, "run", "x", "--name", "a", "--queue", "nope", "--wait", code=3)
    assert 'queue.scheduling.volcano.sh "nope" not found' in refused.err
    assert refused.out == ""
    _run(running, namespace, "run", "x", "--name", "a", "--dry-run=server", "--queue", "nope", code=3)
    done = _run(running, namespace, "run", "x", "--name", "a", "--dry-run=server")
    assert done.out == "job.batch.volcano.sh/a created (dry run)\n"
    stored = _run(running, namespace, "run", "x", "--name", "a", "-o", "name", *_shell("sleep 1000"))
    assert stored.out == "job.batch.volcano.sh/a\n"
    assert 'jobs.batch.volcano.sh "a" already exists' in _run(running, namespace, "run", "x", "--name", "a", code=1).err


def test_files_and_scripts_are_submitted(running: UpProcess, namespace: Namespace, tmp_path: Path) -> None:
    manifest, script = tmp_path / "jobs.yaml", tmp_path / "greet.sh"
    jobs = [
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n"
        f"metadata: {{name: {name}}}\nspec: {{tasks: [{{replicas: 1, template: {{spec: {{restartPolicy: Never, "
        f"containers: [{{name: c, image: none, command: [sh, -c, '{command}']}}]}}}}}}]}}\n"
        for name, command in (("one", "true"), ("two", "exit 1"))
    ]
    manifest.write_text("---\n".join(jobs))
    script.write_text("#!/bin/sh\n#VIO --image none --array 0-1\n#VIO --cpu 100m\necho script $VC_TASK_INDEX $0\n")
    done = _run(running, namespace, "submit", str(manifest), "--wait", code=1)
    assert done.out.splitlines()[:2] == ["job.batch.volcano.sh/one created", "job.batch.volcano.sh/two created"]
    assert "job.batch.volcano.sh/one condition met" in done.out
    assert "job two is Failed" in done.err
    lines = _run(running, namespace, "submit", str(script), "--follow").out.splitlines()
    assert lines[0] == "job.batch.volcano.sh/greet created"
    assert [line.split()[1:3] for line in sorted(lines[1:])] == [["script", "0"], ["script", "1"]]
