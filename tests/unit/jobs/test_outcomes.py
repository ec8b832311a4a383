"""Refused and unknown writes: nothing is lost or done twice, and retries back off."""

from __future__ import annotations

import pytest

from tests.unit.jobs.driver import World, spec, task
from volcanoio.framework.effects import Patch

JOBS = "jobs.batch.volcano.sh"


def test_a_conflicting_status_is_computed_again_from_the_newer_job_and_never_resent() -> None:
    world = World()
    world.submit(spec(task(replicas=1)))
    while not world.outbox:
        assert world.step()
    world.change(JOBS, "default/job", {"metadata": {"labels": {"touched": "yes"}}})
    world.run_until_stable()
    versions = [
        effect.resource_version for effect in world.writes if isinstance(effect, Patch) and effect.resource == JOBS
    ]
    assert len(versions) == len(set(versions))
    assert world.pass_time(15).job().status.pending == 1
    assert not world.timers, "a conflict needs no back-off: the newer job is on its way"


def test_a_conflict_without_a_newer_version_does_not_stop_a_job_for_good() -> None:
    world = World()
    world.refusals[f"{JOBS}/status"] = (409, "somebody in front of the server said so")
    world.submit(spec(task(replicas=1)))
    world.run_until_stable()
    assert not world.job().status.state.phase
    (_, _, due) = world.timers["default/job/conflict"]
    world.pass_time(due - world.now)
    assert len([effect for effect in world.writes if isinstance(effect, Patch) and effect.resource == JOBS]) == 2
    world.refusals.clear()
    (_, _, due) = world.timers["default/job/conflict"]
    world.pass_time(due - world.now)
    assert world.job().status.pending == 1
    assert not world.timers


def test_waits_between_failures_grow() -> None:
    world = World()
    world.refusals["pods"] = (0, "")
    world.submit(spec(task(replicas=1)))
    world.run_until_stable()
    waits = []
    for _ in range(4):
        (_, _, due) = world.timers["default/job/retry"]
        waits.append(round(due - world.now, 3))
        world.pass_time(due - world.now)
    assert waits == [0.2, 0.4, 0.8, 1.6]


def test_a_command_does_not_wait_for_a_back_off() -> None:
    world = World()
    world.refusals["pods"] = (403, "exceeded quota")
    world.submit(spec(task(replicas=1)))
    world.run_until_stable()
    world.command("AbortJob")
    world.run_until_stable()
    assert world.job().status.state.phase == "Aborted"


def test_a_decided_action_does_not_wait_for_a_back_off() -> None:
    world = World()
    world.submit(spec(task(replicas=1), minAvailable=1, policies=[{"event": "PodFailed", "action": "AbortJob"}]))
    world.run_until_stable()
    world.refusals["pods"] = (403, "exceeded quota")
    world.change(JOBS, "default/job", {"spec": {"tasks": [task(replicas=2)]}})
    world.run_until_stable()
    world.phase("job-t-0", "Failed", 1)
    world.run_until_stable()
    assert world.job().status.state.phase == "Aborted"


@pytest.mark.parametrize("resource", ["podgroups.scheduling.volcano.sh", "configmaps", "pods"])
def test_after_a_refusal_all_objects_are_still_created(resource: str) -> None:
    world = World()
    world.refusals[resource] = (500, "try later")
    world.submit(spec(task(replicas=2), plugins={"svc": []}))
    world.run_until_stable()
    world.refusals.clear()
    world.pass_time(1)
    assert len(world.pods()) == 2
    assert world.names("configmaps") == ["job-svc"]
    assert not world.collisions


def test_a_deleted_job_is_forgotten_with_its_timers() -> None:
    world = World()
    world.submit(spec(task(replicas=1), policies=[{"event": "PodFailed", "action": "RestartJob", "timeout": "1m"}]))
    world.run_until_stable()
    world.phase("job-t-0", "Failed", 1)
    world.run_until_stable()
    assert world.timers
    world.remove(JOBS, "default/job")
    for resource in ("pods", "podgroups.scheduling.volcano.sh"):
        for name in world.names(resource):
            world.remove(resource, f"default/{name}")
    world.run_until_stable()
    assert not world.timers
    assert world.host["job-controller"].keys == []


def test_a_job_of_the_same_name_starts_over_once_the_old_pods_are_gone() -> None:
    world = World(graceful=True)
    world.submit(spec(task(replicas=1)))
    world.run_until_stable()
    old = world.pods()["job-t-0"].metadata.uid
    world.remove(JOBS, "default/job")
    world.remove("pods", "default/job-t-0", graceful=True)
    world.submit(spec(task(replicas=1)))
    world.run_until_stable()
    assert world.pods()["job-t-0"].metadata.uid == old
    world.vanish()
    world.run_until_stable()
    assert world.pods()["job-t-0"].metadata.uid != old
    assert not world.collisions
    assert not world.asked
