"""A run of a container: its command, its log, its memory limit, and how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from volcanoio.localcluster.nodes.runtime import Exit
from volcanoio.localcluster.processes import memory
from volcanoio.localcluster.processes.command import Command
from volcanoio.localcluster.processes.crilog import CriLog, read_log
from volcanoio.localcluster.processes.launch.order import LaunchOrder
from volcanoio.localcluster.processes.pipes import PipeEnd

_log = structlog.get_logger(__name__)
_MESSAGE_BYTES, _LOG_LINES, _LOG_BYTES = 4096, 80, 2048
"""Limits of a termination message, and of the end of a log that stands for one (Kubernetes: kuberuntime/helpers.go)."""
_ATTACHED_BACKLOG = 256
"""Pieces of output that wait for one who is attached, or will be."""
DRAIN_LIMIT = 2.0
"""Seconds that output may still come after the end, from processes that left the container's group."""


@dataclass(frozen=True)
class RunSpec:
    """What of a container is needed while it runs.

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
        """Whether it has not ended."""
        return not self.ended.done()

    async def wait(self) -> Exit:
        """How it ended, once it has."""
        return await asyncio.shield(self.ended)

    def terminate(self) -> None:
        """Its preStop hook, then SIGTERM to its first process."""
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
        """Run this beside it until it ends."""
        if self.running:
            self._watch = asyncio.create_task(probes)
        else:
            probes.close()

    def kill(self) -> None:
        """SIGKILL to all of it."""
        self.command.send(signal.SIGKILL)

    def attach(self) -> asyncio.Queue[tuple[str, bytes] | None]:
        """Its output from now on, as (stream, bytes); None at the end. Give the queue back with `detach`.

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
        """Send no more output there."""
        self._watchers.discard(queue)

    async def aclose(self) -> None:
        """Kill it, and return when nothing of it is left."""
        self.command.abandon()
        await self._task

    async def _attend(self) -> None:
        """Carry output to the log until the end."""
        streams = self.command.streams
        pumps = [asyncio.create_task(self._pump("stdout", streams.stdout))]
        if streams.stderr is not None:
            pumps.append(asyncio.create_task(self._pump("stderr", streams.stderr)))
        guard = asyncio.create_task(self._guard()) if self.spec.memory_limit and memory.measurable() else None
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
            except OSError as error:  # a full disk holds no container up
                _log.warning("log not written", log=str(self.log.path), error=str(error))
            for queue in self._watchers:
                if queue.qsize() < _ATTACHED_BACKLOG:  # who is slower misses some, and does not hold the container up
                    queue.put_nowait((name, data))

    async def _guard(self) -> None:
        """End the container when it holds more memory than it may."""
        while True:
            if await asyncio.to_thread(memory.exceeds, self.command.pid, self.spec.memory_limit):
                self._out_of_memory = True
                self.kill()
                return
            await asyncio.sleep(memory.PERIOD)

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
