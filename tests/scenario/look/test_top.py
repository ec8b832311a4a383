"""`top`, driven by its keys on a screen of 120 × 30 characters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from tests.scenario.look.world import World, Written, some_jobs, some_queues, world
from volcanoio.cli.connection import Cluster
from volcanoio.model import kinds
from volcanoio.model.workloads import QUEUE_PHASE, place_message

pytest.importorskip("textual")

from textual.pilot import Pilot
from textual.widgets import Input

from volcanoio.cli.look.top import TableScreen, Top, readable


class Screen:
    """What a user sees, and the keys."""

    def __init__(self, pilot: Pilot[None]) -> None:
        self._pilot = pilot

    @property
    def lines(self) -> list[str]:
        """The lines of the screen, without blank ones."""
        strips = self._pilot.app.screen._compositor.render_strips()
        lines = ("".join(segment.text for segment in strip).rstrip() for strip in strips)
        return [line.strip() for line in lines if line]

    async def press(self, *keys: str) -> None:
        """Press keys one after another."""
        await self._pilot.press(*keys)

    async def until(self, holds: Callable[[list[str]], bool]) -> list[str]:
        """Return the lines once they are as wanted."""
        lines: list[str] = []
        with anyio.move_on_after(20):
            while True:
                await self._pilot.pause()  # a table that is drawn before its columns are measured keeps them so
                if holds(lines := self.lines):
                    return lines
        raise AssertionError("\n".join(lines))

    async def shows(self, text: str) -> list[str]:
        """Return the lines once one contains a text."""
        return await self.until(lambda lines: any(text in line for line in lines))


async def explained(cluster: Cluster, namespace: str, name: str) -> str:
    return f"{namespace}/{name} waits in queue ml"


@asynccontextmanager
async def top(w: World, namespace: str = "") -> AsyncIterator[Screen]:
    cluster = w.cluster(namespace)
    app = Top(cluster, await readable(cluster), explained)
    async with app.run_test(size=(120, 30)) as pilot:
        yield Screen(pilot)


async def test_jobs_follow_their_changes_with_active_ones_first() -> None:
    async with world() as w:
        await some_jobs(w)
        async with top(w) as screen:
            lines = await screen.shows("report-1")
            assert lines[0] == "5 jobs: 1 Completed, 1 Failed, 2 Pending, 1 Running"
            assert [line.split()[1:3] for line in lines[1:7]] == [
                ["JOB", "OWNER"], ["bert", "ann"], ["etl", "-"], ["sweep", "-"], ["broken", "-"],
                ["report-1", "CronJob/nightly"],
            ]  # fmt: skip
            assert lines[2].endswith("gpu-[0-2]")
            assert "(NotEnough" in lines[3]
            await w.status(kinds.JOB, "sweep", {"state": {"phase": "Running"}, "running": 2})
            await screen.shows("sweep     -                Running    2/2")
            await w.client.delete(kinds.JOB, "etl", "default")
            await screen.until(lambda lines: lines[0].startswith("4 jobs") and not any("etl" in line for line in lines))


async def test_a_change_that_arrives_while_the_program_ends_is_not_drawn() -> None:
    async with world() as w:
        await some_jobs(w)
        cluster = w.cluster("")
        app = Top(cluster, await readable(cluster), explained)
        async with app.run_test(size=(120, 30)) as pilot:
            await Screen(pilot).shows("report-1")
            tables = app.screen
            assert isinstance(tables, TableScreen)
        tables.on_input_changed(Input.Changed(Input(), "etl"))


async def test_number_keys_choose_a_table() -> None:
    async with world() as w:
        await some_jobs(w)
        await some_queues(w)
        async with top(w, "default") as screen:
            await screen.shows("bert")
            await screen.press("2")
            assert "   ├─ ml-a".strip() in [line[:7] for line in await screen.shows("ml-a")]
            await screen.press("3")
            lines = await screen.shows("cpu-2")
            assert lines[0].endswith("2/2 nodes ready")
            assert lines[2].split() == ["cpu-1", "Ready", "0/110", "0/64", "0/32Gi", "-", "0s"]
            await screen.press("4")
            assert (await screen.shows("bert-worker-0"))[2].split()[:3] == ["bert-worker-0", "1/1", "Running"]
            await screen.press("1")
            await screen.shows("NODELIST(REASON)")


async def test_a_filter_keeps_rows_that_contain_it_until_esc() -> None:
    async with world() as w:
        await some_jobs(w)
        async with top(w) as screen:
            await screen.shows("report-1")
            await screen.press("slash", "m", "l")
            lines = await screen.shows("filter ml: 1 rows")
            assert [line.split()[1] for line in lines[1:3]] == ["JOB", "etl"]
            await screen.press("enter", "escape")
            await screen.shows("report-1")


async def test_why_and_description_of_the_chosen_job() -> None:
    async with world() as w:
        await some_jobs(w)
        async with top(w) as screen:
            await screen.shows("report-1")
            await screen.press("down", "w")
            assert (await screen.shows("waits in queue ml"))[:2] == [
                "why default/etl", "default/job/etl waits in queue ml",
            ]  # fmt: skip
            await screen.press("escape", "d")
            lines = await screen.shows("Reason:")
            assert lines[0] == "job default/etl"
            assert "Reason:    NotEnoughResources: 2/4 tasks in gang unschedulable" in lines
            await screen.press("escape")
            await screen.shows("report-1")


async def test_other_objects_are_described_as_yaml() -> None:
    async with world() as w:
        await some_queues(w)
        await w.job("a", "Running", {"task": 1})
        async with top(w) as screen:
            await screen.shows("1 jobs")
            await screen.press("2")
            await screen.shows("root")
            await screen.press("down", "enter")
            lines = await screen.shows("reclaimable: false")
            assert lines[0] == "queue etl"


async def test_groups_without_a_job_are_those_of_volcano_and_native_ones() -> None:
    async with world() as w:
        owned = {"ownerReferences": [{"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": "a", "uid": "a"}]}
        await w.make(kinds.POD_GROUP, "a", {"metadata": owned, "spec": {"minMember": 1}})
        await w.make(kinds.POD_GROUP, "web", {"spec": {"minMember": 2, "queue": "ml"}}, {"phase": "Running"})
        spec = {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
        await w.make(kinds.NATIVE_POD_GROUP, "theirs", dict(spec))
        counted = [{"type": QUEUE_PHASE, "status": "True", "reason": "Inqueue",
                    "message": place_message("etl", "volcano")},
                   {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable",
                    "message": "no room"}]  # fmt: skip
        now = "2026-01-01T00:00:00Z"
        status = {"conditions": [{**each, "lastTransitionTime": now} for each in counted]}
        await w.make(kinds.NATIVE_POD_GROUP, "train", spec, status)
        async with top(w, "default") as screen:
            await screen.shows("0 jobs")
            await screen.press("5")
            lines = await screen.shows("no room")
            assert [line.split()[:4] for line in lines[2:4]] == [
                ["web", "Running", "2", "ml"], ["podgroup.scheduling.k8s.io/train", "Inqueue", "3", "etl"],
            ]  # fmt: skip
            assert not any("theirs" in line for line in lines)
            await screen.press("w")
            await screen.shows("default/podgroup/web waits in queue ml")
            await screen.press("escape", "down", "w")
            await screen.shows("default/podgroup.scheduling.k8s.io/train waits in queue ml")
            await screen.press("escape", "d")
            await screen.shows("minCount: 3")


async def test_the_logs_of_a_job_and_of_a_pod() -> None:
    logs = Written()
    async with world(logs) as w:
        await w.job("a", "Running", {"worker": 2})
        for index in range(2):
            await w.pod("a", "worker", index, "Running", "n")
        async with top(w) as screen:
            await screen.shows("1 jobs")
            await screen.press("l")
            await screen.shows("[a-worker-0] a-worker-0 says 2")
            await screen.shows("[a-worker-1] a-worker-1 says 2")
            await w.end("a", "Completed")
            logs.ended.set()
            await screen.shows("— end of the log —")
            await screen.press("escape", "4")
            await screen.shows("a-worker-1")
            await screen.press("down", "l")
            lines = await screen.shows("— end of the log —")
            assert lines[0] == "log of pod default/a-worker-1"
            assert lines[1] == "a-worker-1 says 1"


async def test_what_ends_a_log_is_shown_in_its_place() -> None:
    async with world() as w:
        await w.job("a", "Running", {"worker": 51})
        for index in range(51):
            await w.pod("a", "worker", index, "Running", "n")
        async with top(w) as screen:
            await screen.shows("1 jobs")
            await screen.press("l")
            await screen.shows("more than 50 pods are to be followed")
            await screen.press("escape")
            await screen.shows("1 jobs")
