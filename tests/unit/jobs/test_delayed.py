"""Delayed actions: stored before they are timed, cancelled by what makes them pointless, executed once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.jobs.driver import World, spec, task
from volcanoio.engine.jobs.decide import delayed_actions
from volcanoio.engine.jobs.state.stored_state import DelayedAction, read_stored
from volcanoio.engine.jobs.state.transitions import TARGETED_ACTIONS
from volcanoio.model import names
from volcanoio.model.batch import JobAction

LATER = [{"event": "PodFailed", "action": "RestartJob", "timeout": "1m"}]
TOO_LONG_PENDING = [{"event": "PodPending", "action": "AbortJob", "timeout": "30s"}]


def failed(policies: Any = LATER) -> World:
    world = World()
    world.submit(spec(task(replicas=2), policies=policies))
    world.run_until_stable()
    for pod in world.pods():
        world.phase(pod, "Running")
    world.run_until_stable()
    world.phase("job-t-0", "Failed", 1)
    return world.run_until_stable()


def stored(world: World) -> bool:
    return names.PENDING_ACTION in world.job().status.controlled_resources


def test_a_delayed_action_is_stored_then_timed_then_executed_and_removed_in_one_write() -> None:
    world = failed()
    assert stored(world)
    assert world.job().status.version == 0
    assert [name for _, name, _ in world.timers.values()] == ["delayed"]
    world.pass_time(61)
    status = world.job().status
    assert (status.version, status.retry_count, stored(world)) == (1, 1, False)
    assert [name for _, name, _ in world.timers.values()] == ["counts"]


def test_the_timer_starts_only_once_the_action_is_stored() -> None:
    world = failed(policies=[])
    world.job()
    fresh = World()
    fresh.submit(spec(task(replicas=1), policies=LATER))
    fresh.run_until_stable().fire("counts")
    fresh.phase("job-t-0", "Failed", 1)
    while not fresh.timers:
        assert fresh.step()
    assert stored(fresh)


@pytest.mark.parametrize("away", [10, 600])
def test_overdue_at_start_means_once_and_now(away: int) -> None:
    world = failed()
    world.now += away
    world.crash()
    world.run_until_stable()
    assert world.job().status.version == (1 if away > 60 else 0)
    world.pass_time(600)
    assert world.job().status.version == 1
    world.pass_time(6000)
    assert world.job().status.version == 1


def test_a_pending_pod_that_runs_in_time_cancels() -> None:
    world = World()
    world.submit(spec(task(replicas=1), policies=TOO_LONG_PENDING))
    world.run_until_stable()
    assert stored(world)
    world.phase("job-t-0", "Running")
    world.run_until_stable()
    assert not stored(world)
    world.pass_time(60)
    assert world.job().status.state.phase == "Running"


def test_a_pod_pending_too_long_aborts() -> None:
    world = World()
    world.submit(spec(task(replicas=1), policies=TOO_LONG_PENDING))
    world.run_until_stable()
    world.pass_time(31)
    assert world.job().status.state.phase == "Aborted"


def test_a_running_successor_of_an_evicted_pod_cancels() -> None:
    world = failed(policies=[{"event": "PodEvicted", "action": "RestartJob", "timeout": "1m"}])
    world.remove("pods", "default/job-t-1")
    world.run_until_stable()
    assert stored(world)
    world.phase("job-t-1", "Running")
    world.run_until_stable()
    assert not stored(world)


def test_a_failure_of_a_pending_pod_is_answered_although_it_runs_later() -> None:
    world = World()
    world.submit(spec(task(replicas=1), policies=[{"event": "*", "action": "AbortJob", "timeout": "30s"}]))
    world.run_until_stable()
    restarted = {"initContainerStatuses": [{"name": "i", "restartCount": 5}]}
    world.change("pods", "default/job-t-0", {"status": restarted})
    world.run_until_stable()
    assert world.asked == ["PodPending job-t-0", "TaskFailed job-t-0"]
    world.phase("job-t-0", "Running")
    world.run_until_stable().pass_time(30)
    assert world.job().status.state.phase == "Aborted"


def test_a_completed_task_is_waited_for_once_also_by_a_fresh_process_after_it_was_scaled_down() -> None:
    world = World()
    policies = [{"event": "TaskCompleted", "action": "RestartTask", "timeout": "30s"}]
    world.submit(spec(task(replicas=2), policies=policies, minAvailable=1))
    for phase in ("Running", "Succeeded"):
        for pod in world.run_until_stable().pods():
            world.phase(pod, phase)
    world.run_until_stable().change("jobs.batch.volcano.sh", "default/job", {"spec": {"tasks": [task(replicas=1)]}})
    before = read_stored(world.run_until_stable().job().status).delayed
    world.crash()
    world.run_until_stable()
    assert world.asked.count("TaskCompleted job-t-1") == 1
    assert world.asked.count("TaskCompleted job-t-0") == 1
    assert read_stored(world.job().status).delayed == before


def test_an_executed_job_action_cancels_the_others() -> None:
    policies = [*LATER, {"event": "TaskFailed", "action": "RestartTask"}]
    world = failed(policies=policies)
    world.command("RestartJob")
    world.run_until_stable()
    assert not stored(world)
    world.pass_time(100)
    assert world.job().status.version == 1


def test_an_action_after_the_end_of_the_job_is_reported() -> None:
    world = World()
    world.submit(spec(task(replicas=2), minAvailable=1, minSuccess=1, policies=LATER))
    for pod in world.run_until_stable().pods():
        world.phase(pod, "Running")
    world.run_until_stable().phase("job-t-0", "Failed", 1)
    world.run_until_stable().phase("job-t-1", "Succeeded")
    world.run_until_stable()
    assert world.job().status.state.phase == "Completed"
    world.pass_time(61)
    assert (world.job().status.state.phase, world.job().status.version, stored(world)) == ("Completed", 0, False)
    reported = "action RestartJob was due, and changes nothing: the job is Completed by now"
    assert world.records.count(("Normal", "ExecuteAction", reported)) == 1


def test_a_delayed_action_is_stored_during_the_back_off_of_vanished_objects() -> None:
    world = World()
    world.submit(spec(task(replicas=2), policies=[{"event": "PodEvicted", "action": "AbortJob", "timeout": "5s"}]))
    for pod in ("job-t-0", "job-t-1"):
        world.run_until_stable()
        world.remove("pods", f"default/{pod}")
    world.run_until_stable()
    assert sorted(world.pods()) == ["job-t-0"]
    assert [entry.pods for entry in read_stored(world.job().status).delayed] == ["0-1"]
    assert world.job().status.pending == 1


def test_an_action_is_on_time_during_the_back_off_of_vanished_objects() -> None:
    world = World()
    world.submit(spec(task(replicas=1), policies=[{"event": "PodEvicted", "action": "AbortJob", "timeout": "20s"}]))
    for _ in range(205):
        world.run_until_stable()
        world.remove("pods", "default/job-t-0")
        world.pass_time(0.1)
    assert world.job().status.state.phase == "Aborted"


def test_a_fresh_process_waits_for_no_pod_that_a_restart_is_about_to_replace() -> None:
    policies = [{"event": "PodPending", "action": "RestartTask", "timeout": "5s"}]
    for steps in range(40):
        world = World(graceful=True)
        world.submit(spec(task(replicas=2), policies=policies))
        world.run_until_stable().elapse(5)
        for _ in range(steps):
            world.step()
        world.crash()
        world.run_until_stable()
        assert (world.job().status.state.phase, stored(world)) == ("Restarting", False), steps


def test_a_targeted_action_without_a_rule_for_its_pods_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delayed_actions, "TARGETED_ACTIONS", TARGETED_ACTIONS | {JobAction.SYNC_JOB})
    entry = DelayedAction(action=JobAction.SYNC_JOB, cause="PodFailed", due=1.0, version=0, task="t", pods="0-3")
    with pytest.raises(NotImplementedError, match="SyncJob"):
        delayed_actions.actions_after((entry,), JobAction.SYNC_JOB, "t", frozenset({0}), 2)
