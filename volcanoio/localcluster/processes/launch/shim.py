"""The launcher: starts one command in its namespaces, reports how it ended, and ends it when the server is gone.

It stays as the command's parent. Its control socket carries one JSON document a line: the LaunchOrder to it, then
`{"pid"}` or `{"failed", "code"}` from it, `{"signal"}` to it at any time, and `{"exited"}` (a wait status) at the end.
The end of that socket means that the server is gone, however it went: everything is killed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import socket
import termios
from typing import Any, NoReturn

from volcanoio.localcluster.processes.launch import rootfs, syscalls
from volcanoio.localcluster.processes.launch.order import CONTROL_FD, NONE, USER, LaunchOrder

NOT_FOUND, NOT_EXECUTABLE = 127, 126
_NEW = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID | syscalls.CLONE_NEWUTS


def main() -> None:
    """Serve one command, then end."""
    control = socket.socket(fileno=CONTROL_FD)
    control.set_inheritable(False)
    lines = _Lines(control)
    first = lines.next()
    if first is None:
        os._exit(1)
    order = LaunchOrder.of(first)
    try:
        if order.namespaces == NONE:
            syscalls.adopt_orphans()
        _into_namespaces(order)
        reading, writing = os.pipe()
        child = os.fork()
    except OSError as error:
        _report(control, failed=str(error), code=1)
        os._exit(1)
    if child == 0:
        _become(order, writing)
    os.close(writing)
    problem = os.read(reading, 4096)
    if problem:
        os.waitpid(child, 0)
        code, _, text = problem.decode().partition(" ")
        _report(control, failed=text, code=int(code))
        os._exit(1)
    os.close(reading)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    _report(control, pid=child)
    _attend(
        lines, _Child(child, contained=order.namespaces != NONE and not order.enter, alone=order.namespaces == NONE)
    )


def _into_namespaces(order: LaunchOrder) -> None:
    """Join or create the namespaces for the child of this process."""
    if order.enter:
        kinds = ("user", "mnt", "uts", "pid")
        both = [(_namespace(order.enter, kind), _namespace("self", kind)) for kind in kinds]
        for theirs, own in both:  # open all before joining the first, which changes /proc
            if not os.path.sameopenfile(theirs, own):  # a process cannot join the user namespace that it is in
                syscalls.setns(theirs)
    elif order.namespaces != NONE:
        uid, gid = os.getuid(), os.getgid()
        syscalls.unshare(_NEW | (syscalls.CLONE_NEWUSER if order.namespaces == USER else 0))
        if order.namespaces == USER:
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/uid_map", f"0 {uid} 1")
            _write("/proc/self/gid_map", f"0 {gid} 1")


def _namespace(process: int | str, kind: str) -> int:
    return os.open(f"/proc/{process}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)


def _become(order: LaunchOrder, report: int) -> NoReturn:
    """Execute the command; a failure is written to `report` as an exit code and a text."""
    problem = ""
    try:
        problem = _prepare(order)
    except BaseException as error:  # reported to the server, whatever it is
        problem = f"1 {error}"
    if not problem:
        try:
            os.execvpe(order.argv[0], order.argv, order.env)
        except OSError as error:
            code = NOT_EXECUTABLE if error.errno in (errno.EACCES, errno.ENOEXEC) else NOT_FOUND
            problem = f"{code} {_unexecutable(order.argv[0], error)}"
        except ValueError as error:  # a NUL in an argument or variable
            problem = f"{NOT_FOUND} {error}"
    os.write(report, problem.encode()[:4096])
    os._exit(1)


def _prepare(order: LaunchOrder) -> str:
    """Prepare the process for the command; returns the error of its working directory.

    Raises OSError.
    """
    os.setsid()
    os.umask(0o022)
    if order.tty:
        _control_terminal()
    if order.namespaces != NONE and not order.enter:
        rootfs.enter(order.root, order.mounts)
        if order.hostname:
            syscalls.sethostname(order.hostname)
    reached = _go_to(order.cwd) is None  # as our user: the container's user may have no access to directories above it
    _change_user(order)
    syscalls.die_with_parent(signal.SIGKILL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    problem = None if reached else _go_to(order.cwd)  # or our user has none, as root on some network file systems
    return f"{NOT_FOUND} working directory {json.dumps(order.cwd)}: {problem}" if problem else ""


def _go_to(directory: str) -> str | None:
    """Change the working directory; returns the reason of a failure."""
    try:
        os.chdir(directory)
    except OSError as error:
        return error.strerror or str(error)
    return None


def _unexecutable(program: str, error: OSError) -> str:
    quoted = json.dumps(program)
    if error.errno == errno.ENOENT and "/" not in program:
        return f"exec: {quoted}: executable file not found in $PATH"
    return f"exec: {quoted}: {(error.strerror or str(error)).lower()}"


def _control_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _change_user(order: LaunchOrder) -> None:
    if order.gid >= 0 or order.groups:
        os.setgroups(order.groups)
    if order.gid >= 0:
        os.setgid(order.gid)
    if order.uid >= 0:
        os.setuid(order.uid)


def _attend(lines: _Lines, child: _Child) -> NoReturn:
    """Forward signals until the command has ended or the server is gone.

    Then all of its processes are killed.
    """
    wake, notice = os.pipe()
    os.set_blocking(notice, False)
    signal.set_wakeup_fd(notice, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        child.reap()
        if child.status is not None:
            child.ended()
            _report(lines.control, exited=child.status)
            os._exit(0)
        ready, _, _ = select.select([wake, lines.control.fileno()], [], [])
        if wake in ready:
            os.read(wake, 4096)
        for said in lines.arrived() if lines.control.fileno() in ready else ():
            if said is None:
                child.end_all()
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(child.pid, 0)
                os._exit(1)
            child.send(said["signal"])


class _Child:
    """The command.

    `contained` when it is the first of its process namespace, which ends with it.

    Else its group belongs to it, and where there are no namespaces at all (`alone`) all that descends from us.
    """

    def __init__(self, pid: int, *, contained: bool, alone: bool) -> None:
        self.pid = pid
        self.status: int | None = None
        """Its wait status, once it has ended."""
        self._contained = contained
        self._alone = alone

    def reap(self) -> None:
        """Wait for ended children: the command, and its orphans."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self.pid:
                    self.status = status

    def send(self, number: int) -> None:
        """Send a signal to the command; SIGKILL goes to all of its processes."""
        if number == signal.SIGKILL:
            self.end_all()
        elif self.status is None:
            with contextlib.suppress(ProcessLookupError):
                (os.kill if self._contained else os.killpg)(self.pid, number)

    def ended(self) -> None:
        """End what the command left when it ended, except in a container that it had joined."""
        if self._contained or self._alone:
            self.end_all()

    def end_all(self) -> None:
        """Kill all processes of the command."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        if not self._contained:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        if self._alone:
            while descendants := _descendants(os.getpid()):
                for pid in descendants:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                self.reap()


def _descendants(pid: int) -> list[int]:
    """Return the living processes that descend from one."""
    found: list[int] = []
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as listed:  # noqa: PTH123 - as in rootfs
            for child in map(int, listed.read().split()):
                with open(f"/proc/{child}/stat", encoding="utf-8", errors="replace") as stat:  # noqa: PTH123 - as above
                    if stat.read().rpartition(")")[2].split()[0] not in "ZX":
                        found.append(child)
                found.extend(_descendants(child))
    except OSError:
        pass
    return found


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:  # noqa: PTH123 - as in rootfs
        file.write(text)


def _report(control: socket.socket, **said: Any) -> None:
    with contextlib.suppress(OSError):
        control.sendall(json.dumps(said).encode() + b"\n")


class _Lines:
    """JSON documents from the control socket, one a line."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self._buffer = b""

    def next(self) -> dict[str, Any] | None:
        """Return the next document; None when the server is gone."""
        while b"\n" not in self._buffer:
            if not self._receive():
                return None
        return self._take()

    def arrived(self) -> list[dict[str, Any] | None]:
        """Return the received documents; None is among them when the server is gone."""
        gone = not self._receive()
        found: list[dict[str, Any] | None] = []
        while b"\n" in self._buffer:
            found.append(self._take())
        return [*found, None] if gone else found

    def _receive(self) -> bool:
        try:
            chunk = self.control.recv(65536)
        except OSError:
            return False
        self._buffer += chunk
        return bool(chunk)

    def _take(self) -> dict[str, Any]:
        line, _, self._buffer = self._buffer.partition(b"\n")
        document: dict[str, Any] = json.loads(line)
        return document
