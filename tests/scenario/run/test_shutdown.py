"""However the server ends, nothing that it ran is left; a new one on the same directory knows what was lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contract.support import eventually
from tests.scenario.run.up_process import Lock, UpProcess, ended, log, run_pod, shell, until, up_process

WAIT = "echo ready; setsid sleep 1000 & wait"


def _running(server: UpProcess, lock: Lock, **spec: Any) -> str:
    """A pod that holds the lock, with a child that has left its session; its path."""
    namespace = server.namespace()
    path = run_pod(namespace, "holder", shell(f"{lock.script} trap '' TERM; {WAIT}"), **spec)
    until(server.cluster, path, lambda pod: pod["status"].get("phase") == "Running")
    eventually(lambda: True if "ready" in log(server.cluster, path) else None)
    assert lock.held
    return path


def test_all_processes_end_with_the_server(tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    with up_process(tmp_path / "data", "--memory") as server:
        _running(server, lock)
        assert (tmp_path / "data" / "pods").stat().st_mode & 0o777 == 0o700
    assert not lock.held
    assert list((tmp_path / "data" / "pods").iterdir()) == []  # of a cluster in memory nothing is kept


@pytest.mark.parametrize(("policy", "restarts"), [("Never", 0), ("OnFailure", 1)])
def test_a_killed_server_leaves_nothing_running_and_a_new_one_reports_it(
    tmp_path: Path, policy: str, restarts: int
) -> None:
    lock = Lock(tmp_path)
    with up_process(tmp_path / "data") as server:
        path = _running(server, lock, restartPolicy=policy)
        server.kill()
        lock.wait_until_free()
    with up_process(tmp_path / "data") as server:
        if policy == "Never":
            pod = ended(server.cluster, path)
            state = pod["status"]["containerStatuses"][0]["state"]
            assert pod["status"]["phase"] == "Failed"
        else:
            pod = until(
                server.cluster, path, lambda one: one["status"]["containerStatuses"][0]["restartCount"] == restarts
            )
            eventually(lambda: True if lock.held else None)
            state = pod["status"]["containerStatuses"][0]["lastState"]
        assert state["terminated"]["reason"] == "ContainerStatusUnknown"
        assert state["terminated"]["exitCode"] == 137
    assert not lock.held
