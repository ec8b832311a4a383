"""A job does not end by an event whose answer is still to be carried out: retries with back-off, and holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.jobs.driver import START, Asked, World, spec, task
from volcanoio.framework.decisions import Abstain, Act, Decision, Hold
from volcanoio.framework.lifecycle import PolicyContext
from volcanoio.model.batch import JobAction, JobEvent

Answer = Callable[[PolicyContext], Decision]


def doubling(context: PolicyContext) -> Decision:
    """Restart a failed pod after 2, 4, 8 … seconds."""
    if context.event.name != JobEvent.POD_FAILED:
        return Abstain()
    return Act(action=JobAction.RESTART_POD, after=2.0 ** (context.job.status.retry_count + 1))


def after_a_look(context: PolicyContext) -> Decision:
    """Hold for ten seconds what failed or was evicted in the first ten, then restart the pod."""
    if context.event.name not in (JobEvent.POD_FAILED, JobEvent.POD_EVICTED):
        return Abstain()
    if context.now < START + 10:
        return Hold(reason="looking at the node", until=START + 10)
    return Act(action=JobAction.RESTART_POD)


def failed(answer: Answer, pods: int = 1, **fields: object) -> World:
    """A job all of whose pods have failed."""
    world = World(policy=Asked(answer))
    world.submit(spec(task(replicas=pods), **fields))
    world.run_until_stable()
    fail(world)
    return world


def fail(world: World) -> None:
    for name in world.pods():
        world.phase(name, "Running")
    world.run_until_stable()
    for name in world.pods():
        world.phase(name, "Failed", 1)
    world.run_until_stable()


def phase(world: World) -> str:
    return str(world.job().status.state.phase)


def test_a_pod_is_retried_after_longer_and_longer_times_until_the_retries_are_used_up() -> None:
    world = failed(doubling)
    for pause in (2, 4):
        state = world.job().status.state
        assert (state.phase, state.reason) == ("Running", "DelayedAction")
        world.pass_time(pause - 1)
        assert phase(world) == "Running"
        world.pass_time(1)
        assert (phase(world), world.pods()["job-t-0"].status.phase) == ("Pending", "Pending")
        assert world.job().status.state.reason == ""
        fail(world)
    world.pass_time(8)
    assert (phase(world), world.job().status.retry_count) == ("Failed", 3)


def test_the_job_shows_which_action_it_waits_for() -> None:
    world = failed(doubling, pods=3)
    state = world.job().status.state
    reported = "RestartPod follows at 2023-11-14T22:13:22Z, as an answer to PodFailed of 3 pods of task t"
    assert state.message == reported


def test_a_declared_time_limit_keeps_a_failed_job_from_ending_too() -> None:
    world = World()
    world.submit(spec(task(replicas=1), policies=[{"event": "PodFailed", "action": "RestartJob", "timeout": "1m"}]))
    world.run_until_stable()
    fail(world)
    assert phase(world) == "Running"
    world.pass_time(60)
    assert (phase(world), world.job().status.version) == ("Pending", 1)


def test_a_completed_task_whose_restart_is_pending_does_not_complete_the_job() -> None:
    world = World()
    world.submit(spec(task(replicas=1), policies=[{"event": "TaskCompleted", "action": "RestartJob", "timeout": "1m"}]))
    world.run_until_stable().phase("job-t-0", "Running")
    world.run_until_stable().phase("job-t-0", "Succeeded")
    assert phase(world.run_until_stable()) == "Running"
    world.pass_time(60)
    assert (phase(world), world.job().status.version) == ("Pending", 1)


def test_a_job_does_not_wait_to_be_completed_where_it_is_complete() -> None:
    policies = [{"event": "TaskCompleted", "action": "CompleteJob", "timeout": "1m"}]
    world = World()
    world.submit(spec(task(replicas=1), policies=policies))
    world.run_until_stable().phase("job-t-0", "Running")
    world.run_until_stable().phase("job-t-0", "Succeeded")
    assert phase(world.run_until_stable()) == "Completed"


def test_a_job_with_enough_successes_does_not_wait_for_the_retry_of_another_pod() -> None:
    world = World(policy=Asked(doubling))
    world.submit(spec(task(replicas=2), minAvailable=1, minSuccess=1))
    for name in world.run_until_stable().pods():
        world.phase(name, "Running")
    world.run_until_stable().phase("job-t-0", "Failed", 1)
    world.run_until_stable().phase("job-t-1", "Succeeded")
    assert phase(world.run_until_stable()) == "Completed"


def test_a_job_ends_if_its_retry_became_obsolete() -> None:
    world = failed(lambda context: Act(action=JobAction.RESTART_PARTITION, after=5))
    assert phase(world) == "Running"
    world.pass_time(5)
    assert phase(world) == "Failed"


def test_a_hold_is_asked_about_again_when_it_ends_and_the_answer_decides() -> None:
    world = failed(after_a_look, pods=2)
    state = world.job().status.state
    assert (state.phase, state.reason, state.message) == ("Running", "Hold", "looking at the node")
    world.pass_time(9)
    assert world.asked == ["PodFailed job-t-0", "PodFailed job-t-1"]
    world.pass_time(1)
    assert world.asked == ["PodFailed job-t-0", "PodFailed job-t-1"] * 2
    assert (phase(world), world.job().status.retry_count) == ("Pending", 1)
    assert {pod.status.phase for pod in world.pods().values()} == {"Pending"}


def test_a_job_ends_once_no_policy_holds_it() -> None:
    world = failed(lambda context: Hold(reason="wait", until=START + 10) if context.now < START + 10 else Abstain())
    world.pass_time(10)
    assert (phase(world), world.job().status.state.reason) == ("Failed", "")


def test_an_eviction_that_a_policy_held_the_job_for_is_asked_about_again() -> None:
    world = World(policy=Asked(after_a_look))
    world.submit(spec(task(replicas=2)))
    for name in world.run_until_stable().pods():
        world.phase(name, "Running")
    world.run_until_stable().remove("pods", "default/job-t-1")
    world.run_until_stable()
    assert list(world.pods()) == ["job-t-0"]
    world.pass_time(10)
    assert world.asked == ["PodEvicted job-t-1"] * 2
    assert list(world.pods()) == ["job-t-0", "job-t-1"]


def test_a_change_of_the_spec_that_a_policy_held_the_job_for_is_asked_about_again() -> None:
    held = Hold(reason="the team lead decides", until=START + 10)
    world = World(policy=Asked(lambda context: held if context.now < START + 10 else Abstain()))
    world.submit(spec(task(replicas=2)))
    world.run_until_stable().change("jobs.batch.volcano.sh", "default/job", {"spec": {"tasks": [task(replicas=3)]}})
    world.run_until_stable()
    assert len(world.pods()) == 2
    world.pass_time(10)
    assert world.asked == ["JobUpdated"] * 2
    assert len(world.pods()) == 3


def test_a_hold_that_is_over_when_it_is_answered_is_asked_about_once_a_second() -> None:
    world = failed(lambda context: Hold(reason="wait", until=0.0))
    assert len(world.asked) == 1
    world.pass_time(1)
    assert len(world.asked) == 2


@pytest.mark.parametrize("answer", [doubling, after_a_look])
@pytest.mark.parametrize("evicted", [False, True])
def test_a_controller_killed_anywhere_retries_as_if_it_had_not_been(answer: Answer, evicted: bool) -> None:
    def lived(killed: list[int]) -> tuple[object, ...]:
        world = World(policy=Asked(answer))
        world.submit(spec(task(replicas=2)))
        for name in world.run_until_stable().pods():
            world.phase(name, "Running")
        world.run_until_stable()
        world.remove("pods", "default/job-t-1") if evicted else world.phase("job-t-1", "Failed", 1)
        world.phase("job-t-0", "Failed", 1)
        for seconds in (0, 2, 8):
            world.elapse(seconds)
            for _ in range(killed.pop(0)):
                world.step()
            world.crash()
            world.run_until_stable()
        status = world.job().status
        return status.state.phase, status.retry_count, [pod.status.phase for pod in world.pods().values()]

    calm = lived([1000, 1000, 1000])
    assert calm == ("Pending", 0 if evicted and answer is after_a_look else 1, ["Pending", "Pending"])
    for steps in range(40):
        for moment in range(3):
            assert lived([steps if place == moment else 1000 for place in range(3)]) == calm
