"""The page in a headless Chromium: what people come for takes at most three clicks, and works by keyboard too."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from tests.scenario.web.support import Limited
from tests.webpage.tools import chromium, missing, modules, node
from volcanoio.framework.events import Change, Observed
from volcanoio.kube.transport import Transport
from volcanoio.model import kinds
from volcanoio.model.batch import Job
from volcanoio.web.app import Address, PageOptions, serving_page
from volcanoio.web.viewers import Viewers

SCRIPT = Path(__file__).parent / "browser.mjs"
TASKS = ("why", "log", "ahead", "fullest", "time", "share", "suspend", "resume", "close")
MOST_CLICKS = 3
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(autouse=True)
def _tools() -> None:
    if reason := missing():
        pytest.skip(f"THE PAGE WAS NOT TESTED IN A BROWSER: {reason}")


async def drive(url: str, *names: str) -> dict[str, Any]:
    """Run tasks or checks of the script; each must have met no error, foreign request or violation of the policy."""
    environment = {**os.environ, "VOLCANOIO_NODE_MODULES": str(modules()), "CHROMIUM": chromium()}
    process = await asyncio.create_subprocess_exec(
        node(), SCRIPT, url, *names, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    results = {one["name"]: one for one in map(msgspec.json.decode, out.splitlines())}
    assert process.returncode == 0, err.decode()
    assert list(results) == list(names)
    for name, result in results.items():
        assert "failed" not in result, f"{name}: {result}"
        assert result["problems"] == [], f"{name}: {result['problems']}"
    return results


@asynccontextmanager
async def busy_cluster() -> AsyncIterator[Cluster]:
    """Run a cluster with a running, a failed and a waiting job, and a queue that is empty."""
    async with cluster(nodes=3, speed=20.0) as found:
        await found.create({**_queue("spare"), "apiVersion": kinds.QUEUE.api_version, "kind": "Queue"})
        await found.create(job_manifest("runner", replicas=2, run="10h"))
        broken = {"sim.volcanoio.dev/exit-code": "3", "sim.volcanoio.dev/log": "no such table; exit 3"}
        await found.create(job_manifest("broken", annotations=broken, maxRetry=1))
        await found.create(job_manifest("starved", replicas=2, cpu="100"))
        await found.job("runner", "Running")
        await found.job("broken", "Failed")
        yield found


def _queue(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"weight": 1}}


@asynccontextmanager
async def page_of(
    found: Cluster, transport: Transport | None = None, **options: Any
) -> AsyncIterator[tuple[str, Viewers]]:
    viewers = Viewers(own=transport or found.local.transport, now=found.local.clock.now)
    given = PageOptions(now=found.local.clock.now, rate=found.local.clock.rate, **options)
    async with serving_page(viewers, Address("127.0.0.1", 0), given) as url:
        yield url, viewers


async def test_what_people_come_for_takes_at_most_three_clicks() -> None:
    async with busy_cluster() as found, page_of(found) as (url, _):
        results = await drive(url, *TASKS)
        assert {name: one["clicks"] for name, one in results.items() if one["clicks"] > MOST_CLICKS} == {}
        seen = {name: one["seen"] for name, one in results.items()}
        assert "Insufficient cpu" in seen["why"] or "LargerThanAnyNode" in seen["why"] or "cpu" in seen["why"]
        assert "no such table; exit 3" in seen["log"]
        assert "default/starved" in seen["ahead"]
        assert seen["fullest"].startswith("node-")
        assert "1 pod" in seen["time"]
        assert seen["share"] == "?state=waiting&queue=default waiting default 1"
        assert seen["suspend"].startswith("job runner is being suspended; it was Running")
        assert "2 of 2 pods" in seen["resume"]
        assert seen["close"] == "Closed"


async def test_the_page_can_be_used_by_keyboard_and_screen_reader() -> None:
    async with busy_cluster() as found, page_of(found, journal=found.local.options.journal) as (url, _):
        results = await drive(url, "keyboard", "landmarks", "past")
        assert results["keyboard"]["seen"] == "Skip to content|main|3|4|main"
        for page in results["landmarks"]["seen"]:
            assert page == {"mains": 1, "headings": 1, "current": 1, "nameless": [], "charts": 0}

    end, start, tiles = results["past"]["seen"].split("|")
    assert "(0s before the end)" in end
    assert start < end
    assert tiles.startswith("0Running")  # nothing had been submitted then


async def test_buttons_of_a_user_without_rights_are_disabled_and_say_why() -> None:
    async with busy_cluster() as found:
        user = Limited(found.local.transport, "create commands", "delete jobs")
        async with page_of(found, user) as (url, _):
            results = await drive(url, "refused")
    (suspend, _, cancel) = results["refused"]["seen"]
    assert suspend == ["suspend", True, "you may not create commands.bus.volcano.sh in namespace default"]
    assert cancel[1] is True


async def test_ten_thousand_jobs_are_a_few_elements() -> None:
    async with busy_cluster() as found, page_of(found) as (url, viewers):
        viewer = await viewers.find(f"Bearer {viewers.key}")
        assert viewer is not None
        feed = await viewer.feed("", viewers.tasks)
        feed.overview.fold(_many_jobs(10_000))
        results = await drive(url, "many")
    seen = results["many"]["seen"]
    assert seen["rows"] > 10_000
    assert seen["most"] < 60  # elements of rows, of which the scrolling page never shows a gap
    assert seen["blank"] == 0


def _many_jobs(count: int) -> list[Observed]:
    phases = ("Running", "Pending", "Completed", "Failed")
    return [
        Observed(
            resource=kinds.JOB.resource,
            change=Change.APPEARED,
            object=msgspec.convert(
                {
                    "metadata": {"name": f"day-{number}", "namespace": "many", "uid": f"many-{number}"},
                    "spec": {"queue": "default", "minAvailable": 1, "tasks": [{"name": "t", "replicas": 4}]},
                    "status": {"state": {"phase": phases[number % 4]}},
                },
                Job,
            ),
        )
        for number in range(count)
    ]
