"""One run of a container: its command, log, exit, memory limit, and startup and liveness probes.

Memory is read from `/proc` (Linux: `proc(5)`). Probes follow `pkg/kubelet/prober`; readiness is not probed, because
nothing here sends traffic to pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import structlog

from volcanoio.localcluster.nodes.container_runtime import Exit
from volcanoio.localcluster.processes.crilog import CriLog, read_log
from volcanoio.localcluster.processes.handlers import HookError
from volcanoio.localcluster.processes.launch.order import LaunchOrder
from volcanoio.localcluster.processes.launcher import Command
from volcanoio.localcluster.processes.pipes import PipeEnd
from volcanoio.model.base import Manifest

MEMORY_PERIOD = 0.5
"""Seconds between two looks at a container that has a limit."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PSS = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)
_PROC = Path("/proc")


def can_measure_memory() -> bool:
    """Return whether the kernel reports proportional memory."""
    return (_PROC / "self" / "statm").exists()


def resident_memory(pid: int) -> int:
    """Return the resident bytes of a process tree; shared pages count once for each process."""
    total = 0
    for one in process_tree(pid):
        try:
            total += int((_PROC / str(one) / "statm").read_bytes().split()[1]) * _PAGE
        except (OSError, IndexError):
            continue
    return total


def proportional_memory(pid: int) -> int:
    """Return the proportional bytes of a tree: a shared page counts in parts. Slower."""
    total = 0
    for one in process_tree(pid):
        try:
            found = _PSS.search((_PROC / str(one) / "smaps_rollup").read_bytes())
            total += int(found[1]) * 1024 if found else 0
        except OSError:
            continue
    return total


def exceeds_memory(pid: int, limit: int) -> bool:
    """Return whether a tree uses more than `limit` bytes."""
    return resident_memory(pid) > limit and proportional_memory(pid) > limit


def process_tree(pid: int) -> Iterator[int]:
    """Return a process and its descendants."""
    yield pid
    try:
        threads = os.listdir(_PROC / str(pid) / "task")  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return
    for thread in threads:
        try:
            children = (_PROC / str(pid) / "task" / thread / "children").read_bytes().split()
        except OSError:
            continue
        for child in children:
            yield from process_tree(int(child))


ProbeAttempt = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Carries a probe's handler out once. Raises HookError."""
Unhealthy = Callable[[str, str], None]
"""Called with each failure: the probe, and the error."""


class Timing(msgspec.Struct, frozen=True, rename="camel"):
    """Times of a probe, in seconds, and the number of failures in a row that counts."""

    initial_delay_seconds: float = 0.0
    period_seconds: float = 10.0
    timeout_seconds: float = 1.0
    failure_threshold: int = 3


async def failed_probe(container: Manifest, attempt: ProbeAttempt, unhealthy: Unhealthy) -> str:
    """Return the name of the probe that has failed too often: `Startup`, then `Liveness`.

    Never returns without one.
    """
    startup, liveness = container.get("startupProbe"), container.get("livenessProbe")
    if startup and not await _probe(startup, "Startup", attempt, unhealthy, until_success=True):
        return "Startup"
    if liveness:
        await _probe(liveness, "Liveness", attempt, unhealthy, until_success=False)
        return "Liveness"
    found: str = await asyncio.get_running_loop().create_future()
    return found


async def _probe(
    probe: Mapping[str, Any], name: str, attempt: ProbeAttempt, unhealthy: Unhealthy, *, until_success: bool
) -> bool:
    """Probe until it failed too often (False), or succeeded when that is enough (True)."""
    timing = msgspec.convert(dict(probe), Timing)
    failures = 0
    await asyncio.sleep(timing.initial_delay_seconds)
    while True:
        try:
            async with asyncio.timeout(timing.timeout_seconds):
                await attempt(probe)
            failures = 0
            if until_success:
                return True
        except (HookError, TimeoutError) as problem:
            failures += 1
            unhealthy(name, str(problem) or f"no answer within {timing.timeout_seconds:g}s")
            if failures >= timing.failure_threshold:
                return False
        await asyncio.sleep(timing.period_seconds)


_log = structlog.get_logger(__name__)
_MESSAGE_BYTES, _LOG_LINES, _LOG_BYTES = 4096, 80, 2048
"""Limits of a termination message, and of the end of a log that stands for one (Kubernetes: kuberuntime/helpers.go)."""
_ATTACHED_BACKLOG = 256
"""Pieces of output that wait for one who is attached, or will be."""
DRAIN_LIMIT = 2.0
"""Seconds that output may still come after the end, from processes that left the container's group."""


@dataclass(frozen=True)
class RunSpec:
    """Fields of a container that are needed while it runs.

    `memory_limit` in bytes, 0 for none. `termination_log` is the file of its termination message, `from_logs` says
    that the log's end stands in when it failed without one. `stdin_once` closes its input with the first who attached,
    who is shown what it has written before: `kubectl run -i` attaches later than a process begins.
    """

    order: LaunchOrder
    memory_limit: int = 0
    termination_log: Path | None = None
    from_logs: bool = False
    stdin: bool = False
    stdin_once: bool = False
    pre_stop: Callable[[], Awaitable[None]] | None = None
    labels: dict[str, str] = field(default_factory=dict)


