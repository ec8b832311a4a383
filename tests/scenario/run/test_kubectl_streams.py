"""exec, attach, cp, logs and run by unmodified kubectls: WebSocket from 1.30 on, SPDY before."""

from __future__ import annotations

from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.contract.kubectls import Kubectl, installed
from tests.contract.support import Namespace, eventually
from tests.scenario.run.up_process import Lock, UpProcess, log, run_pod, shell, until

pytestmark = pytest.mark.kubectl
BINARIES = {name: path for name, path in installed().items() if name.startswith("kubectl.1.")} or installed()
ECHO = "echo ready; while read line; do echo got $line; done; echo over"


VERSIONS: list[Any] = list(BINARIES) or [pytest.param("", marks=pytest.mark.skip(reason="no kubectl on this machine"))]
OLDEST_AND_NEWEST = list(dict.fromkeys([VERSIONS[0], VERSIONS[-1]]))
"""One that speaks SPDY and one that speaks WebSocket."""


@pytest.fixture(params=VERSIONS)
def kubectl(request: pytest.FixtureRequest, running: UpProcess, namespace: Namespace, tmp_path: Path) -> Kubectl:
    """A kubectl in a namespace where pod `box` runs and waits for input."""
    path = run_pod(namespace, "box", shell(ECHO, stdin=True, stdinOnce=True), shell("sleep 1000") | {"name": "side"})
    until(running.cluster, path, lambda pod: pod["status"].get("phase") == "Running")
    eventually(lambda: True if "ready" in log(running.cluster, path, container="main") else None)
    return Kubectl(BINARIES[request.param], running.kubeconfig, tmp_path, namespace.name)


def test_streams(kubectl: Kubectl, tmp_path: Path) -> None:
    ran = kubectl.run("exec", "box", "-c", "side", "--", "sh", "-c", "echo out; echo err >&2; hostname; exit 3")
    assert (ran.code, ran.out) == (3, "out\nbox\n")
    assert "err\n" in ran.err
    assert "command terminated with exit code 3" in ran.err

    big = "x" * 300_000
    assert kubectl.run("exec", "-i", "box", "-c", "side", "--", "sh", "-c", "cat; echo", manifest=big).out == big + "\n"

    refused = kubectl.run("exec", "box", "-c", "side", "--", "no-such-program")
    assert refused.code == 1
    assert '"no-such-program": executable file not found' in refused.err

    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("content\n")
    kubectl("cp", str(tmp_path / "there"), "box:copied", "-c", "side")
    kubectl("cp", "box:copied/file", str(tmp_path / "back"), "-c", "side")
    assert (tmp_path / "back").read_text() == "content\n"

    assert kubectl("attach", "-i", "box", "-c", "main", manifest="a word\n") == "ready\ngot a word\nover\n"
    assert kubectl("logs", "box", "-c", "main") == "ready\ngot a word\nover\n"

    ended = kubectl.run(
        "run", "quick", "--image=none", "-i", "--rm", "--restart=Never", "--command", "--",
        "sh", "-c", "cat; echo done; exit 4", manifest="input\n",
    )  # fmt: skip
    assert ended.code == 4
    assert "input\ndone\n" in ended.out


@pytest.mark.parametrize("kubectl", OLDEST_AND_NEWEST, indirect=True)
def test_a_command_ends_with_its_client(kubectl: Kubectl, tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    with kubectl.following(
        "exec", "box", "-c", "side", "--", "sh", "-c", f"{lock.script} echo ready; sleep 1000"
    ) as lines:
        assert "ready" in next(line for line in lines if "ready" in line)
        assert lock.held
    lock.wait_until_free()


@pytest.mark.parametrize("kubectl", OLDEST_AND_NEWEST, indirect=True)
def test_ports_are_forwarded(kubectl: Kubectl, running: UpProcess) -> None:
    namespace = Namespace(running.cluster, kubectl.namespace)
    serve = "cd /www-test; exec python3 -u -m http.server --bind $(hostname -i) 8080"
    volume = {"name": "www", "configMap": {"name": "www"}}
    namespace.config_map("www", page="served")
    mounts = [{"name": "www", "mountPath": "/www-test"}]
    path = run_pod(namespace, "web", shell(serve, volumeMounts=mounts), volumes=[volume])
    until(running.cluster, path, lambda pod: pod["status"].get("phase") == "Running")
    eventually(lambda: True if "Serving" in log(running.cluster, path) else None)
    with kubectl.following("port-forward", "pod/web", ":8080") as lines:
        port = int(next(line for line in lines if "127.0.0.1:" in line).split(":")[1].split(" ")[0])
        assert [_page(port) for _ in range(3)] == ["served"] * 3
    refused = kubectl.run("port-forward", "pod/nope", ":80")
    assert 'pods "nope" not found' in refused.err


def _page(port: int) -> str:
    """What an HTTP server on localhost serves."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/page")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("kubectl", OLDEST_AND_NEWEST, indirect=True)
def test_pods_without_a_process_are_reported(kubectl: Kubectl, running: UpProcess) -> None:
    namespace = Namespace(running.cluster, kubectl.namespace)
    path = run_pod(namespace, "image", {"name": "main", "image": "nginx"})
    until(running.cluster, path, lambda pod: pod["status"].get("phase") == "Running")
    ran = kubectl.run("exec", "image", "--", "true")
    assert ran.code == 1
    assert "it is simulated because" in ran.err
    assert "container nope is not valid for pod box" in kubectl.run("exec", "box", "-c", "nope", "--", "true").err
