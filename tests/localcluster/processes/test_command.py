"""Commands in their namespaces, and without any."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from volcanoio.localcluster.processes import execution, launcher
from volcanoio.localcluster.processes.launch.order import NONE, ROOT, USER, LaunchOrder, Mount
from volcanoio.localcluster.processes.launcher import Command, CommandNotStarted, find_namespaces, start

ENVIRONMENT = {"PATH": os.environ["PATH"]}


@pytest.fixture(params=[ROOT, USER, NONE])
async def order(request: pytest.FixtureRequest, tmp_path: Path) -> LaunchOrder:
    """What a command is started with, in each way that this machine has."""
    (tmp_path / "root").mkdir()
    order = LaunchOrder(argv=["true"], env=ENVIRONMENT, namespaces=request.param, root=str(tmp_path / "root"))
    if request.param != NONE:
        if sys.platform != "linux":
            pytest.skip("namespaces are Linux's")
        try:
            await (await start(order)).aclose()
        except CommandNotStarted as refused:
            pytest.skip(f"NAMESPACES ({request.param}) ARE NOT TESTED HERE: {refused}")
    return order


async def _run(order: LaunchOrder, script: str, *, stdin: bool = False, **more: object) -> Command:
    changed: dict[str, Any] = {"argv": ["sh", "-c", script], **more}
    return await start(order._replace(**changed), stdin=stdin)


async def _output(command: Command) -> tuple[int, str]:
    """Exit code and standard output of a command, to its end."""
    try:
        output = b""
        while data := await command.streams.stdout.read():
            output += data
        return await command.wait(), output.decode()
    finally:
        await command.aclose()


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 9", 9), ("sh -c 'kill -TERM $$'; exit $?", 143), ("echo out", 0)]
)
async def test_exit_codes(order: LaunchOrder, script: str, code: int) -> None:
    assert (await _output(await _run(order, script)))[0] == code


async def test_streams(order: LaunchOrder) -> None:
    command = await _run(order, "read line; echo got $line; echo oops >&2", stdin=True)
    assert command.streams.stdin is not None
    assert command.streams.stderr is not None
    await command.streams.stdin.write(b"this\n")
    assert await command.streams.stderr.read() == b"oops\n"
    assert await _output(command) == (0, "got this\n")


async def test_a_terminal(order: LaunchOrder) -> None:
    command = await _run(order, "test -t 0 && test -t 1 && echo terminal", tty=True)
    assert await _output(command) == (0, "terminal\r\n")


async def test_a_terminal_is_read_while_it_is_written_to(order: LaunchOrder) -> None:
    command = await _run(order, "stty raw -echo; echo ready; head -c 300000 | wc -c", tty=True)
    assert command.streams.stdin is not None
    assert await command.streams.stdout.read() == b"ready\n"
    reading = asyncio.create_task(_output(command))
    assert await command.streams.stdin.write(b"x" * 300_000)
    code, output = await reading
    assert (code, output.split()) == (0, ["300000"])


async def test_signals_are_passed_on(order: LaunchOrder) -> None:
    command = await _run(order, "trap 'echo heard; exit 5' TERM; echo ready; sleep 1000 & wait")
    assert await command.streams.stdout.read() == b"ready\n"
    command.send(signal.SIGTERM)
    assert await _output(command) == (5, "heard\n")


async def test_no_process_is_left_after_a_kill(order: LaunchOrder) -> None:
    command = await _run(order, "trap '' TERM; (setsid sleep 1000 &) ; echo ready; sleep 1000; echo on")
    assert await command.streams.stdout.read() == b"ready\n"
    processes = list(execution.process_tree(command.pid))
    assert execution.resident_memory(command.pid) > 0
    command.send(signal.SIGTERM)
    command.send(signal.SIGKILL)
    code, _ = await _output(command)
    assert code == 137
    assert not _left(processes)


async def test_no_process_is_left_when_the_launcher_loses_the_server(order: LaunchOrder) -> None:
    command = await _run(order, "echo ready; sleep 1000")
    assert await command.streams.stdout.read() == b"ready\n"
    pid = command.pid
    await command.aclose()
    assert not _alive(pid)


async def test_a_start_that_is_cancelled_leaves_nothing(order: LaunchOrder, monkeypatch: pytest.MonkeyPatch) -> None:
    is_ordered = asyncio.Event()

    async def no_answer(_: object) -> None:
        is_ordered.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(launcher._Control, "receive", no_answer)
    starting = asyncio.create_task(_run(order, "sleep 98765"))
    await is_ordered.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not [pid for pid in execution.process_tree(os.getpid()) if "sleep 98765" in _command_line(pid)]


async def test_commands_that_cannot_start_report_the_reason(order: LaunchOrder) -> None:
    with pytest.raises(CommandNotStarted, match="executable file not found") as refused:
        await _run(order, "", argv=["no-such-program"])
    assert refused.value.code == 127
    with pytest.raises(CommandNotStarted, match="permission denied") as refused:
        await _run(order, "", argv=["/etc/passwd"])
    assert refused.value.code == 126
    with pytest.raises(CommandNotStarted, match='working directory "/no/such"'):
        await _run(order, "", cwd="/no/such")


async def test_mounts_are_seen_inside_only(order: LaunchOrder, tmp_path: Path) -> None:
    if order.namespaces == NONE:
        pytest.skip("nothing can be mounted")
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "file").write_text("content")
    mounts = (Mount(str(volume), "/not/on/the/host", read_only=True), Mount(str(volume / "file"), "/etc/one-file"))
    script = "hostname; cat /not/on/the/host/file /etc/one-file; touch /not/on/the/host/x || echo read-only; echo $$"
    command = await _run(order, script, mounts=mounts, hostname="inside")
    assert (await _output(command))[1].split() == ["inside", "contentcontentread-only", "1"]
    assert not _there("/not", "/etc/one-file")


async def test_a_command_joins_another(order: LaunchOrder) -> None:
    if order.namespaces == NONE:
        pytest.skip("there is nothing to join")
    first = await _run(order, "echo ready; sleep 1000", hostname="joined")
    assert await first.streams.stdout.read() == b"ready\n"
    try:
        second = await _run(order, "hostname; cat /proc/1/cmdline | tr '\\0' ' '", enter=first.pid)
        assert await _output(second) == (0, "joined\nsh -c echo ready; sleep 1000 ")
    finally:
        await first.aclose()


async def test_joined_processes_end_with_their_children(order: LaunchOrder) -> None:
    first = await _run(order, "echo ready; sleep 1000")
    assert await first.streams.stdout.read() == b"ready\n"
    enter = 0 if order.namespaces == NONE else first.pid
    second = await _run(order, "sleep 98765 & echo ready; wait", enter=enter)
    assert await second.streams.stdout.read() == b"ready\n"
    processes = list(execution.process_tree(second.pid))
    assert len(processes) == 2
    await second.aclose()
    assert not _left(processes)
    assert _alive(first.pid)
    await first.aclose()


async def test_some_namespaces_are_found(tmp_path: Path) -> None:
    assert await find_namespaces(tmp_path) in (ROOT, USER, NONE)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _left(pids: list[int]) -> list[int]:
    """Those of some processes that do not end within a moment: one that was killed takes its time to go."""
    left = []
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        if not select.select([descriptor], [], [], 10)[0]:
            left.append(pid)
        os.close(descriptor)
    return left


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def _there(*paths: str) -> list[str]:
    return [path for path in paths if Path(path).exists()]
