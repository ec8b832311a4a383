"""What happens while everything is down, and at every single step, ends as if we had been there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.jobs.driver import World, spec, task

ANY = [{"event": "*", "action": "RestartJob"}]


def running(graceful: bool = False, **fields: Any) -> World:
    world = World(graceful=graceful)
    world.submit(spec(task(replicas=3), **fields))
    world.settle()
    for pod in world.pods():
        world.phase(pod, "Running")
    return world.settle()


def outcome(world: World) -> tuple[object, ...]:
    status = world.job().status
    versions = {pod.metadata.annotations["volcano.sh/job-version"] for pod in world.pods().values()}
    return (status.state.phase, status.version, status.retry_count, sorted(world.pods()), sorted(versions))


def fail(world: World) -> None:
    world.phase("job-t-1", "Failed", 1)


def finish(world: World) -> None:
    for pod in world.pods():
        world.phase(pod, "Succeeded")


def evict(world: World) -> None:
    world.remove("pods", "default/job-t-2")


def evict_slowly(world: World) -> None:
    world.remove("pods", "default/job-t-2", graceful=True)


def abort(world: World) -> None:
    world.command("AbortJob")


def scale_down(world: World) -> None:
    world.change("jobs.batch.volcano.sh", "default/job", {"spec": {**spec(task(replicas=1)), "policies": ANY}})


HAPPENINGS = [fail, finish, evict, evict_slowly, abort, scale_down]


@pytest.mark.parametrize("happening", HAPPENINGS)
@pytest.mark.parametrize("policies", [[], ANY, [{"event": "PodFailed", "action": "RestartPod"}]])
def test_while_everything_is_down(happening: Any, policies: Any) -> None:
    present, absent = running(policies=policies), running(policies=policies)
    happening(present)
    happening(absent)
    absent.vanish()
    absent.crash()
    for world in (present.settle(), absent.settle()):
        world.vanish()
        world.settle()
    assert outcome(absent) == outcome(present)


@pytest.mark.parametrize("happening", HAPPENINGS)
@pytest.mark.parametrize("graceful", [False, True])
def test_killed_at_every_step(happening: Any, graceful: bool) -> None:
    undisturbed = running(graceful, policies=ANY)
    happening(undisturbed)
    undisturbed.settle().vanish()
    undisturbed.settle()
    for steps in range(1, 45):
        world = running(graceful, policies=ANY)
        happening(world)
        for _ in range(steps):
            world.step()
        world.crash()
        world.settle().vanish()
        world.settle()
        assert outcome(world) == outcome(undisturbed), steps


def test_a_pod_noted_as_leaving_is_evicted_even_if_nobody_saw_it_go() -> None:
    world = running(policies=ANY)
    evict_slowly(world)
    world.settle()
    world.fire("counts")
    assert world.job().status.terminating == 1
    world.vanish()
    world.crash()
    world.settle()
    assert world.asked == ["PodEvicted job-t-2"]
    assert world.job().status.version == 1


def test_a_fresh_process_says_nothing_new_about_a_quiet_job() -> None:
    world = running(policies=ANY)
    writes = len(world.writes)
    world.crash()
    world.settle()
    assert (len(world.writes), world.asked) == (writes, [])
