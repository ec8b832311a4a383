"""Edits of a job's spec raise JobUpdated once, also if they happened while the controller was down."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.jobs.driver import World, spec, task

JOBS = "jobs.batch.volcano.sh"
ON_UPDATE = [{"event": "JobUpdated", "action": "RestartJob"}]
ON_ANYTHING = [{"event": "*", "action": "RestartJob"}]


def running(policies: Any) -> World:
    world = World()
    world.submit(spec(task(replicas=2, minAvailable=1), policies=policies))
    for pod in world.run_until_stable().pods():
        world.phase(pod, "Running")
    return world.run_until_stable()


def scale(world: World, replicas: int) -> None:
    tasks = [task(replicas=replicas, minAvailable=1)]
    world.change(JOBS, "default/job", {"spec": {"tasks": tasks}})


def test_a_policy_on_job_updated_acts_with_the_new_spec() -> None:
    world = running(ON_UPDATE)
    scale(world, 3)
    world.run_until_stable()
    status = world.job().status
    assert (status.version, status.retry_count) == (1, 1)
    assert [pod.metadata.annotations["volcano.sh/job-version"] for pod in world.pods().values()] == ["1"] * 3


def test_any_event_leaves_job_updated_out() -> None:
    world = running(ON_ANYTHING)
    scale(world, 3)
    world.run_until_stable()
    assert world.asked == ["JobUpdated"]
    assert (world.job().status.version, len(world.pods())) == (0, 3)


def test_labels_and_status_are_no_update() -> None:
    world = running(ON_UPDATE)
    world.change(JOBS, "default/job", {"metadata": {"labels": {"touched": "yes"}}})
    world.run_until_stable()
    assert not world.asked


@pytest.mark.parametrize("steps", range(25))
def test_an_edit_acts_once_wherever_we_are_killed(steps: int) -> None:
    world = running(ON_UPDATE)
    scale(world, 3)
    for _ in range(steps):
        world.step()
    world.crash()
    world.run_until_stable()
    assert (world.job().status.version, len(world.pods())) == (1, 3)


def test_an_edit_while_the_controller_was_down_raises_one_event() -> None:
    world = running(ON_UPDATE)
    world.crash()
    scale(world, 3)
    world.crash()
    world.run_until_stable()
    assert (world.job().status.version, len(world.pods())) == (1, 3)
    world.crash()
    assert world.run_until_stable().job().status.version == 1


def test_an_edit_of_a_suspended_job_raises_no_event_when_it_resumes() -> None:
    world = running(ON_UPDATE)
    world.command("AbortJob")
    world.run_until_stable()
    scale(world, 3)
    world.run_until_stable()
    world.command("ResumeJob")
    world.crash()
    world.run_until_stable()
    assert (world.job().status.version, len(world.pods())) == (2, 3)
    assert not world.asked
