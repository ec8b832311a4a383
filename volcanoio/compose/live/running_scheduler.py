"""Questions to the running scheduler of a cluster: `RunningScheduler`, reached by `scheduler_of` or `scheduler_at`.

The scheduler of `volcanoio up` answers at the API server. One in a pod answers on the loopback interface of its pod,
which is reached through `kubectl port-forward`: so the cluster decides by RBAC (`pods/portforward` in the scheduler's
namespace) who may ask. Another way is a URL that the user gives.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc
import msgspec

from volcanoio.engine.scheduling.diagnosis.answers import LiveAnswer, UnknownTargetError
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import Connection
from volcanoio.kube.transport import Response, Transport, TransportError
from volcanoio.runtime.scheduler.answers import SNAPSHOT, SNAPSHOT_PAUSE, WHY

NAMESPACE, PORT = "volcano-system", 11252
"""Where an installed scheduler answers."""
_SNAPSHOT_SECONDS, _FORWARD_SECONDS, _SNAPSHOT_ATTEMPTS = 120.0, 10.0, 5
_FORWARDING = re.compile(rb"Forwarding from 127\.0\.0\.1:([0-9]+)")


class SchedulerUnavailableError(Exception):
    """The running scheduler cannot be asked; the message is one line: the cause and the next step."""


class _BusyError(SchedulerUnavailableError):
    """It has answered too much lately."""


class _Problem(msgspec.Struct, frozen=True):
    error: str = ""


class _LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None


class _Lease(msgspec.Struct, frozen=True):
    spec: _LeaseSpec = _LeaseSpec()


class RunningScheduler:
    """Asks one scheduler. Raises SchedulerUnavailableError."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def why(self, target: str, namespace: str) -> LiveAnswer:
        """Return why a job, PodGroup, pod or queue waits. Raises UnknownTargetError."""
        return await self._ask({"target": target, "namespace": namespace})

    async def evictions(self, target: str, namespace: str) -> LiveAnswer:
        """Return the remembered evictions of a pod or of a job's pods. Raises UnknownTargetError."""
        return await self._ask({"target": target, "namespace": namespace, "evicted": "true"})

    async def snapshot(self) -> bytes:
        """Return the state of the scheduler, as `compose.state_files` reads it."""
        for _ in range(_SNAPSHOT_ATTEMPTS):
            try:
                return (await self._get(SNAPSHOT, {}, timeout=_SNAPSHOT_SECONDS)).body
            except _BusyError:
                await anyio.sleep(SNAPSHOT_PAUSE)
        raise SchedulerUnavailableError("it is busy with other snapshots; try again in some seconds")

    async def _ask(self, query: Mapping[str, str]) -> LiveAnswer:
        response = await self._get(WHY, query)
        try:
            return msgspec.json.decode(response.body, type=LiveAnswer)
        except msgspec.DecodeError as error:
            raise SchedulerUnavailableError(f"its answer has another form ({error}): use the same version") from None

    async def _get(self, path: str, query: Mapping[str, str], **options: float) -> Response:
        try:
            response = await self._transport.request("GET", path, query=query, **options)  # type: ignore[arg-type]
        except TransportError as error:
            raise SchedulerUnavailableError(f"it does not answer: {error}") from None
        if response.status == 200:
            return response
        problem = _problem(response)
        if response.status == 429:
            raise _BusyError(problem)
        if response.status == 404 and problem and path == WHY:
            raise UnknownTargetError(problem)
        raise SchedulerUnavailableError(problem or f"it answers {path} with HTTP {response.status}")


def _problem(response: Response) -> str:
    """Return the error of an answer of our scheduler, "" if it is not one."""
    try:
        return msgspec.json.decode(response.body, type=_Problem).error
    except msgspec.DecodeError:
        return ""


@asynccontextmanager
async def scheduler_at(url: str) -> AsyncIterator[RunningScheduler]:
    """Reach the scheduler that answers at a URL; no credentials are sent."""
    transport = HttpTransport(Connection(url.rstrip("/")))
    try:
        yield RunningScheduler(transport)
    finally:
        await transport.aclose()


@asynccontextmanager
async def scheduler_of(
    transport: Transport, *, lease: str, kubeconfigs: Sequence[Path] = (), context: str = ""
) -> AsyncIterator[RunningScheduler]:
    """Reach the scheduler of a cluster: at the API server, or in the pod that holds the Lease.

    `kubeconfigs` and `context` are those by which the cluster was chosen. Raises SchedulerUnavailableError.
    """
    if await _answers(transport):
        yield RunningScheduler(transport)
        return
    pod = await _leader(transport, lease)
    async with _forwarded(pod, kubeconfigs, context) as port, scheduler_at(f"http://127.0.0.1:{port}") as scheduler:
        yield scheduler


async def _answers(transport: Transport) -> bool:
    """Return whether a scheduler answers at the API server; a request without a target is refused by ours alone."""
    try:
        return bool(_problem(await transport.request("GET", WHY)))
    except TransportError as error:
        raise SchedulerUnavailableError(f"the API server does not answer: {error}") from None


async def _leader(transport: Transport, lease: str) -> str:
    """Return the pod that holds the Lease of the scheduler."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{lease}"
    response = await transport.request("GET", path)
    if response.status == 403:
        raise SchedulerUnavailableError(f"you may not read Lease {NAMESPACE}/{lease}, which names its pod")
    holder = ""
    if response.ok:
        with suppress(msgspec.DecodeError):
            holder = msgspec.json.decode(response.body, type=_Lease).spec.holder_identity or ""
    if not holder:
        raise SchedulerUnavailableError(f"Lease {NAMESPACE}/{lease} has no holder: does a scheduler run?")
    return holder.rpartition("_")[0] or holder


@asynccontextmanager
async def _forwarded(pod: str, kubeconfigs: Sequence[Path], context: str) -> AsyncIterator[int]:
    """Forward a local port to the scheduler in a pod; yields the port."""
    if (kubectl := shutil.which("kubectl")) is None:
        raise SchedulerUnavailableError(
            f"kubectl is not installed, which forwards a port to pod {NAMESPACE}/{pod}; or forward port {PORT} "
            "yourself and give --scheduler-url"
        )
    chosen = ["--context", context] if context else []
    command = [kubectl, *chosen, "-n", NAMESPACE, "port-forward", f"pod/{pod}", f":{PORT}"]
    environment = dict(os.environ)
    if kubeconfigs:
        environment["KUBECONFIG"] = os.pathsep.join(map(str, kubeconfigs))
    async with await anyio.open_process(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment
    ) as process:
        try:
            yield await _port(process)
        finally:
            if process.returncode is None:
                process.terminate()


async def _port(process: anyio.abc.Process) -> int:
    """Return the port that kubectl forwards."""
    said, stdout = b"", process.stdout
    assert stdout is not None
    try:
        with anyio.fail_after(_FORWARD_SECONDS):
            while (found := _FORWARDING.search(said)) is None:
                said += await stdout.receive()
    except anyio.EndOfStream:
        text = said.decode(errors="replace").strip().splitlines()
        raise SchedulerUnavailableError(f"kubectl port-forward: {text[-1] if text else 'it ended'}") from None
    except TimeoutError:
        raise SchedulerUnavailableError(f"kubectl port-forward did not begin in {_FORWARD_SECONDS:.0f} s") from None
    return int(found[1])
