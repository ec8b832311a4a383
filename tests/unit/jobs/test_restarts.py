"""What happens while everything is down, and at every single step, ends as if we had been there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.jobs.driver import World, spec, task

ANY = [{"event": "*", "action": "RestartJob"}]


def running(graceful: bool = False, **fields: Any) -> World:
    world = World(graceful=graceful)
    world.submit(spec(task(replicas=3), **fields))
    world.run_until_stable()
    for pod in world.pods():
        world.phase(pod, "Running")
    return world.run_until_stable()


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


DISTURBANCES = [fail, finish, evict, evict_slowly, abort, scale_down]


@pytest.mark.parametrize("disturbance", DISTURBANCES)
@pytest.mark.parametrize("policies", [[], ANY, [{"event": "PodFailed", "action": "RestartPod"}]])
def test_disturbances_while_the_controller_is_down(disturbance: Any, policies: Any) -> None:
    present, absent = running(policies=policies), running(policies=policies)
    disturbance(present)
    disturbance(absent)
    absent.vanish()
    absent.crash()
    for world in (present.run_until_stable(), absent.run_until_stable()):
        world.vanish()
        world.run_until_stable()
    assert outcome(absent) == outcome(present)


@pytest.mark.parametrize("disturbance", DISTURBANCES)
@pytest.mark.parametrize("graceful", [False, True])
def test_killed_at_every_step(disturbance: Any, graceful: bool) -> None:
    undisturbed = running(graceful, policies=ANY)
    disturbance(undisturbed)
    undisturbed.run_until_stable().vanish()
    undisturbed.run_until_stable()
    for steps in range(1, 45):
        world = running(graceful, policies=ANY)
        disturbance(world)
        for _ in range(steps):
            world.step()
        world.crash()
        world.run_until_stable().vanish()
        world.run_until_stable()
        assert outcome(world) == outcome(undisturbed), steps


def test_a_pod_recorded_as_terminating_is_evicted_even_if_its_end_was_not_observed() -> None:
    world = running(policies=ANY)
    evict_slowly(world)
    world.run_until_stable()
    world.fire("counts")
    assert world.job().status.terminating == 1
    world.vanish()
    world.crash()
    world.run_until_stable()
    assert world.asked == ["PodEvicted job-t-2"]
    assert world.job().status.version == 1


def test_a_new_process_writes_nothing_about_a_stable_job() -> None:
    world = running(policies=ANY)
    writes = len(world.writes)
    world.crash()
    world.run_until_stable()
    assert (len(world.writes), world.asked) == (writes, [])


@pytest.mark.parametrize("killed", [False, True])
def test_a_pod_that_a_restart_replaces_anyway_is_no_eviction(killed: bool) -> None:
    world = running(graceful=True, policies=[{"event": "PodEvicted", "action": "RestartTask", "timeout": "5s"}])
    world.remove("pods", "default/job-t-0")
    evict_slowly(world)
    world.run_until_stable().pass_time(5)
    assert world.job().status.state.phase == "Restarting"
    world.vanish()
    if killed:
        world.crash()
    world.run_until_stable()
    assert world.asked == ["PodEvicted job-t-0"]
    assert world.job().status.state.phase == "Pending"
    assert not world.pass_time(15).timers


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("timeout", [{}, {"timeout": "5s"}])
def test_a_pod_that_is_evicted_while_others_restart_is_missed(killed: bool, timeout: Any) -> None:
    policies = [
        {"event": "PodFailed", "action": "RestartPod"},
        {"event": "PodEvicted", "action": "RestartJob", **timeout},
    ]
    world = running(graceful=True, policies=policies)
    fail(world)
    world.run_until_stable()
    assert world.job().status.state.phase == "Restarting"
    evict(world)
    if killed:
        world.crash()
    world.run_until_stable()
    assert world.asked[-1] == "PodEvicted job-t-2"
    world.pass_time(5)
    assert world.job().status.version == 1


@pytest.mark.parametrize("killed", [False, True])
def test_a_restarted_pod_that_somebody_else_was_deleting_is_not_missed_once_the_restart_is_over(killed: bool) -> None:
    policies = [{"event": "PodFailed", "action": "RestartTask"}, {"event": "PodEvicted", "action": "AbortJob"}]
    world = running(graceful=True, minAvailable=1, policies=policies)
    evict_slowly(world)
    fail(world)
    world.run_until_stable()
    for pod in ("job-t-0", "job-t-1"):
        world.remove("pods", f"default/{pod}")
    world.run_until_stable()
    assert world.job().status.state.phase == "Pending"
    world.vanish()
    if killed:
        world.crash()
    world.run_until_stable()
    assert world.asked == ["PodFailed job-t-1"]
    assert sorted(world.pods()) == ["job-t-0", "job-t-1", "job-t-2"]


def test_a_completed_task_restarts_a_pod_once_wherever_we_are_killed() -> None:
    for steps in range(30):
        world = running(policies=[{"event": "TaskCompleted", "action": "RestartPod"}])
        finish(world)
        for _ in range(steps):
            world.step()
        world.crash()
        world.run_until_stable()
        pods = {name: pod.status.phase for name, pod in world.pods().items()}
        assert pods == {"job-t-0": "Succeeded", "job-t-1": "Succeeded", "job-t-2": "Pending"}, steps


@pytest.mark.parametrize("killed", [False, True])
def test_a_task_fails_again_by_the_pods_that_it_has_left(killed: bool) -> None:
    world = running(graceful=True, minAvailable=1, policies=[{"event": "TaskFailed", "action": "RestartPod"}])
    restarted = {"status": {"containerStatuses": [{"name": "c", "restartCount": 3}]}}
    for pod in ("job-t-0", "job-t-1"):
        world.change("pods", f"default/{pod}", restarted)
        if killed:
            world.crash()
        world.run_until_stable()
    assert world.asked == ["TaskFailed job-t-0", "TaskFailed job-t-1"]
