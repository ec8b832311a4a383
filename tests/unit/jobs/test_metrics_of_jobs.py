"""The job controller's metrics: Volcano's names and labels, each phase counted once."""

from __future__ import annotations

from tests.unit.jobs.driver import World, spec, task
from volcanoio.framework.effects import Measurement
from volcanoio.model import kinds

COMPLETED = "volcano_job_completed_phase_count"
FAILED = "volcano_job_failed_phase_count"
LATENCY = "volcano_controller_job_to_pod_creation_latency_milliseconds"


def ended(phase: str) -> World:
    world = World()
    world.submit(spec(task(replicas=2)))
    for end in ("Running", phase):
        for pod in world.run_until_stable().pods():
            world.phase(pod, end)
    return world.run_until_stable()


def counted(world: World) -> list[tuple[str, dict[str, str]]]:
    """Return what was counted, without the zeros with which counters begin."""
    return [(one.name, one.labels) for one in world.figures if one.measurement is Measurement.COUNT and one.value]


def begun(world: World) -> list[str]:
    """Return the counters that were begun at zero."""
    return [one.name for one in world.figures if one.measurement is Measurement.COUNT and not one.value]


def test_an_end_is_counted_once_by_job_and_queue() -> None:
    labels = {"job_name": "default/job", "queue_name": "default"}
    assert counted(ended("Succeeded")) == [(COMPLETED, labels)]
    assert counted(ended("Failed")) == [(FAILED, labels)]


def test_the_counters_of_a_job_begin_at_zero() -> None:
    """Otherwise Prometheus' increase() misses the first end: a series that appears with 1 has not increased."""
    world = World()
    world.submit(spec(task(replicas=2)))
    assert begun(world.run_until_stable()) == [COMPLETED, FAILED]
    world.crash()
    assert begun(world.run_until_stable()) == [COMPLETED, FAILED] * 2


def test_a_job_that_has_ended_before_has_no_counters() -> None:
    """Series are limited, and there may be any number of such Jobs."""
    world = ended("Succeeded")
    world.figures.clear()
    world.crash()
    assert begun(world.run_until_stable()) == []


def test_a_new_process_counts_jobs_that_end_later() -> None:
    world = ended("Succeeded")
    world.crash()
    world.run_until_stable()
    assert len(counted(world)) == 1


def test_the_series_of_a_deleted_job_are_dropped() -> None:
    world = ended("Succeeded")
    world.remove(kinds.JOB.resource, "default/job")
    world.run_until_stable()
    dropped = [one for one in world.figures if one.measurement is Measurement.FORGET]
    assert sorted(one.name for one in dropped) == [COMPLETED, FAILED]
    assert all(one.labels == {"job_name": "default/job"} for one in dropped)


def test_the_creation_of_pods_is_measured_from_that_of_the_job() -> None:
    world = World()
    world.submit(spec(task(replicas=3)))
    world.run_until_stable(admit=False)
    world.pass_time(7.0)
    samples = [(one.value, one.times) for one in world.figures if one.name == LATENCY]
    assert samples == [(7000.0, 3)]
