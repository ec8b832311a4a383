"""`ProcessRuntime`: containers of a fleet's pods as local processes (`nodes.container_runtime.ContainerRuntime`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import structlog

from volcanoio.kube.transport import Transport, TransportError
from volcanoio.localcluster.clock import Clock
from volcanoio.localcluster.nodes.addresses import pod_addresses
from volcanoio.localcluster.nodes.container_runtime import LogSelection, StartError, StartOrder
from volcanoio.localcluster.nodes.pod_events import KubeletEvents, PodEvent
from volcanoio.localcluster.processes import launcher
from volcanoio.localcluster.processes.container_spec import Images, Machine, PreparedPod, launch_order, memory_limit
from volcanoio.localcluster.processes.crilog import CriLog, read_log
from volcanoio.localcluster.processes.execution import Run, RunSpec, failed_probe
from volcanoio.localcluster.processes.handlers import HookError, collect, run_hook
from volcanoio.localcluster.processes.hosts import HostsFiles
from volcanoio.localcluster.processes.launch.order import NONE, LaunchOrder
from volcanoio.localcluster.processes.launcher import Command, CommandNotStarted, find_namespaces
from volcanoio.localcluster.processes.refresh import Refresher, keep_to_owner, remove_stale_directories
from volcanoio.localcluster.processes.running_pod import RunningPod, host_of, with_addresses
from volcanoio.localcluster.processes.sandbox import Sandbox
from volcanoio.localcluster.processes.sources import FieldError, Missing, SourceReader, containers_of
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.kinds import POD

NAME = "process"
_LOOK_AGAIN = 0.5
"""Seconds until something that was missing is looked for again."""
_log = structlog.get_logger(__name__)


class ProcessRuntime:
    """Runtime that starts containers as processes of this user on this machine.

    Each has its own view of the file system.

    `state` is the directory for volumes and logs. It serves within `running`; all it started has ended when that
    does.
    """

    name = NAME

    def __init__(self, transport: Transport, clock: Clock, state: Path, images: Images | None = None) -> None:
        self.addresses = pod_addresses()
        self._clock = clock
        self._state = state = state.absolute()
        self._sources = SourceReader(transport)
        self._events = KubeletEvents(transport, clock)
        self._machine = Machine(NONE, state / "root", images or Images())
        self._pods: dict[str, RunningPod] = {}
        self._hosts = HostsFiles()
        self._upkeep = Refresher(self._sources, self._hosts, self._pods)

    @property
    def namespaces(self) -> str:
        """How containers are isolated: `root`, `user` or `none` (`launch.order`)."""
        return self._machine.namespaces

    def serve_api_at(self, host: str, port: int) -> None:
        """Set the API server's address for containers started from now on."""
        self._machine = replace(self._machine, api_host=host, api_port=port)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve until the block ends, then end all started processes."""
        self._machine.root.mkdir(parents=True, exist_ok=True)
        keep_to_owner(self._state)
        self._machine = replace(self._machine, namespaces=await find_namespaces(self._machine.root))
        listed = await self._found(POD.path()) or {}
        known = frozenset(one["metadata"]["uid"] for one in listed.get("items") or ())
        await asyncio.to_thread(remove_stale_directories, self._state, known)
        tasks = [asyncio.create_task(self._events.run()), asyncio.create_task(self._upkeep.run())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            with anyio.CancelScope(shield=True):
                runs = [run.aclose() for held in self._pods.values() for run in held.runs.values()]
                await asyncio.gather(*tasks, *runs, return_exceptions=True)

    # Methods for the fleet.

    def objection(self, pod: Pod, container: str) -> str:
        """Return why a container is simulated: a command can be run, an image cannot."""
        spec = next(c for c in (*pod.spec.containers, *pod.spec.init_containers) if c.name == container)
        if spec.command or self._machine.images.entrypoint(spec.image):
            return ""
        return (
            f"Container {container} names no command, and images are not run: it is simulated. Give it a command, or "
            f"start the cluster with --run-image '{spec.image or 'IMAGE'}=COMMAND'"
        )

    async def start(self, order: StartOrder) -> Run:
        """Start a run; waits, as a kubelet does, for the sources of its variables and volumes."""
        uid = order.pod.metadata.uid
        held = await self._held(order)
        container = next(one for one in containers_of(held.manifest) if one["name"] == order.container)
        async with held.lock:
            launch = await self._prepared(order, held, container)
        if self.namespaces == NONE and order.attempt == 0:
            self._report(order, "Warning", "NoNamespaces", _NO_NAMESPACES)
        run = held.runs[order.container] = await self._launched(order, held, launch)
        run.ended.add_done_callback(lambda _: self._end_run(uid))
        try:
            await self._post_start(order, held, container, run)
        except BaseException:
            await asyncio.shield(run.aclose())
            raise
        if container.get("startupProbe") or container.get("livenessProbe"):
            run.watch(self._watch(order, held, container, run))
        return run

    async def forget(self, pod: Pod) -> None:
        """Remove the files of a deleted pod."""
        held = self._pods.pop(pod.metadata.uid, None)
        if held is not None:
            self._hosts.remove(pod.metadata.uid)
            await asyncio.gather(*[run.aclose() for run in held.runs.values()])
        await asyncio.to_thread(Sandbox(self._state, pod.metadata.uid).remove)

    async def read(
        self, namespace: str, pod_manifest: Manifest, container: str, options: LogSelection
    ) -> AsyncIterator[list[bytes]]:
        """Return a container's log (`apiserver.streams.pod_connections.LogSource`)."""
        del namespace
        uid = pod_manifest["metadata"]["uid"]
        attempt = attempt_of(pod_manifest, container, previous=options.previous)
        held = self._pods.get(uid)
        run = held.runs.get(container) if held is not None else None
        path = Sandbox(self._state, uid).log(container, attempt)
        if options.follow and run is not None and run.running and run.log.path == path:
            async for lines in run.log.follow():
                yield lines
        else:
            yield await asyncio.to_thread(read_log, path)

    # Methods for exec and attach.

    def find(self, uid: str, container: str) -> Run | None:
        """Return the run of a container, if it is running."""
        held = self._pods.get(uid)
        run = held.runs.get(container) if held is not None else None
        return run if run is not None and run.running else None

    def runs(self, uid: str) -> bool:
        """Return whether any process of a pod runs."""
        held = self._pods.get(uid)
        return held is not None and held.running

    def knows(self, uid: str, container: str) -> bool:
        """Return whether the runtime ever ran this container."""
        held = self._pods.get(uid)
        return held is not None and container in held.runs

    async def execute(self, run: Run, argv: list[str], *, stdin: bool, tty: bool) -> Command:
        """Start another command in a running container. Raises CommandNotStarted."""
        order = run.spec.order
        environment = order.env | ({"TERM": "xterm"} if tty and "TERM" not in order.env else {})
        enter = 0 if order.namespaces == NONE else run.command.pid
        return await launcher.start(order._replace(argv=argv, env=environment, tty=tty, enter=enter), stdin=stdin)

    # Internal steps.

    async def _held(self, order: StartOrder) -> RunningPod:
        """Return the pod, with its manifest and the addresses it will have."""
        meta = order.pod.metadata
        manifest = await self._found(POD.path(meta.namespace, meta.name))
        if manifest is None or manifest["metadata"]["uid"] != meta.uid:
            raise StartError("the pod is gone")
        manifest = with_addresses(manifest, order.pod_ip, order.host_ip)
        held = self._pods.get(meta.uid)
        if held is None:
            held = self._pods[meta.uid] = RunningPod(manifest, Sandbox(self._state, meta.uid))
        held.manifest = manifest
        return held

    async def _found(self, path: str) -> Manifest | None:
        while True:
            try:
                return await self._sources.get(path)
            except TransportError as error:
                _log.info("look again", path=path, error=str(error))
                await asyncio.sleep(_LOOK_AGAIN)

    async def _prepared(self, order: StartOrder, held: RunningPod, container: Manifest) -> RunSpec:
        """Wait until the container can be launched. Raises StartError for a permanent failure."""
        reported = ""
        while True:
            problem = ""
            try:
                sources = await self._upkeep.read(held)
                volumes = await asyncio.to_thread(held.sandbox.prepare, held.manifest, sources)
                launch = launch_order(
                    PreparedPod(held.manifest, sources, volumes, held.sandbox), container, self._machine
                )
                return self._spec(held, container, launch)
            except Missing as missing:
                problem = f"Error: {missing}"
            except TransportError as error:
                _log.info("look again", pod=order.pod.metadata.key, error=str(error))
            except (FieldError, OSError, ValueError) as error:
                raise StartError(str(error)) from None
            if problem and problem != reported:
                reported = problem
                self._report(order, "Warning", "Failed", problem)
            await asyncio.sleep(_LOOK_AGAIN)

    async def _launched(self, order: StartOrder, held: RunningPod, launch: RunSpec) -> Run:
        """Return the run, with its log and its names on the network.

        Raises StartError, also for a full disk and the like.
        """
        uid = order.pod.metadata.uid
        log: CriLog | None = None
        try:
            log = CriLog(held.sandbox.log(order.container, order.attempt), self._clock.now)
            self._hosts.add(uid, host_of(held.manifest), held.sandbox.hosts)
            return Run(launch, await launcher.start(launch.order, stdin=launch.stdin), log)
        except BaseException as error:
            if log is not None:
                with suppress(OSError):
                    log.end()
            self._end_run(uid)
            if isinstance(error, CommandNotStarted | OSError):
                raise StartError(str(error)) from None
            raise

    def _spec(self, held: RunningPod, container: Manifest, launch: LaunchOrder) -> RunSpec:
        hook = (container.get("lifecycle") or {}).get("preStop")
        name = container["name"]
        return RunSpec(
            launch,
            memory_limit=memory_limit(container),
            termination_log=None if self.namespaces == NONE else held.sandbox.path / "termination" / name,
            from_logs=container.get("terminationMessagePolicy") == "FallbackToLogsOnError",
            stdin=bool(container.get("stdin")),
            stdin_once=bool(container.get("stdinOnce")),
            pre_stop=None if hook is None or "sleep" in hook else partial(self._pre_stop, held, container, hook),
        )

    async def _post_start(self, order: StartOrder, held: RunningPod, container: Manifest, run: Run) -> None:
        hook = (container.get("lifecycle") or {}).get("postStart")
        if hook is None:
            return
        try:
            await run_hook(hook, partial(self._run_in, run), container, held.address)
        except HookError as failed:
            self._report(order, "Warning", "FailedPostStartHook", f"PostStartHook failed: {failed}")
            run.kill()

    async def _watch(self, order: StartOrder, held: RunningPod, container: Manifest, run: Run) -> None:
        """End a container whose startup or liveness probe fails too often.

        The restart policy decides what follows.
        """
        name = await failed_probe(
            container,
            lambda probe: run_hook(probe, partial(self._run_in, run), container, held.address),
            lambda probe, how: self._report(order, "Warning", "Unhealthy", f"{probe} probe failed: {how}"),
        )
        self._report(order, "Normal", "Killing", f"Container {order.container} failed {name.lower()} probe")
        run.terminate()
        grace = order.pod.spec.termination_grace_period_seconds
        await asyncio.sleep(30.0 if grace is None else float(grace))
        run.kill()

    async def _pre_stop(self, held: RunningPod, container: Manifest, hook: Mapping[str, Any]) -> None:
        run = held.runs[container["name"]]
        try:
            await run_hook(hook, partial(self._run_in, run), container, held.address)
        except HookError as failed:
            _log.warning("preStop hook failed", pod=held.manifest["metadata"]["name"], error=str(failed))

    async def _run_in(self, run: Run, argv: list[str]) -> tuple[int, bytes]:
        """Run a command in a container to its end; returns its exit code and output."""
        try:
            started = await self.execute(run, argv, stdin=False, tty=False)
        except CommandNotStarted as refused:
            raise HookError(str(refused)) from None
        return await collect(started)

    def _end_run(self, uid: str) -> None:
        """End a run of the pod; its names are removed with the last run."""
        held = self._pods.get(uid)
        if held is not None and not held.running:
            self._hosts.remove(uid)

    def _report(self, order: StartOrder, kind: str, reason: str, message: str) -> None:
        self._events.record_pod(order.pod, order.node, PodEvent(kind, reason, message))


_NO_NAMESPACES = (
    "This machine gives no mount namespace: volumes are shown below $VOLCANOIO_MOUNT_ROOT only, mount paths in the "
    "command and variables are rewritten to it, and the names of other pods do not resolve"
)


def attempt_of(pod: Manifest, container: str, *, previous: bool) -> int:
    """Return the run that a log request means, by the container ids of its status."""
    status = pod.get("status") or {}
    states = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    one: Manifest = next((one for one in states if one["name"] == container), {})
    last = ((one.get("lastState") or {}).get("terminated") or {}).get("containerID", "")
    waiting = "waiting" in (one.get("state") or {})
    identifier = last if previous or waiting else one.get("containerID", "")
    number = identifier.rpartition("/")[2]
    return int(number) if number.isdigit() else 0
