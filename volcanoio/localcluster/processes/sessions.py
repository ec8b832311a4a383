"""exec and attach into containers that are processes (`apiserver.streams.remote.StreamSource`)."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import struct
import termios

from volcanoio.localcluster.apiserver.streams.remote import Channel, Outcome, Remote, StreamOptions
from volcanoio.localcluster.processes.execution import DRAIN_LIMIT
from volcanoio.localcluster.processes.launcher import Command, CommandNotStarted
from volcanoio.localcluster.processes.pipes import PipeEnd
from volcanoio.localcluster.processes.running_pod import LOCALHOST
from volcanoio.localcluster.processes.runtime import ProcessRuntime
from volcanoio.model.base import Manifest

_CHANNELS = {"stdout": Channel.STDOUT, "stderr": Channel.STDERR}
_END_OF_TRANSMISSION = b"\x04"


class ProcessSessions:
    """Streams of the containers of a runtime."""

    def __init__(self, runtime: ProcessRuntime) -> None:
        self._runtime = runtime
        self._closing: set[asyncio.Task[None]] = set()

    def refusal(self, pod: Manifest, container: str) -> str:
        """Return why a container has no streams; empty while its process runs."""
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        if self._runtime.find(uid, container) is not None:
            return ""
        if not self._runtime.knows(uid, container):
            return (
                f"container {container} in pod {name} has no process: it has not started, or it is simulated because "
                "it names no command or its pod asks for it (see kubectl describe pod)"
            )
        return f"container {container} in pod {name} is not running"

    def addresses(self, pod: Manifest) -> tuple[str, ...]:
        """Return the pod's own address, then that of processes that listen on localhost."""
        own = str((pod.get("status") or {}).get("podIP") or "")
        return (own, LOCALHOST) if self._runtime.runs(pod["metadata"]["uid"]) else ()

    async def execute(self, pod: Manifest, container: str, options: StreamOptions, remote: Remote) -> Outcome:
        """Run a command in addition to the container's own."""
        run = self._runtime.find(pod["metadata"]["uid"], container)
        if run is None:
            return Outcome(error=f"container {container} is not running")
        try:
            command = await self._runtime.execute(run, list(options.command), stdin=options.stdin, tty=options.tty)
        except CommandNotStarted as refused:
            return Outcome(error=f"error executing command in container: {refused}")
        streams = command.streams
        outputs = [asyncio.create_task(_carry_out(streams.stdout, Channel.STDOUT, remote))]
        if streams.stderr is not None:
            outputs.append(asyncio.create_task(_carry_out(streams.stderr, Channel.STDERR, remote)))
        others = _inputs(command, options, remote)
        try:
            code = await command.wait()
            await asyncio.wait(outputs, timeout=DRAIN_LIMIT)
            return Outcome(code)
        finally:  # this wait may itself be cancelled when the client disconnects
            closing = asyncio.create_task(command.aclose())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            await _cancelled(*outputs, *others)
            await asyncio.shield(closing)

    async def attach(self, pod: Manifest, container: str, options: StreamOptions, remote: Remote) -> Outcome:
        """Send the container's output from now on, and its input if it reads any."""
        run = self._runtime.find(pod["metadata"]["uid"], container)
        if run is None:
            return Outcome(error=f"container {container} is not running")
        output = run.attach()
        wanted = {"stdout": options.stdout, "stderr": options.stderr}
        others = _inputs(run.command, options, remote, closes=run.spec.stdin_once) if run.spec.stdin else []
        try:
            while (piece := await output.get()) is not None:
                stream, data = piece
                if wanted[stream]:
                    await remote.write(_CHANNELS[stream], data)
            return Outcome()
        finally:
            run.detach(output)
            await _cancelled(*others)


def _inputs(
    command: Command, options: StreamOptions, remote: Remote, *, closes: bool = True
) -> list[asyncio.Task[None]]:
    """Return the tasks that carry input and sizes to a command."""
    tasks = []
    stdin = command.streams.stdin
    if options.stdin and stdin is not None:
        tasks.append(asyncio.create_task(_carry_in(stdin, remote, tty=command.streams.stderr is None, closes=closes)))
    if options.tty:
        tasks.append(asyncio.create_task(_follow_size(command.streams.stdout, remote)))
    return tasks


async def _carry_out(end: PipeEnd, channel: Channel, remote: Remote) -> None:
    while data := await end.read():
        await remote.write(channel, data)


async def _carry_in(end: PipeEnd, remote: Remote, *, tty: bool, closes: bool) -> None:
    """Carry input to the command until the client has no more, then close it."""
    while data := await remote.read():
        if not await end.write(data):
            return
    if tty:
        await end.write(_END_OF_TRANSMISSION)
    elif closes:
        end.close()


async def _follow_size(end: PipeEnd, remote: Remote) -> None:
    while True:
        size = await remote.resized()
        with contextlib.suppress(OSError):
            fcntl.ioctl(end.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))


async def _cancelled(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
