"""What vanishes as soon as it is made is not made without end: the job may be gone, and its objects be collected."""

from __future__ import annotations

import pytest

from tests.unit.jobs.driver import World, spec, task
from volcanoio.framework.effects import Create
from volcanoio.framework.events import EffectSucceeded
from volcanoio.model import kinds
from volcanoio.model.batch import Job

GROUPS, PODS = kinds.POD_GROUP.resource, kinds.POD.resource


def made(world: World, resource: str) -> int:
    """How often one was made."""
    return sum(isinstance(effect, Create) and effect.resource == resource for effect in world.writes)


def running() -> World:
    world = World()
    world.submit(spec(task("a", 2)))
    return world.run_until_stable()


def collect(world: World, resource: str) -> None:
    """Whatever there is of a kind goes, and so does what is made of it, as long as any is made at once."""
    for _ in range(50):
        there = world.names(resource)
        if not there:
            return
        for name in there:
            world.remove(resource, f"default/{name}")
        world.run_until_stable()
    pytest.fail(f"{resource} are made without end")


@pytest.mark.parametrize("resource", [GROUPS, PODS])
def test_objects_that_vanish_at_once_are_created_with_back_off(resource: str) -> None:
    world = running()
    collect(world, resource)
    before = made(world, resource)
    for _ in range(600):
        world.pass_time(0.1)
        collect(world, resource)
    assert 0 < made(world, resource) - before < 30
    world.pass_time(60)
    assert world.names(resource), "it goes on, should somebody else have been at work"


@pytest.mark.parametrize("resource", [GROUPS, PODS])
def test_a_single_loss_is_made_up_for_at_once(resource: str) -> None:
    world = running()
    for _ in range(3):
        number = len(world.names(resource))
        world.remove(resource, f"default/{world.names(resource)[0]}")
        world.run_until_stable()
        assert len(world.names(resource)) == number
        world.pass_time(90)


def test_objects_that_existed_for_a_while_are_created_at_once() -> None:
    world = running()
    for _ in range(20):
        world.pass_time(5)
        world.remove(GROUPS, f"default/{world.names(GROUPS)[0]}")
        world.run_until_stable()
        assert world.names(GROUPS)


def test_a_response_that_arrives_after_the_jobs_deletion_does_not_restore_it() -> None:
    world = running()
    for pod in world.pods():
        world.phase(pod, "Running")
    while not any(isinstance(event, EffectSucceeded) for event in world.inbox):
        assert world.step()
    late = next(event for event in world.inbox if isinstance(event, EffectSucceeded))
    world.inbox.remove(late)
    assert isinstance(late.object, Job)
    world.remove(kinds.JOB.resource, "default/job")
    while world.inbox:
        world.step()
    world.inbox.append(late)
    written = len(world.writes)
    world.run_until_stable()
    for pod in list(world.pods()):
        world.remove(PODS, f"default/{pod}")
    collect(world, GROUPS)
    world.pass_time(60)
    assert len(world.writes) == written
    assert "default/job" not in world.host["job-controller"].keys
