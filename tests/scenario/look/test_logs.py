"""`logs`: which pods are read, in which order, and how long it follows."""

from __future__ import annotations

import anyio
import pytest

from tests.scenario.look.printed import Printed
from tests.scenario.look.world import World, Written, pod_status, world
from volcanoio.cli.look.logs import LogOptions, print_logs
from volcanoio.cli.terminal import CommandError, UsageError
from volcanoio.model import kinds

_WAITS = 'a-worker-0: container "main" in pod "a-worker-0" is waiting to start: the pod is not yet assigned to a node'


async def some_pods(w: World) -> None:
    await w.job("a", "Running", {"master": 1, "worker": 2})
    await w.pod("a", "worker", 1, "Running", "n")
    await w.pod("a", "worker", 0, "Pending")
    await w.pod("a", "master", 0, "Running", "n")


async def test_logs_of_all_pods_that_have_started(capsys: pytest.CaptureFixture[str]) -> None:
    async with world(Written()) as w:
        await some_pods(w)
        await print_logs(w.cluster(), "a", LogOptions())
        shown = capsys.readouterr()
        assert shown.out == (
            "[a-master-0] a-master-0 says 1\n"
            "[a-master-0] a-master-0 says 2\n"
            "[a-worker-1] a-worker-1 says 1\n"
            "[a-worker-1] a-worker-1 says 2\n"
        )
        assert shown.err == f"{_WAITS}\n"
        await print_logs(w.cluster(), "a/worker/1", LogOptions(tail=1, timestamps=True))
        assert capsys.readouterr().out == "2030-01-01T00:00:02Z a-worker-1 says 2\n"
        await print_logs(w.cluster(), "a/master", LogOptions(tail=1, prefix=False))
        assert capsys.readouterr().out == "a-master-0 says 2\n"
        w.clock.advance(seconds=10)
        await print_logs(w.cluster(), "a/master", LogOptions(since=8.5))
        assert capsys.readouterr().out == "[a-master-0] a-master-0 says 1\n[a-master-0] a-master-0 says 2\n"
        await print_logs(w.cluster(), "a/master", LogOptions(since=1))
        assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("b", UsageError, 'there is no job "b" in namespace default; there are: a, empty'),
        ("a/workers", UsageError, 'there is no task "workers" in job a; did you mean worker?'),
        ("a/worker/2", UsageError, '"2" is not an index of a pod; the indices of task worker are 0 to 1'),
        ("a/worker/x", UsageError, '"x" is not an index of a pod; the indices of task worker are 0 to 1'),
        ("a/", UsageError, '"a/" names no pods; write JOB, JOB/TASK or JOB/TASK/INDEX'),
        ("empty", CommandError, "empty has no pods now; the job is Pending. See: volcanoio why empty"),
        (
            "a/worker/0",
            CommandError,
            _WAITS,
        ),
    ],
)
async def test_targets_without_logs_are_errors(target: str, error: type[CommandError], message: str) -> None:
    async with world(Written()) as w:
        await some_pods(w)
        await w.job("empty", "Pending", {"task": 1})
        with pytest.raises(error) as refused:
            await print_logs(w.cluster(), target, LogOptions())
        assert str(refused.value) == message


async def test_following_includes_pods_and_restarts_that_come_later(capsys: pytest.CaptureFixture[str]) -> None:
    logs, printed = Written(), Printed(capsys)
    async with world(logs) as w, anyio.create_task_group() as tasks:
        await some_pods(w)
        tasks.start_soon(print_logs, w.cluster(), "a", LogOptions(follow=True, tail=1))
        assert "a-worker-1 says 1" not in await printed.until("a-worker-1 says 2")
        await w.client.delete(kinds.POD, "a-worker-0", "default")
        await w.pod("a", "worker", 0, "Running", "n")
        assert await printed.until("a-worker-0 says 2") == (
            "[a-worker-0] a-worker-0 says 1\n[a-worker-0] a-worker-0 says 2\n"
        )
        await w.status(kinds.POD, "a-worker-0", pod_status("Running", restarts=1))
        assert "a-worker-0 says 1" in await printed.until("a-worker-0 says 2")
        await w.end("a", "Completed")
        logs.ended.set()
        await printed.until("a-worker-1 ends")


async def test_as_many_pods_are_followed_as_is_allowed() -> None:
    async with world(Written()) as w:
        await some_pods(w)
        with pytest.raises(BaseExceptionGroup) as refused:
            await print_logs(w.cluster(), "a", LogOptions(follow=True, max_log_requests=1))
        assert refused.group_contains(
            CommandError,
            match=r"more than 1 pods are to be followed; name a task as a/TASK, or raise --max-log-requests",
        )
