"""A changed configuration decides a cycle within 2 s, whenever it is written: a scheduler in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.localcluster.apiserver.api import CONFIG_MAPS
from tests.scenario.cluster.takeovers import MERGE, Takeovers, registry, takeovers
from tests.scenario.reload.mounts import PLACES, WAITS, Mount
from tests.scenario.scheduling.harness import group, node, waiting
from volcanoio.compose.scheduler import SchedulerProcess, SchedulerSettings
from volcanoio.framework.probe import NoProbe
from volcanoio.model import kinds
from volcanoio.runtime.api_metrics import REQUESTS, CountingTransport
from volcanoio.runtime.loading.configmap_source import ConfigMapKey
from volcanoio.runtime.metrics import PrometheusProbe

WITHIN = 2.0
MOMENTS = [number / 8 for number in range(7)]
"""When a change is written, in seconds after a read: reads are 0.75 s apart."""
PERIOD = 60.0
"""The longest time between two cycles: only the change itself can open one in time."""
KEY = ConfigMapKey("default", "batch", "scheduler.conf")


async def _inline(work: Callable[[*tuple[Any, ...]], Any], *arguments: Any, **_: Any) -> Any:
    return work(*arguments)


@asynccontextmanager
async def scheduler(
    monkeypatch: pytest.MonkeyPatch, probe: PrometheusProbe | None = None, **given: Any
) -> AsyncIterator[Takeovers]:
    """Run a scheduler whose reads, too, follow the test's clock; threads would not be waited for."""
    async with takeovers() as world, anyio.create_task_group() as tasks:
        monkeypatch.setattr("volcanoio.compose.scheduler.WallClock", lambda: world.clock)
        monkeypatch.setattr("anyio.to_thread.run_sync", _inline)
        await world.create(node("n1", cpu="100"))
        settings = SchedulerSettings(registry=registry(), period=PERIOD, **given)
        transport = CountingTransport(world.api.transport, probe or NoProbe(), world.clock)
        process = SchedulerProcess(transport, clock=world.clock, settings=settings, probe=probe)
        tasks.start_soon(process.run)
        yield world
        tasks.cancel_scope.cancel()


async def bound_within(world: Takeovers, write: Callable[[str], Awaitable[None]]) -> list[bool]:
    """For each moment: whether a pod that waited is bound so soon after a change to a configuration that places it."""
    found = []
    for number, moment in enumerate(MOMENTS):
        await write(WAITS)
        await world.clock.advance(3.0)
        await world.create(group(f"g{number}", 1), *waiting(f"g{number}", 1))
        await world.clock.advance(3.0 + moment)
        assert not (await world.nodes_of_pods())[f"g{number}-0"]
        await write(PLACES)
        await world.clock.advance(WITHIN)
        found.append(bool((await world.nodes_of_pods())[f"g{number}-0"]))
    return found


async def test_a_mounted_configuration_decides_within_two_seconds_of_its_swap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = Mount(tmp_path, "scheduler.conf", WAITS)

    async def swap(text: str) -> None:
        mount.write(text)

    async with scheduler(monkeypatch, configuration_file=mount.path) as world:
        assert all(await bound_within(world, swap))


async def test_a_named_configuration_decides_within_two_seconds_of_its_change(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = PrometheusProbe(process=False)
    async with scheduler(monkeypatch, probe, configuration_map=KEY) as world:

        async def write(text: str) -> None:
            await world.api("PATCH", f"{CONFIG_MAPS}/{KEY.name}", {"data": {KEY.key: text}}, MERGE)

        await world.api.made(CONFIG_MAPS, {"metadata": {"name": KEY.name}, "data": {KEY.key: WAITS}})
        assert all(await bound_within(world, write))
        labels = {"resource": kinds.CONFIG_MAP.resource, "subresource": "", "code": "200"}
        asked = [probe.value(REQUESTS, verb=verb, **labels) for verb in ("get", "list", "watch")]
        assert asked == [1.0, 1.0, 1.0], "one read at the start, then a watch"
