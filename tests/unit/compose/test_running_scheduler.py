"""How the running scheduler of a cluster is found: by its Lease, and through kubectl."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.kube.scripted import Call, ScriptedTransport, answer, refusal
from volcanoio.compose.live.running_scheduler import NAMESPACE, PORT, SchedulerUnavailableError, scheduler_of
from volcanoio.kube.transport import Response
from volcanoio.runtime.endpoints import serving
from volcanoio.runtime.scheduler.answers import Reply, handlers

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/volcano"


def cluster(holder: str | None = "volcano-scheduler-0_1b2c", *, lease: int = 200) -> ScriptedTransport:
    """Return an API server that knows nothing of our paths, with a Lease of that holder."""

    async def respond(call: Call) -> Response:
        if call.path != LEASE:
            return refusal(404, "NotFound", "no such path")
        return refusal(lease, "", "") if lease != 200 else answer({"spec": {"holderIdentity": holder}})

    return ScriptedTransport(respond)


@pytest.mark.parametrize(
    ("transport", "error"),
    [
        (cluster(lease=403), "you may not read Lease volcano-system/volcano, which names its pod"),
        (cluster(lease=404), "Lease volcano-system/volcano has no holder: does a scheduler run?"),
        (cluster(None), "Lease volcano-system/volcano has no holder: does a scheduler run?"),
        (cluster(), "kubectl is not installed, which forwards a port to pod volcano-system/volcano-scheduler-0"),
    ],
)
async def test_a_scheduler_that_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch, transport: ScriptedTransport, error: str
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SchedulerUnavailableError, match=error):
        async with scheduler_of(transport, lease="volcano"):
            pass


def kubectl(directory: Path, script: str) -> None:
    """Write a program of that name."""
    path = directory / "kubectl"
    path.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" "$KUBECONFIG" > {directory}/words\n{script}\n')
    path.chmod(0o755)


@pytest.mark.parametrize(("context", "options"), [("", ""), ("prod", "--context prod ")])
async def test_the_pod_that_leads_is_asked_through_kubectl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: str, options: str
) -> None:
    async def respond(path: str, query: object) -> Reply:
        return Reply(200, b'{"cycle": 3, "at": 1.0, "evictions": []}')

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    async with serving("127.0.0.1", 0, handlers(respond)) as port:
        kubectl(tmp_path, f"echo 'Forwarding from 127.0.0.1:{port} -> {PORT}'; exec sleep 60")
        async with scheduler_of(
            cluster(), lease="volcano", kubeconfigs=[Path("a"), Path("b")], context=context
        ) as scheduler:
            assert (await scheduler.evictions("train", "ns")).cycle == 3
    words, kubeconfig = (tmp_path / "words").read_text().splitlines()
    assert words == f"{options}-n {NAMESPACE} port-forward pod/volcano-scheduler-0 :{PORT}"
    assert kubeconfig == "a:b"


async def test_what_kubectl_says_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    kubectl(tmp_path, "echo 'error: pods \"volcano-scheduler-0\" is forbidden' >&2; exit 1")
    with pytest.raises(
        SchedulerUnavailableError, match='kubectl port-forward: error: pods "volcano-scheduler-0" is forb'
    ):
        async with scheduler_of(cluster(), lease="volcano"):
            pass
