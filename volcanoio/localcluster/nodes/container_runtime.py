"""The container runtime interface between a pod's life on a node and the code that executes its commands.

Without a runtime a container is simulated: length and end are computed (`pods.behaviour`). A runtime, such as the one
that starts local processes, starts each run and reports its end. Order of init containers, restarts, back-off,
deadlines, grace periods, status and events are decided by `pods.lifecycle` and `kubelets`. `ContainerLogs` reads the
logs of both; those of simulated containers follow from the manifest, so they are the same after every restart.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from volcanoio.kube.transport import Transport, TransportError
from volcanoio.localcluster.clock import Clock
from volcanoio.localcluster.nodes.addresses import PodAddresses
from volcanoio.localcluster.nodes.pods.behaviour import command_line
from volcanoio.model import names
from volcanoio.model.base import Manifest
from volcanoio.model.core import Container, ContainerStatus, Pod
from volcanoio.model.kinds import POD
from volcanoio.model.times import epoch

SIMULATED = "sim"
"""The name of having no runtime."""


class StartOrder(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A container run that is due to begin now.

    `pod` holds only the fields the nodes read: a runtime that needs more (env, mounts) GETs the pod. `attempt` is the
    restart count of this run, from 0.
    """

    pod: Pod
    container: str
    attempt: int
    node: str
    host_ip: str
    pod_ip: str


class Exit(msgspec.Struct, frozen=True, gc=False):
    """End of a run.

    `code` is the exit code, 128 + N for signal N; `reason` is a kubelet's (`Completed`, `Error`, `OOMKilled`), by
    default that of the code. `message` is the termination message.
    """

    code: int
    reason: str = ""
    message: str = ""


class StartError(Exception):
    """The run could not start; the text contains the reason.

    The container ends with exit code 128 and reason `StartError`.
    """


class Execution(Protocol):
    """A started run."""

    async def wait(self) -> Exit:
        """Wait until the run has ended, for any reason.

        Awaited once, by one task; cancelling the wait does not end the run.
        """
        ...

    def terminate(self) -> None:
        """Send SIGTERM at the start of the pod's grace period; no error when it has ended."""
        ...

    def kill(self) -> None:
        """Send SIGKILL to all processes; no error when it has ended."""
        ...


class LogSelection(Protocol):
    """The part of the API server's LogOptions that runtimes implement."""

    @property
    def follow(self) -> bool:
        """Whether to continue until the container ends."""
        ...

    @property
    def previous(self) -> bool:
        """Whether the logs of the run before the current one are requested."""
        ...


class ContainerRuntime(Protocol):
    """Runtime of a fleet's containers; its methods are called on the fleet's event loop."""

    name: str
    """What annotation and `containerID` call it: `process` gives `process://<pod uid>/<container>/<attempt>`."""

    addresses: PodAddresses
    """Where its pods get their addresses."""

    def objection(self, pod: Pod, container: str) -> str:
        """Return why this container cannot run and is simulated; the text becomes a Warning.

        Empty when it can run.

        Asked once when the pod is taken in, before anything is started; must not block.
        """
        ...

    async def start(self, order: StartOrder) -> Execution:
        """Start a run; may wait. The container counts as running from its return.

        Raises StartError. When cancelled (the pod is gone, the server ends) nothing may be left running.
        """
        ...

    async def forget(self, pod: Pod) -> None:
        """Remove the pod's directories and logs: it is deleted and none of its runs is left."""
        ...

    def read(
        self, namespace: str, pod_manifest: Manifest, container: str, options: LogSelection
    ) -> AsyncIterator[list[bytes]]:
        """Return the container's log, as `apiserver.streams.pod_connections.LogSource.read` with its LogOptions."""
        ...


def wanted_runtime(pod: Pod, node_annotation: str, default: str) -> str:
    """Return the runtime of a pod: its own annotation, else its node's, else the server's."""
    return pod.metadata.annotations.get(names.RUNTIME) or node_annotation or default


LINES_KEPT = 10_000
_POLL = 0.25  # seconds between two reads while following
_ECHO = re.compile(r"""\becho\s+("[^"]*"|'[^']*'|[^;&|\n"']+)""")


class ContainerLogs:
    """Logs of all containers (the API server's LogSource).

    A container that a runtime ran has that runtime's log, any other a simulated one.

    The scheme of a container's id names its runtime.
    """

    def __init__(self, simulated: SimulatedLogs, runtimes: Mapping[str, ContainerRuntime]) -> None:
        self._simulated = simulated
        self._runtimes = runtimes

    def read(
        self, namespace: str, pod_manifest: Manifest, container: str, options: LogSelection
    ) -> AsyncIterator[list[bytes]]:
        """Yield lines as `LogSource` does."""
        status = pod_manifest.get("status") or {}
        statuses = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
        found = next((str(s.get("containerID", "")) for s in statuses if s.get("name") == container), "")
        runtime = self._runtimes.get(found.partition("://")[0])
        source = self._simulated if runtime is None else runtime
        return source.read(namespace, pod_manifest, container, options)


