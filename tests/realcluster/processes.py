"""Servers as child processes: started with a log file, waited for until they answer, and ended whatever happens."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

_POLL_SECONDS = 0.05
_STOP_SECONDS = 10
_LOG_LINES = 15


class FailedStartError(Exception):
    """A server ended, or did not answer in time; the message has the end of its log."""


class Server:
    """One running server."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self._log = log
        self._command = [*_ending_with_parent(), *command]
        log.unlink(missing_ok=True)
        self.start()

    def start(self) -> None:
        """Start the program, once more if it was stopped; its log is continued."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._log.parent,
                start_new_session=True,  # Ctrl-C reaches us alone, and we end the servers in order
            )

    @property
    def pid(self) -> int:
        """The process id of the program as it runs now."""
        return self._process.pid

    def wait(self, ready: Callable[[], bool], seconds: float) -> None:
        """Return when `ready` says so; fail when the server ends first or `seconds` have passed."""
        deadline = time.monotonic() + seconds
        while not ready():
            if self._process.poll() is not None:
                raise FailedStartError(f"{self.name} ended with exit code {self._process.returncode}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise FailedStartError(
                    f"{self.name} was not ready after {seconds:g} s; its log ends with:\n{self.tail()}"
                )
            time.sleep(_POLL_SECONDS)

    def tail(self) -> str:
        """The last lines of the log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-_LOG_LINES:])

    def stop(self, *, kill: bool = False) -> None:
        """End the whole process group: by SIGTERM, then by force; with `kill` by force at once."""
        if self._process.poll() is None:
            self._signal(signal.SIGKILL if kill else signal.SIGTERM)
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


@contextlib.contextmanager
def running(name: str, command: Sequence[str], log: Path) -> Iterator[Server]:
    """A server that ends with the block."""
    server = Server(name, command, log)
    try:
        yield server
    finally:
        server.stop()


def free_ports(count: int) -> list[int]:
    """Return free ports of the loopback address."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _ending_with_parent() -> list[str]:
    """What has the kernel end a command when this process dies, even of SIGKILL; nothing where that is unknown."""
    program = shutil.which("setpriv")
    return [program, "--pdeathsig", "TERM", "--"] if program else []
