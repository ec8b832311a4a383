"""Where a container really runs: the seam between a pod's life on a node and what carries its commands out.

Without a runtime a container's run is simulated: its length and end are computed (`behaviour`). A runtime, such as one
that starts local processes, is asked to begin each run and tells how it ended; all else (order of init containers,
restarts, back-off, deadlines, grace, status, events) stays the business of `lifecycle` and `fleet`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from volcanoio.localcluster.nodes.addresses import PodAddresses
from volcanoio.model import names
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod

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
    """How a run ended. `code` is the exit code, 128 + N for signal N; `reason` as a kubelet says it (`Completed`,
    `Error`, `OOMKilled`); empty takes the one of the code. `message` is the termination message.
    """

    code: int
    reason: str = ""
    message: str = ""


class StartError(Exception):
    """The run could not begin; the text says why. The container ends with exit code 128 and reason `StartError`."""


class Execution(Protocol):
    """A run that has begun."""

    async def wait(self) -> Exit:
        """Return when it has ended, whoever ended it. Awaited once, by one task; cancelling it ends nothing."""
        ...

    def terminate(self) -> None:
        """SIGTERM. The pod's grace period begins; no error when it has ended."""
        ...

    def kill(self) -> None:
        """SIGKILL to all of it; no error when it has ended."""
        ...


class Wanted(Protocol):
    """The part of the API server's LogOptions that is ours to follow."""

    @property
    def follow(self) -> bool:
        """Whether to go on until the container ends."""
        ...

    @property
    def previous(self) -> bool:
        """Whether the run before the present one is meant."""
        ...


class ContainerRuntime(Protocol):
    """Carries containers out. One for a fleet; its methods are called on the fleet's event loop."""

    name: str
    """What annotation and `containerID` call it: `process` gives `process://<pod uid>/<container>/<attempt>`."""

    addresses: PodAddresses
    """Where its pods get their addresses."""

    def objection(self, pod: Pod, container: str) -> str:
        """Why it cannot run this container, which is then simulated and the text told as a Warning; empty if it can.

        Asked once when the pod is taken in, before anything is started; must not block.
        """
        ...

    async def start(self, order: StartOrder) -> Execution:
        """Begin a run. May take its time: the container is shown as running from when it returns.

        Raises StartError. When cancelled (the pod is gone, the server ends) nothing may be left running.
        """
        ...

    async def forget(self, pod: Pod) -> None:
        """The pod is gone from the API and none of its runs is left: its directories and logs may go."""
        ...

    def read(
        self, namespace: str, pod_manifest: Manifest, container: str, options: Wanted
    ) -> AsyncIterator[list[bytes]]:
        """The container's log, as `apiserver.logs.LogSource.read` with its LogOptions."""
        ...


def wanted_runtime(pod: Pod, node_annotation: str, default: str) -> str:
    """Which runtime a pod asks for: its own annotation, else its node's, else the server's."""
    return pod.metadata.annotations.get(names.RUNTIME) or node_annotation or default
