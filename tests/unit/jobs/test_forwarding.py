"""Jobs and pods of a queue that extends to other clusters are marked for forwarding."""

from __future__ import annotations

import pytest

from tests.unit.jobs.driver import World, spec, task
from volcanoio.model import kinds, names

FORWARDING = names.JOB_FORWARDING


def submitted() -> World:
    world = World()
    extended = {"metadata": {"name": "far"}, "spec": {"extendClusters": [{"name": "east", "weight": 1}]}}
    world.put(kinds.QUEUE, "", extended)
    world.submit(spec(task(replicas=2), queue="far"))
    return world


def test_job_and_pods_are_marked() -> None:
    world = submitted().run_until_stable()
    assert world.job().metadata.annotations[FORWARDING] == "true"
    for pod in world.pods().values():
        assert (pod.metadata.annotations[FORWARDING], pod.metadata.labels[FORWARDING]) == ("true", "true")


@pytest.mark.parametrize("steps", range(1, 12))
def test_no_pod_is_made_before_the_job_is_marked(steps: int) -> None:
    world = submitted()
    for _ in range(steps):
        world.step()
    world.crash()
    world.run_until_stable()
    assert all(FORWARDING in pod.metadata.labels for pod in world.pods().values())
    assert len(world.pods()) == 2


def test_jobs_of_other_queues_are_not_marked() -> None:
    world = World()
    world.submit(spec())
    world.run_until_stable()
    assert FORWARDING not in world.job().metadata.annotations
    assert all(FORWARDING not in pod.metadata.labels for pod in world.pods().values())