class SimulatedLogs:
    """Container logs for the API server's `pods/NAME/log` (its LogSource).

    A log is what the pod's log annotation says, else what the command echoes; then a line every so often, and how it
    ended. `transport` is asked whether a followed container still runs.
    """

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock

    async def read(
        self, namespace: str, pod_manifest: Manifest, container: str, options: LogSelection
    ) -> AsyncIterator[list[bytes]]:
        """Yield batches of lines, oldest first, each prefixed with its RFC 3339 time."""
        pod: Pod | None = msgspec.convert(pod_manifest, Pod)
        sent = 0
        followed: int | None = None
        while pod is not None:
            log = container_log(pod, container, self._clock.now(), options.previous)
            if (
                followed is not None and log.restarts != followed
            ):  # it was restarted: the last lines of the followed run are left
                log = container_log(pod, container, self._clock.now(), previous=True)
                if log.restarts != followed:
                    return
            followed = log.restarts
            new = log.total - sent
            if sent and log.over:
                new = max(1, new)  # stored times are whole seconds: the last line may come where one was expected
            yield log.lines[max(0, len(log.lines) - new) :] if new > 0 else []
            sent = max(sent, log.total)
            if log.over or not options.follow:
                return
            await self._clock.idle(_POLL)
            pod = await self._again(namespace, pod)

    async def _again(self, namespace: str, pod: Pod) -> Pod | None:
        """Return the current pod, None when it was deleted."""
        try:
            response = await self._transport.request("GET", POD.path(namespace, pod.metadata.name))
        except TransportError:
            return pod
        if not response.ok:
            return None
        now = msgspec.json.decode(response.body, type=Pod)
        return now if now.metadata.uid == pod.metadata.uid else None


class Log(NamedTuple):
    """Log of one run of a container.

    It has the kept lines, the number of all lines, whether it is complete, and the number of restarts before the
    run.
    """

    lines: list[bytes]
    total: int
    over: bool
    restarts: int = 0


def container_log(pod: Pod, name: str, now: float, previous: bool = False) -> Log:
    """Return the log of a container at `now`; it has the last 10,000 regular lines."""
    spec = next(c for c in (*pod.spec.containers, *pod.spec.init_containers) if c.name == name)
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    status = next((s for s in statuses if s.name == name), ContainerStatus())
    terminated = status.last_state.terminated if previous else status.state.terminated
    running: dict[str, Any] | None = None if previous else status.state.running
    over = terminated is not None or pod.status.phase in ("Succeeded", "Failed")
    restarts = status.restart_count
    if previous and running_now(status):
        restarts -= 1
    if terminated is None and running is None:
        terminated = status.last_state.terminated
        if terminated is None:
            return Log([], 0, over, restarts)
        over = True
    started = epoch(terminated.started_at if terminated is not None else str((running or {}).get("startedAt"))) or now
    until = (epoch(terminated.finished_at) or now) if terminated is not None else now
    lines = [_line(started, text) for text in first_lines(pod, spec)]
    beats, left_out = _beats(pod, started, until)
    lines.extend(beats)
    if terminated is not None:
        lines.append(_line(until, f"exit code {terminated.exit_code} ({terminated.reason})"))
    return Log(lines, len(lines) + left_out, over, restarts)


def running_now(status: ContainerStatus) -> bool:
    """Return whether the last run precedes the current one.

    False when it is the run whose back-off is in progress.
    """
    return status.state.waiting is None


def first_lines(pod: Pod, container: Container) -> list[str]:
    """Return the lines that a container logs when it starts."""
    annotated = pod.metadata.annotations.get(names.SIM_LOG)
    if annotated is not None:
        return annotated.splitlines()
    echoed = [
        match[1].strip().strip("\"'") for match in _ECHO.finditer("\n".join((*container.command, *container.args)))
    ]
    return echoed or [command_line(container)]


def _beats(pod: Pod, started: float, until: float) -> tuple[list[bytes], int]:
    """Return the regular lines, and the number of lines dropped before them."""
    rate = _rate(pod.metadata.annotations.get(names.LOG_LINES_PER_SECOND))
    if rate <= 0:
        return [], 0
    count = math.floor(max(0.0, until - started) * rate)
    left_out = max(0, count - LINES_KEPT)
    numbers = range(left_out + 1, count + 1)
    return [_line(started + n / rate, f"running for {n / rate:g}s") for n in numbers], left_out


def _rate(text: str | None) -> float:
    """Return the lines per second: 1 unless annotated, 0 when the annotation is no number."""
    try:
        rate = float(text) if text is not None else 1.0
    except ValueError:
        return 0.0
    return rate if math.isfinite(rate) else 0.0


def _line(moment: float, text: str) -> bytes:
    stamp = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return f"{stamp} {text}".encode()