class Run:
    """A started run (an Execution of the fleet)."""

    def __init__(self, spec: RunSpec, command: Command, log: CriLog) -> None:
        self.spec = spec
        self.command = command
        self.log = log
        self.ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._watchers: set[asyncio.Queue[tuple[str, bytes] | None]] = set()
        self._first: asyncio.Queue[tuple[str, bytes] | None] | None = None
        if spec.stdin_once:
            self._first = asyncio.Queue()
            self._watchers.add(self._first)
        self._out_of_memory = False
        self._stopping: asyncio.Task[None] | None = None
        self._task = asyncio.create_task(self._attend())
        self._watch: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether the execution has not ended."""
        return not self.ended.done()

    async def wait(self) -> Exit:
        """Wait for the end of the run and return its Exit."""
        return await asyncio.shield(self.ended)

    def terminate(self) -> None:
        """Run its preStop hook, then send SIGTERM to its first process."""
        if self.spec.pre_stop is None:
            self.command.send(signal.SIGTERM)
        elif self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(self.spec.pre_stop))

    async def _stop(self, hook: Callable[[], Awaitable[None]]) -> None:
        try:
            await hook()
        finally:
            self.command.send(signal.SIGTERM)

    def watch(self, probes: Coroutine[Any, Any, None]) -> None:
        """Start `probes` as a task, unless the container has ended."""
        if self.running:
            self._watch = asyncio.create_task(probes)
        else:
            probes.close()

    def kill(self) -> None:
        """Send SIGKILL to all of its processes."""
        self.command.send(signal.SIGKILL)

    def attach(self) -> asyncio.Queue[tuple[str, bytes] | None]:
        """Return a queue of output from now on, as (stream, bytes); None at the end.

        Release the queue with `detach`.

        Who is the first to attach to a container with `stdin_once` sees it from its beginning.
        """
        if self._first is not None:
            first, self._first = self._first, None
            return first
        queue: asyncio.Queue[tuple[str, bytes] | None] = asyncio.Queue()
        if self.running:
            self._watchers.add(queue)
        else:
            queue.put_nowait(None)
        return queue

    def detach(self, queue: asyncio.Queue[tuple[str, bytes] | None]) -> None:
        """Stop sending output to the queue."""
        self._watchers.discard(queue)

    async def aclose(self) -> None:
        """Kill the container, and return when none of its processes is left."""
        self.command.abandon()
        await self._task

    async def _attend(self) -> None:
        """Copy output to the log until the end."""
        streams = self.command.streams
        pumps = [asyncio.create_task(self._pump("stdout", streams.stdout))]
        if streams.stderr is not None:
            pumps.append(asyncio.create_task(self._pump("stderr", streams.stderr)))
        guard = asyncio.create_task(self._guard()) if self.spec.memory_limit and can_measure_memory() else None
        code = await self.command.wait()
        if guard is not None:
            guard.cancel()
        for task in (self._stopping, self._watch):
            if task is not None:
                task.cancel()
        _, late = await asyncio.wait(pumps, timeout=DRAIN_LIMIT)
        for pump in late:
            pump.cancel()
        streams.close()
        with contextlib.suppress(OSError):
            self.log.end()
        self.ended.set_result(self._ended(code))
        for queue in self._watchers:
            queue.put_nowait(None)

    async def _pump(self, name: str, end: PipeEnd) -> None:
        while data := await end.read():
            try:
                self.log.write(name, data)
            except OSError as error:  # a full disk must not block a container
                _log.warning("log not written", log=str(self.log.path), error=str(error))
            for queue in self._watchers:
                if queue.qsize() < _ATTACHED_BACKLOG:  # a slower reader misses output and does not block the container
                    queue.put_nowait((name, data))

    async def _guard(self) -> None:
        """End the container when it uses more memory than its limit."""
        while True:
            if await asyncio.to_thread(exceeds_memory, self.command.pid, self.spec.memory_limit):
                self._out_of_memory = True
                self.kill()
                return
            await asyncio.sleep(MEMORY_PERIOD)

    def _ended(self, code: int) -> Exit:
        reason = "OOMKilled" if self._out_of_memory else "Completed" if code == 0 else "Error"
        return Exit(code, reason, self._message(code))

    def _message(self, code: int) -> str:
        file = self.spec.termination_log
        data = b""
        if file is not None:
            with contextlib.suppress(OSError), file.open("rb") as opened:
                data = opened.read(_MESSAGE_BYTES)
        if not data and code and self.spec.from_logs:
            lines = [line.partition(b" ")[2] for line in read_log(self.log.path)[-_LOG_LINES:]]
            data = b"\n".join(lines)[-_LOG_BYTES:]
        return data.decode(errors="replace")
