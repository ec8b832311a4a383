"""Containers that a runtime executes: start orders, signals and reported ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from anyio.abc import TaskGroup

from volcanoio.localcluster.nodes.addresses import PodAddresses
from volcanoio.localcluster.nodes.container_runtime import ContainerRuntime, Execution, Exit, StartError, StartOrder
from volcanoio.localcluster.nodes.pods.containers import ContainerRun
from volcanoio.localcluster.nodes.pods.podrun import PodRun
from volcanoio.model.core import Pod

START_ERROR = 128
"""The exit code of a container that could not begin (Kubernetes: reason `StartError`)."""


@dataclass(slots=True)
class ExecutedPod:
    """A pod that a container runtime runs.

    `left` counts orders that have not ended, `over` is set when the pod is deleted.
    """

    pod: Pod
    runtime: ContainerRuntime
    running: dict[str, Execution] = field(default_factory=dict)
    left: int = 0
    over: bool = False


class Executions:
    """All runs of container runtimes.

    `on_change` is called with a pod's uid, a container, and its Exit or None for a start.
    """

    def __init__(
        self, runtimes: Mapping[str, ContainerRuntime], default: str, on_change: Callable[[str, str, Exit | None], None]
    ) -> None:
        self.runtimes = runtimes
        self.default = default
        self.active = 0
        self._on_change = on_change
        self._pods: dict[str, ExecutedPod] = {}
        self._tasks: TaskGroup | None = None

    def use(self, tasks: TaskGroup) -> None:
        """Set where orders run."""
        self._tasks = tasks

    def take_in(self, pod: Pod, runtime: ContainerRuntime) -> None:
        """Assign a pod to this runtime."""
        self._pods[pod.metadata.uid] = ExecutedPod(pod, runtime)

    def scheme(self, uid: str) -> str:
        """Return the prefix of a pod's container ids; empty for a simulated pod."""
        carried = self._pods.get(uid)
        return carried.runtime.name if carried is not None else ""

    def addresses(self, uid: str) -> PodAddresses | None:
        """Return the source of a pod's address; None for a simulated pod."""
        carried = self._pods.get(uid)
        return carried.runtime.addresses if carried is not None else None

    def follow(self, before: PodRun | None, after: PodRun, node: str) -> None:
        """Execute the orders of a transition: start, terminate, kill."""
        carried = self._pods.get(after.pod.metadata.uid)
        if carried is None:
            return
        for index, c in enumerate(after.containers):
            old = before.containers[index] if before is not None and before.containers else None
            if not c.external or old is c:
                continue
            if c.starting and not (old is not None and old.starting):
                self._order(carried, after, c, node)
            execution = carried.running.get(c.spec.name)
            if c.stop is None or execution is None:
                continue
            was = old.stop if old is not None else None
            if c.stop.killed and not (was is not None and was.killed):
                execution.kill()
            elif c.stop.signalled and not (was is not None and was.signalled):
                execution.terminate()

    def forget(self, uid: str) -> None:
        """Kill what is left of a pod that was deleted."""
        carried = self._pods.pop(uid, None)
        if carried is None:
            return
        carried.over = True
        for execution in carried.running.values():
            execution.kill()
        if not carried.left and self._tasks is not None:
            self._tasks.start_soon(carried.runtime.forget, carried.pod)

    def _order(self, carried: ExecutedPod, run: PodRun, container: ContainerRun, node: str) -> None:
        assert self._tasks is not None, "orders are given while the fleet runs"
        order = StartOrder(
            pod=run.pod,
            container=container.spec.name,
            attempt=container.restarts + (container.last is not None),
            node=node,
            host_ip=run.host_ip,
            pod_ip=run.pod_ip,
        )
        carried.left += 1
        self.active += 1
        self._tasks.start_soon(self._carry_out, carried, order)

    async def _carry_out(self, carried: ExecutedPod, order: StartOrder) -> None:
        uid, name = order.pod.metadata.uid, order.container
        try:
            how = await self._ended(carried, order)
        finally:
            carried.left -= 1
            self.active -= 1
        if not carried.over:
            self._on_change(uid, name, how)
        elif not carried.left:
            await carried.runtime.forget(carried.pod)

    async def _ended(self, carried: ExecutedPod, order: StartOrder) -> Exit:
        try:
            execution = await carried.runtime.start(order)
        except StartError as error:
            return Exit(START_ERROR, "StartError", str(error))
        carried.running[order.container] = execution
        try:
            if carried.over:
                execution.kill()
            else:
                self._on_change(order.pod.metadata.uid, order.container, None)
            return await execution.wait()
        except asyncio.CancelledError:
            execution.kill()
            raise
        finally:
            carried.running.pop(order.container, None)
