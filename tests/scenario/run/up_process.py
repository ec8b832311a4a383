"""`volcanoio up --run` as a process of its own, and what tests ask of it."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.commands import Command
from tests.contract.support import Cluster, Namespace, Obj, unique, wait_until_stable


@dataclass(frozen=True)
class UpProcess:
    """A running cluster whose pods are processes."""

    command: Command
    kubeconfig: Path
    cluster: Cluster

    def namespace(self) -> Namespace:
        """Create a namespace that is ready for pods."""
        name = unique("run")
        self.cluster.create("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
        wait_until_stable(self.cluster, name)
        return Namespace(self.cluster, name)

    def kill(self) -> None:
        """kill -9."""
        self.command.kill()
        self.command.wait()


@contextmanager
def up_process(data: Path, *options: str, path: Sequence[Path] = ()) -> Iterator[UpProcess]:
    """Run the cluster until the block ends, with directories before its PATH. It must then end by itself, in time."""
    environment = os.environ | {"PATH": os.pathsep.join([*map(str, path), os.environ["PATH"]])}
    with Command("up", "--run", f"--data={data}", *options, environment=environment) as command:
        ready = command.stdout.readline()
        assert ready.startswith("ready "), command.ended()
        cluster = Cluster.of(data / "kubeconfig")
        yield UpProcess(command, data / "kubeconfig", cluster)
        cluster.close()
        if command.code is None:
            command.send(signal.SIGTERM)
            ended = command.ended()
            assert ended.code == 0, ended.err
            assert "warning: --run" in ended.err
            assert "Traceback" not in ended.err, ended.err


def shell(script: str, **container: Any) -> Obj:
    """A container that runs a shell script."""
    return {"name": "main", "image": "none", "command": ["sh", "-c", script], **container}


def run_pod(namespace: Namespace, name: str, *containers: Obj, labels: Obj | None = None, **spec: Any) -> str:
    """Create a pod that is not restarted unless said otherwise; its path."""
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"restartPolicy": "Never", "containers": list(containers), **spec},
    }
    namespace.cluster.create(namespace.path("pods"), manifest).ok()
    return namespace.path("pods", name)


def until(cluster: Cluster, path: str, holds: Callable[[Obj], Any]) -> Obj:
    """Return the object at a path once a condition holds, by watching; the test's timeout is the limit."""
    collection, _, name = path.rpartition("/")
    seen: Obj = {}
    with cluster.watch(collection, fieldSelector=f"metadata.name={name}") as events:
        for event in events:
            seen = event["object"]
            if event["type"] != "DELETED" and holds(seen):
                return seen
    raise AssertionError(seen)


def ended(cluster: Cluster, path: str) -> Obj:
    """Return the pod once it has succeeded or failed."""
    return until(cluster, path, lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"))


def log(cluster: Cluster, path: str, **query: Any) -> str:
    """Return a container's log; with `follow` its whole log."""
    answer = cluster.get(f"{path}/log", **query)
    assert answer.code == 200, answer.body
    body: bytes = answer.body
    return body.decode()


def terminated(pod: Obj, container: str = "main") -> Obj:
    """Return how a container of a pod ended."""
    status = next(one for one in pod["status"]["containerStatuses"] if one["name"] == container)
    found: Obj = status["state"]["terminated"]
    return found


class Lock:
    """A file that processes hold locked for as long as any of them, or of their children, lives.

    `script` takes it in a shell, on descriptor 9.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / unique("lock")
        self._path.touch()
        self.script = f"exec 9<{self._path}; flock 9; "

    @property
    def held(self) -> bool:
        """Whether anybody holds it."""
        with self._path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def wait_until_free(self) -> None:
        """Return once the lock is free; the test's timeout is the limit."""
        with self._path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
