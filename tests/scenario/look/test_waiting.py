"""`wait` and `watch`: what they print, and the exit code that scripts see."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.scenario.look.printed import Printed
from tests.scenario.look.world import World, world
from volcanoio.cli.look.waiting import Goal, wait_for_jobs, watch_job
from volcanoio.cli.terminal import CommandError, UsageError
from volcanoio.model import kinds


class Running:
    """A command beside the test, and its exit code."""

    def __init__(self, command: Coroutine[Any, Any, int]) -> None:
        self._command = command
        self.code = -1

    async def __call__(self) -> None:
        self.code = await self._command


def waiting(w: World, *jobs: str, labels: str = "", goal: str = "Completed", timeout: float | None = None) -> Running:
    return Running(wait_for_jobs(w.cluster(), jobs, labels, goal, timeout))


async def test_waiting_ends_when_each_job_is_completed(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Printed(capsys)
    async with world() as w:
        for name in ("a", "b"):
            await w.job(name, "Running", {"task": 1})
        both = waiting(w, "a", "b")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(both)
            await w.end("b", "Completed")
            assert await printed.until("\n") == "job.batch.volcano.sh/b condition met\n"
            await w.end("a", "Completed")
        assert capsys.readouterr().out == "job.batch.volcano.sh/a condition met\n"
        assert both.code == 0


async def test_a_job_that_ends_otherwise_is_named_and_the_code_is_1(capsys: pytest.CaptureFixture[str]) -> None:
    async with world() as w:
        await w.job("good", "Completed", {"task": 1})
        await w.job("bad", "Running", {"task": 1})
        await w.end("bad", "Failed", "TaskFailed", "task task failed")
        await w.job("gone", "Running", {"task": 1})
        async with anyio.create_task_group() as tasks:
            three = waiting(w, "good", "bad", "gone")
            tasks.start_soon(three)
            with anyio.fail_after(20):
                while "good" not in capsys.readouterr().out:
                    await anyio.lowlevel.checkpoint()
            await w.client.delete(kinds.JOB, "gone", "default")
        assert three.code == 1
        assert capsys.readouterr().err == "job gone was deleted, not Completed\n"
        assert await wait_for_jobs(w.cluster(), ["bad"], "", "Completed", None) == 1
        assert capsys.readouterr().err == "job bad is Failed (TaskFailed: task task failed), not Completed\n"


@pytest.mark.parametrize(
    ("goal", "code"),
    [
        ("Completed", 0),
        ("completed", 0),
        ("Running", 0),  # it was
        ("condition=Running", 0),
        ("phase=Running", 1),  # it never is again
        ("Aborted", 1),
    ],
)
async def test_a_phase_is_reached_even_if_the_job_has_left_it(goal: str, code: int) -> None:
    async with world() as w:
        await w.job("a", "Running", {"task": 1})
        await w.end("a", "Completed")
        assert await wait_for_jobs(w.cluster(), ["a"], "", goal, None) == code


async def test_waiting_for_a_deletion() -> None:
    async with world() as w:
        await w.job("a", "Completed", {"task": 1})
        deleted = waiting(w, "a", goal="delete")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(deleted)
            await w.client.delete(kinds.JOB, "a", "default")
        assert deleted.code == 0


async def test_after_the_timeout_the_code_is_4(capsys: pytest.CaptureFixture[str]) -> None:
    async with world() as w:
        await w.job("a", "Running", {"task": 1}, metadata={"labels": {"team": "ml"}})
        assert await wait_for_jobs(w.cluster(), [], "team=ml", "Completed", 0.0) == 4
        assert capsys.readouterr().err == "not Completed in time: a\n"


async def test_a_suspended_job_may_be_resumed_while_it_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    async with world() as w:
        await w.job("a", "Aborted", {"task": 1})
        resumed = waiting(w, "a")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resumed)
            await w.end("a", "Running")
            await w.end("a", "Completed")
        assert resumed.code == 0


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ("Complete", '--for: there is no phase of jobs "Complete"; did you mean Completed or Completing?'),
        ("ready=1", '--for: "ready" is not known; write PHASE, phase=PHASE, condition=PHASE or delete'),
    ],
)
def test_goals_that_no_job_reaches_are_refused(goal: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        Goal.parse(goal)
    assert str(refused.value) == message


async def test_jobs_to_wait_for_are_named_or_selected() -> None:
    async with world() as w:
        await w.job("a", "Running", {"task": 1})
        for jobs, labels, message in (
            ([], "", "give the names of jobs, or their labels with -l; not both"),
            (["a"], "x=y", "give the names of jobs, or their labels with -l; not both"),
            ([], "x=y", 'no job has the labels "x=y" in namespace default'),
            (["b"], "", 'there is no job "b" in namespace default; there are: a'),
        ):
            with pytest.raises(UsageError) as refused:
                await wait_for_jobs(w.cluster(), jobs, labels, "Completed", None)
            assert str(refused.value) == message


async def test_a_job_is_watched_line_by_line_until_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Printed(capsys)
    async with world() as w:
        waits = ("NotEnoughResources", "0/2 tasks in gang unschedulable")
        await w.job("a", "Pending", {"task": 2}, counts={"Pending": 2}, waits=waits)
        watched = Running(watch_job(w.cluster(), "a", None))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watched)
            assert await printed.until("\n") == (
                "00:00:00 a Pending gang 0/2 r/p/s/f 0/2/0/0 (NotEnoughResources: 0/2 tasks in gang unschedulable)\n"
            )
            w.clock.advance(minutes=1)
            await w.status(kinds.JOB, "a", {"state": {"phase": "Running"}, "pending": None, "running": 2})
            assert await printed.until("\n") == "00:01:00 a Running gang 2/2 r/p/s/f 2/0/0/0\n"
            await w.status(kinds.JOB, "a", {"state": {"phase": "Completed"}, "running": None, "succeeded": 2})
        assert capsys.readouterr().out == "00:01:00 a Completed gang 2/2 r/p/s/f 0/0/2/0\njob a is Completed\n"
        assert watched.code == 0


async def test_the_code_of_watching_is_the_result_of_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    async with world() as w:
        await w.job("a", "Running", {"task": 1})
        await w.end("a", "Failed", "TaskFailed", "task task failed")
        assert await watch_job(w.cluster(), "a", None) == 1
        assert capsys.readouterr().err == (
            "job a is Failed (TaskFailed: task task failed); see: volcanoio logs a, volcanoio events a\n"
        )
        await w.job("b", "Running", {"task": 1})
        with pytest.raises(CommandError) as late:
            await watch_job(w.cluster(), "b", 0.0)
        assert late.value.code == 4
        assert str(late.value) == (
            "job b has not ended in time and runs on; see it again with: volcanoio watch b -n default"
        )


async def test_a_cancelled_watch_leaves_the_job_alone(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Printed(capsys)
    async with world() as w:
        await w.job("a", "Running", {"task": 1})
        seen: list[CommandError] = []

        async def watch() -> None:
            try:
                await watch_job(w.cluster(), "a", None)
            except CommandError as error:
                seen.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await printed.until("Running")
            tasks.cancel_scope.cancel()
        assert [(str(each), each.code) for each in seen] == [
            ("job a runs on; see it again with: volcanoio watch a -n default", 130)
        ]
        assert (await w.client.get_raw(kinds.JOB, "a", "default"))["status"]["state"]["phase"] == "Running"
