"""Start of one command in its namespaces through the launcher process, signals to it, and its end.

`find_namespaces` returns which namespaces this machine allows.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import structlog

from volcanoio.localcluster.processes.launch.order import CONTROL_FD, NONE, ROOT, USER, LaunchOrder
from volcanoio.localcluster.processes.pipes import PipeEnd

_PACKAGE_ROOT = str(Path(__file__).resolve().parents[3])
_SHIM = (
    f"import os, sys; os.dup2(int(sys.argv[2]), {CONTROL_FD}); sys.path.insert(0, sys.argv[1]); "
    "from volcanoio.localcluster.processes.launch.shim import main; main()"
)
_LINKER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""What the interpreter itself may need to start."""


class CommandNotStarted(Exception):  # noqa: N818 - named for what happened
    """The command could not be started.

    The text contains the reason. `code` is the exit code of a shell (126, 127), or 1.
    """

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Streams:
    """Our ends of a command's standard streams; a terminal has no error stream of its own."""

    stdin: PipeEnd | None
    stdout: PipeEnd
    stderr: PipeEnd | None

    def close(self) -> None:
        """Close all streams."""
        for end in (self.stdin, self.stdout, self.stderr):
            if end is not None:
                end.close()


class Command:
    """A started command."""

    def __init__(self, launcher: subprocess.Popen[bytes], control: _Control, pid: int, streams: Streams) -> None:
        self._launcher = launcher
        self._control = control
        self.pid = pid
        self.streams = streams
        self.code: int | None = None
        """Exit code once it has ended, 128 + N for signal N."""

    async def wait(self) -> int:
        """Return the exit code, 128 + N for signal N; 137 when the launcher was killed.

        Awaited by one task.
        """
        if self.code is None:
            said = await self._control.receive()
            self._control.close()
            await _reaped(self._launcher)
            status = said.get("exited", int(signal.SIGKILL))
            code = os.waitstatus_to_exitcode(status)
            self.code = code if code >= 0 else 128 - code
        return self.code

    def send(self, number: int) -> None:
        """Send the command a signal; no error when it has ended."""
        self._control.send({"signal": int(number)})

    async def aclose(self) -> None:
        """Kill the command if it runs, and return when none of its processes is left.

        Do not call it during `wait`.
        """
        self.abandon()
        await self.wait()
        self.streams.close()

    def abandon(self) -> None:
        """Kill the command without waiting; its launcher does so when its control socket closes."""
        self._control.hang_up()


async def start(order: LaunchOrder, *, stdin: bool = False) -> Command:
    """Start a command; with `order.tty` its streams are a terminal. Raises CommandNotStarted.

    Cancelled half-way, it leaves nothing running.
    """
    try:
        ours, theirs = socket.socketpair()
    except OSError as error:  # too many open files
        raise CommandNotStarted(f"its launcher cannot be started: {error}", 1) from error
    control = _Control(ours)
    launcher: subprocess.Popen[bytes] | None = None
    streams: Streams | None = None
    try:
        launcher, streams = _spawn(order, theirs, stdin=stdin)
        theirs.close()
        await control.send_all(order.to_json())
        said = await control.receive()
        if "pid" not in said:
            await _reaped(launcher)
            raise CommandNotStarted(said.get("failed", "its launcher was killed"), said.get("code", 1))
        return Command(launcher, control, said["pid"], streams)
    except BaseException as error:
        control.close()  # the launcher kills what it has started
        theirs.close()
        if streams is not None:
            streams.close()
        if launcher is not None and launcher.returncode is None:
            launcher.wait()
        if isinstance(error, OSError):
            raise CommandNotStarted(f"its launcher cannot be started: {error}", 1) from error
        raise


def _spawn(order: LaunchOrder, theirs: socket.socket, *, stdin: bool) -> tuple[subprocess.Popen[bytes], Streams]:
    """Return the launcher, and our ends of the command's standard streams. Raises OSError."""
    ours: list[int] = []
    child: list[int] = []
    try:
        if order.tty:
            master, slave = os.openpty()
            ours += [os.dup(master), master]  # one to write to, one to read from
            child += [slave, slave, slave]
        else:
            if stdin:
                reading, writing = os.pipe()
                child.append(reading)
                ours.append(writing)
            else:
                child.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            for _ in range(2):
                reading, writing = os.pipe()
                ours.append(reading)
                child.append(writing)
        launcher = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _SHIM, _PACKAGE_ROOT, str(theirs.fileno())],
            stdin=child[0], stdout=child[1], stderr=child[2], pass_fds=[theirs.fileno()], cwd="/",
            env={name: os.environ[name] for name in _LINKER if name in os.environ}, start_new_session=True,
        )  # fmt: skip
    except BaseException:
        for descriptor in ours:
            os.close(descriptor)
        raise
    finally:
        for descriptor in set(child):
            os.close(descriptor)
    ends = [PipeEnd(descriptor) for descriptor in ours]
    if order.tty:
        return launcher, Streams(ends[0], ends[1], None)
    return launcher, Streams(ends[0] if stdin else None, ends[-2], ends[-1])


class _Control:
    """Our end of a launcher's control socket: one JSON document a line."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._buffer = b""

    async def send_all(self, document: dict[str, Any]) -> None:
        """Send a document of any length; an error appears when the answer is awaited."""
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().sock_sendall(self._end, msgspec.json.encode(document) + b"\n")

    def send(self, document: dict[str, Any]) -> None:
        """Send a short document without waiting; does nothing when the launcher is gone."""
        with contextlib.suppress(OSError):
            self._end.send(msgspec.json.encode(document) + b"\n")

    async def receive(self) -> dict[str, Any]:
        """Return the next document; empty when the launcher is gone."""
        while b"\n" not in self._buffer:
            try:
                chunk = await asyncio.get_running_loop().sock_recv(self._end, 65536)
            except OSError:
                return {}
            if not chunk:
                return {}
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        document: dict[str, Any] = msgspec.json.decode(line)
        return document

    def hang_up(self) -> None:
        """Shut the socket down, which ends the launcher's and our own reads."""
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket."""
        self._end.close()


async def _reaped(launcher: subprocess.Popen[bytes]) -> None:
    """Wait for the ending launcher."""
    while launcher.poll() is None:  # noqa: ASYNC110 - a matter of a millisecond: its control socket is closed
        await asyncio.sleep(0.002)


_log = structlog.get_logger(__name__)


async def find_namespaces(root: Path) -> str:
    """Return the best available kind of namespaces: ROOT, USER, or NONE.

    `root` is an empty directory.

    It is tried out with a command that does nothing.
    """
    if sys.platform != "linux":
        return NONE
    for kind in (ROOT, USER) if os.geteuid() == 0 else (USER,):
        order = LaunchOrder(
            argv=["true"], env={"PATH": os.environ.get("PATH", os.defpath)}, namespaces=kind, root=str(root)
        )
        try:
            command = await start(order)
        except CommandNotStarted as refused:
            _log.info("no namespaces", kind=kind, error=str(refused))
            continue
        await command.wait()
        command.streams.close()
        return kind
    return NONE
