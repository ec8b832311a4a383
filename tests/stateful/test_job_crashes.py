"""The controllers are killed at every write of a reaction: the outcome is that of a life without a crash.

Real reducers, host, policies, informers and executor over the embedded API server, on virtual time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.stateful import jobs_world
from tests.stateful.jobs_world import JobsWorld
from tests.unit.jobs.driver import spec, task
from volcanoio.model.kinds import POD

Disturbance = Callable[[JobsWorld], Awaitable[None]]
POLICIES = [{"event": "PodFailed", "action": "RestartJob"}, {"event": "PodEvicted", "action": "RestartTask"}]


async def restart(world: JobsWorld) -> None:
    await world.end_pod("job-b-0", "Failed", 1)


async def abort(world: JobsWorld) -> None:
    await world.command("AbortJob")


async def scale_down(world: JobsWorld) -> None:
    tasks = [task("a", 1, minAvailable=1), task("b", 2)]
    await world.edit({"minAvailable": 3, "tasks": tasks})


async def evict(world: JobsWorld) -> None:
    await world.delete(POD, "job-a-1")


async def submitted(world: JobsWorld, bound: bool) -> None:
    tasks = (task("a", 3, minAvailable=1), task("b", 2))
    await world.submit(spec(*tasks, policies=POLICIES, plugins={"svc": [], "env": []}))
    await world.run_until_stable()
    await world.run_pods(bound=bound)
    await world.run_until_stable()


async def lived(
    world: JobsWorld, disturbance: Disturbance, bound: bool, die_in: int, after: bool
) -> tuple[object, ...]:
    """Run a job, disturb it, crash the controller after so many writes; return the outcome."""
    await world.reset()
    await submitted(world, bound)
    if die_in:
        world.die_in(die_in, after=after)
    await disturbance(world)
    return await world.come_to_rest(bound=bound)


@pytest.mark.parametrize("bound", [False, True], ids=["at once", "gracefully"])
@pytest.mark.parametrize("disturbance", [restart, abort, scale_down, evict], ids=lambda one: one.__name__)
def test_killed_at_every_write(disturbance: Disturbance, bound: bool) -> None:
    async def story(world: JobsWorld) -> None:
        undisturbed = await lived(world, disturbance, bound, 0, after=False)
        assert len(world.lives) == 1
        writes = 0
        while True:
            writes += 1
            for after in (False, True):
                outcome = await lived(world, disturbance, bound, writes, after)
                if len(world.lives) == 1:  # there was no such write any more
                    assert writes > 3
                    return
                assert outcome == undisturbed, (writes, after, world.lives[0].writes[-3:])

    jobs_world.run(story)


async def all_fail(world: JobsWorld) -> None:
    for name in await world.pods():
        await world.end_pod(name, "Failed", 1)


async def all_succeed(world: JobsWorld) -> None:
    for name in await world.pods():
        await world.end_pod(name, "Succeeded", 0)


async def fails_and_is_deleted(world: JobsWorld) -> None:
    await world.end_pod("job-b-0", "Failed", 1)
    await world.delete(POD, "job-b-0")
    await world.reap()


async def aborted_and_scaled(world: JobsWorld) -> None:
    await scale_down(world)
    await abort(world)


ABSENT: list[Any] = [restart, abort, scale_down, evict, all_fail, all_succeed, aborted_and_scaled]


@pytest.mark.parametrize("bound", [False, True], ids=["at once", "gracefully"])
def test_changes_during_a_downtime(bound: bool) -> None:
    async def story(world: JobsWorld) -> None:
        for disturbance in ABSENT:
            await world.reset()
            await submitted(world, bound)
            await disturbance(world)
            present = await world.come_to_rest(bound=bound)
            await world.reset()
            await submitted(world, bound)
            await world.kill()
            await disturbance(world)
            await world.reap()
            await world.start()
            assert await world.come_to_rest(bound=bound) == present, disturbance.__name__

    jobs_world.run(story)


def test_a_pod_that_fails_and_is_deleted_unseen_was_evicted() -> None:
    async def story(world: JobsWorld) -> None:
        await submitted(world, bound=False)
        await world.kill()
        await fails_and_is_deleted(world)
        await world.start()
        await world.run_until_stable()
        status = (await world.job()).status
        assert (status.version, status.retry_count, len(await world.pods())) == (0, 0, 5)

    jobs_world.run(story)
