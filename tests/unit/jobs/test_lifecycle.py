"""Lifecycles of jobs as users see them: phases, pods and counts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.jobs.driver import World, spec, task
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

RESTART_ON_FAILURE = [{"event": "PodFailed", "action": "RestartJob"}]


def running(*tasks: Manifest, **fields: Any) -> World:
    """A world with one job whose pods all run."""
    world = World(graceful=fields.pop("graceful", False))
    world.submit(spec(*tasks, **fields))
    world.run_until_stable()
    for pod in world.pods():
        world.phase(pod, "Running")
    return world.run_until_stable()


def phases(world: World) -> list[str]:
    """Return the phases of the job, oldest first, with the newest visit of each."""
    return [condition.status for condition in world.job().status.conditions]


def test_pods_wait_until_the_scheduler_admits_the_pod_group() -> None:
    world = World()
    world.submit(spec(task(replicas=3)))
    world.run_until_stable(admit=False)
    assert world.job().status.state.phase == "Pending"
    assert world.names("podgroups.scheduling.volcano.sh") == [f"job-{world.job().metadata.uid}"]
    assert not world.pods()
    world.run_until_stable()
    assert list(world.pods()) == ["job-t-0", "job-t-1", "job-t-2"]
    assert world.job().status.pending == 0, "the write that enters Running will have the counts"
    assert world.pass_time(15).job().status.pending == 3
    assert not world.timers


def test_a_job_runs_to_completion_and_keeps_its_counts() -> None:
    world = running(task(replicas=2), plugins={"svc": [], "env": []})
    assert world.job().status.state.phase == "Running"
    for pod in world.pods():
        world.phase(pod, "Succeeded")
    world.run_until_stable()
    status = world.job().status
    assert (status.state.phase, status.succeeded, status.task_status_count["t"].phase) == (
        "Completed",
        2,
        {"Succeeded": 2},
    )
    assert phases(world) == ["Pending", "Running", "Completed"]
    assert not world.names("podgroups.scheduling.volcano.sh")
    assert not world.names("configmaps")
    assert list(world.pods()) == ["job-t-0", "job-t-1"]


def test_any_event_restarts_the_whole_job_and_the_last_failure_never_passes_through_failed() -> None:
    world = running(task(replicas=2), policies=[{"event": "*", "action": "RestartJob"}])
    world.phase("job-t-0", "Failed", 1)
    world.phase("job-t-1", "Failed", 1)
    world.run_until_stable()
    status = world.job().status
    assert "Failed" not in phases(world)
    assert (status.state.phase, status.retry_count, status.version) == ("Pending", 1, 1)
    for pod in world.pods():
        world.phase(pod, "Running")
    for pod in world.run_until_stable().pods():
        world.phase(pod, "Succeeded")
    world.run_until_stable()
    status = world.job().status
    assert (status.state.phase, status.retry_count) == ("Completed", 1)


def test_with_retries_used_up_the_job_fails_and_its_ended_pods_are_kept() -> None:
    world = running(task(replicas=2), policies=RESTART_ON_FAILURE, maxRetry=2)
    for _ in range(2):
        for pod in world.pods():
            world.phase(pod, "Running")
        world.run_until_stable()
        world.phase("job-t-0", "Failed", 1)
        world.run_until_stable()
    status = world.job().status
    assert (status.state.phase, status.retry_count, status.failed, status.running) == ("Failed", 2, 1, 0)
    assert list(world.pods()) == ["job-t-0"]


def test_without_policies_failed_pods_end_the_job_once_all_have_ended() -> None:
    world = running(task(replicas=2))
    world.phase("job-t-0", "Failed", 1)
    assert world.run_until_stable().job().status.state.phase == "Running"
    world.phase("job-t-1", "Succeeded")
    assert world.run_until_stable().job().status.state.phase == "Failed"


def test_a_completed_task_completes_the_job_and_ends_the_others() -> None:
    workers = task("worker", 2, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}])
    world = running(task("ps", 1), workers, policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    world.phase("job-worker-0", "Succeeded")
    assert world.run_until_stable().job().status.state.phase == "Running"
    world.phase("job-worker-1", "Succeeded")
    world.run_until_stable()
    status = world.job().status
    assert (status.state.phase, status.succeeded, status.retry_count) == ("Completed", 2, 0)
    assert list(world.pods()) == ["job-worker-0", "job-worker-1"]


def test_an_eviction_restarts_without_costing_a_retry() -> None:
    world = running(task(replicas=2), policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    world.remove("pods", "default/job-t-1")
    world.run_until_stable()
    status = world.job().status
    assert (status.state.phase, status.version, status.retry_count) == ("Pending", 1, 0)
    assert {pod.metadata.annotations["volcano.sh/job-version"] for pod in world.pods().values()} == {"1"}


def test_a_pod_that_fails_while_it_is_being_evicted_is_an_eviction_and_no_failure() -> None:
    world = running(policies=RESTART_ON_FAILURE)
    world.remove("pods", "default/job-t-0", graceful=True)
    world.phase("job-t-0", "Failed", 137)
    world.run_until_stable()
    world.vanish()
    world.run_until_stable()
    assert world.asked == ["PodEvicted job-t-0"]
    assert world.job().status.retry_count == 0


@pytest.mark.parametrize("graceful", [False, True])
def test_scaling_down_is_no_eviction(graceful: bool) -> None:
    world = running(
        task(replicas=4, minAvailable=2), policies=[{"event": "*", "action": "RestartJob"}], graceful=graceful
    )
    world.change("jobs.batch.volcano.sh", "default/job", {"spec": spec(task(replicas=2, minAvailable=2))})
    world.run_until_stable()
    world.vanish()
    world.run_until_stable()
    assert list(world.pods()) == ["job-t-0", "job-t-1"]
    assert world.asked == ["JobUpdated"]
    assert world.job().status.state.phase == "Running"


def test_scaling_up_creates_the_missing_pods_and_updates_hosts_and_group() -> None:
    world = running(task(replicas=2), plugins={"svc": []})
    world.change("jobs.batch.volcano.sh", "default/job", {"spec": spec(task(replicas=3))})
    world.run_until_stable()
    assert len(world.pods()) == 3
    hosts = world.objects["configmaps", "default/job-svc"]["data"]
    assert hosts["VC_T_NUM"] == "3"
    assert hosts["t.host"] == "job-t-0.job\njob-t-1.job\njob-t-2.job"
    group = next(item for (kind, _), item in world.objects.items() if kind == kinds.POD_GROUP.resource)
    assert group["spec"]["minMember"] == 3
    assert group["spec"]["minResources"]["count/pods"] == "3"


def test_abort_and_resume_keep_finished_pods_and_cost_no_retry() -> None:
    world = running(task(replicas=2, minAvailable=1), plugins={"ssh": []})
    world.phase("job-t-0", "Succeeded")
    world.run_until_stable()
    world.command("AbortJob")
    world.run_until_stable()
    status = world.job().status
    assert (status.state.phase, status.succeeded, status.running) == ("Aborted", 1, 0)
    assert not world.names("commands.bus.volcano.sh")
    assert not world.names("secrets")
    world.command("ResumeJob")
    world.run_until_stable()
    status = world.job().status
    assert (status.state.phase, status.retry_count, status.succeeded, status.pending) == ("Running", 0, 1, 1)
    assert world.names("secrets") == ["job-ssh"]


@pytest.mark.parametrize(
    ("action", "phase"), [("AbortJob", "Aborted"), ("TerminateJob", "Terminated"), ("CompleteJob", "Completed")]
)
def test_commands_are_not_lost_while_restarting(action: Any, phase: Any) -> None:
    world = running(policies=RESTART_ON_FAILURE, graceful=True)
    world.phase("job-t-0", "Failed", 1)
    world.run_until_stable()
    assert world.job().status.state.phase == "Restarting"
    world.command(action)
    world.run_until_stable()
    world.vanish()
    world.run_until_stable()
    assert world.job().status.state.phase == phase


def test_restart_pod_replaces_that_pod_alone() -> None:
    world = running(policies=[{"event": "PodFailed", "action": "RestartPod"}], plugins={"svc": [], "ssh": []})
    before = {name: pod.metadata.uid for name, pod in world.pods().items()}
    groups = world.names(kinds.POD_GROUP.resource)
    secret = world.objects["secrets", "default/job-ssh"]["metadata"]["uid"]
    world.phase("job-t-0", "Failed", 1)
    world.run_until_stable()
    after = {name: pod.metadata.uid for name, pod in world.pods().items()}
    status = world.job().status
    assert after["job-t-0"] != before["job-t-0"]
    assert after["job-t-1"] == before["job-t-1"]
    assert (status.retry_count, status.version, world.names(kinds.POD_GROUP.resource)) == (1, 0, groups)
    assert world.objects["secrets", "default/job-ssh"]["metadata"]["uid"] == secret
    assert world.asked == ["PodFailed job-t-0"]


def test_restart_task_replaces_its_pods_alone() -> None:
    world = running(task("a", 2), task("b", 1), policies=[{"event": "PodFailed", "action": "RestartTask"}])
    before = {name: pod.metadata.uid for name, pod in world.pods().items()}
    world.phase("job-a-1", "Failed", 1)
    world.run_until_stable()
    after = {name: pod.metadata.uid for name, pod in world.pods().items()}
    assert {name for name in after if after[name] != before[name]} == {"job-a-0", "job-a-1"}


def test_restart_partition_replaces_its_pods_alone() -> None:
    parts = task("a", 4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2})
    world = running(parts, policies=[{"event": "PodFailed", "action": "RestartPartition"}])
    before = {name: pod.metadata.uid for name, pod in world.pods().items()}
    world.phase("job-a-2", "Failed", 1)
    world.run_until_stable()
    after = {name: pod.metadata.uid for name, pod in world.pods().items()}
    assert {name for name in after if after[name] != before[name]} == {"job-a-2", "job-a-3"}


def test_restart_pod_after_an_eviction_makes_the_pod_again() -> None:
    world = running(policies=[{"event": "PodEvicted", "action": "RestartPod"}])
    world.remove("pods", "default/job-t-0")
    world.run_until_stable()
    assert list(world.pods()) == ["job-t-0", "job-t-1"]
    assert world.job().status.retry_count == 0
    assert "Restarting" in phases(world)


def test_exit_codes_choose_the_action() -> None:
    policies = [{"exitCode": 3, "action": "RestartJob"}, {"exitCode": 4, "action": "TerminateJob"}]
    world = running(policies=policies)
    world.phase("job-t-0", "Failed", 4)
    world.run_until_stable()
    assert world.job().status.state.phase == "Terminated"


def test_min_success_completes_early_and_the_rest_is_ended() -> None:
    world = running(task(replicas=3, minAvailable=1), minSuccess=1)
    world.phase("job-t-1", "Succeeded")
    world.run_until_stable()
    assert world.job().status.state.phase == "Completed"
    assert list(world.pods()) == ["job-t-1"]


def test_unknown_pod_group_raises_unknown_also_after_a_restart() -> None:
    world = running(policies=[{"event": "Unknown", "action": "RestartJob"}])
    for expected in (1, 2):
        group = world.names(kinds.POD_GROUP.resource)[0]
        world.change(kinds.POD_GROUP.resource, f"default/{group}", {"status": {"phase": "Unknown"}})
        world.run_until_stable()
        assert world.job().status.version == expected


def test_task_failed_looks_at_container_restarts() -> None:
    world = running(task(replicas=1, maxRetry=2), policies=[{"event": "TaskFailed", "action": "TerminateJob"}])
    for restarts in (1, 2):
        assert world.job().status.state.phase == "Running"
        status = {"containerStatuses": [{"name": "c", "restartCount": restarts}]}
        world.change("pods", "default/job-t-0", {"status": status})
        world.run_until_stable()
    assert world.job().status.state.phase == "Terminated"


def test_a_dependent_task_waits_for_its_dependency() -> None:
    world = World()
    world.submit(spec(task("a", 1, minAvailable=1), task("b", 1, dependsOn={"name": ["a"]}), minAvailable=1))
    world.run_until_stable()
    assert list(world.pods()) == ["job-a-0"]
    world.phase("job-a-0", "Running")
    world.run_until_stable()
    assert list(world.pods()) == ["job-a-0", "job-b-0"]


COUNTS = ("pending", "running", "succeeded", "failed", "terminating")


def statuses(world: World) -> list[str]:
    """Return phase and non-zero counts of each status write since the last call."""
    written = [
        " ".join([status["state"]["phase"], *(f"{count} {status[count]}" for count in COUNTS if status.get(count))])
        for status in world.statuses
    ]
    world.statuses.clear()
    return written


@pytest.mark.parametrize(
    ("action", "written"),
    [
        ("RestartJob", "Restarting terminating 4"),
        ("RestartTask", "Restarting running 1 terminating 3"),
        ("RestartPod", "Restarting running 2 succeeded 1 terminating 1"),
        ("AbortJob", "Aborting succeeded 1 failed 1 terminating 2"),
        ("CompleteJob", "Completing succeeded 1 failed 1 terminating 2"),
        ("TerminateJob", "Terminating succeeded 1 failed 1 terminating 2"),
    ],
)
def test_one_write_enters_a_phase_and_counts_the_pods_it_kills_as_terminating(action: str, written: str) -> None:
    policies = [{"event": "PodFailed", "action": action}]
    world = running(task("a", 3), task("b", 1), policies=policies, graceful=True)
    world.phase("job-a-0", "Succeeded")
    world.run_until_stable().fire("counts")
    assert statuses(world)[-1] == "Running running 3 succeeded 1"
    world.phase("job-a-1", "Failed", 1)
    world.run_until_stable().fire("counts")
    assert statuses(world) == [written]


def test_a_completed_task_restarts_the_job_in_one_write_before_its_pods_are_gone() -> None:
    world = running(task("a", 1), task("b", 2), policies=[{"event": "TaskCompleted", "action": "RestartJob"}])
    world.phase("job-a-0", "Succeeded")
    statuses(world)
    world.run_until_stable().fire("counts")
    assert statuses(world) == ["Restarting terminating 3", "Pending", "Pending pending 3"]


def test_a_job_that_completes_early_counts_the_pods_it_no_longer_needs_as_terminating() -> None:
    world = running(task(replicas=3), minSuccess=1, graceful=True)
    world.phase("job-t-1", "Succeeded")
    statuses(world)
    world.run_until_stable().fire("counts")
    assert statuses(world) == ["Completed succeeded 1 terminating 2"]


def test_a_job_out_of_retries_kills_its_pods_only_when_it_is_failed() -> None:
    world = running(task(replicas=2), policies=RESTART_ON_FAILURE, maxRetry=1, graceful=True)
    world.phase("job-t-1", "Failed", 1)
    statuses(world)
    world.run_until_stable().fire("counts")
    assert statuses(world) == ["Restarting running 1 failed 1", "Failed failed 1 terminating 1"]


def test_a_job_that_starts_is_written_once_for_each_phase() -> None:
    world = World()
    world.submit(spec(task(replicas=50)))
    world.run_until_stable()
    for pod in world.pods():
        world.phase(pod, "Running")
        world.run_until_stable()
    assert statuses(world) == ["Pending", "Running running 50"]
    assert not world.timers


def test_counts_of_a_job_that_does_not_start_are_written_after_a_delay() -> None:
    world = World()
    world.submit(spec(task(replicas=3)))
    world.run_until_stable()
    world.pass_time(14.9)
    assert statuses(world) == ["Pending"]
    world.pass_time(0.1)
    assert statuses(world) == ["Pending pending 3"]
    world.phase("job-t-1", "Running")
    world.run_until_stable()
    world.pass_time(5)
    assert statuses(world) == ["Pending pending 2 running 1"]


def test_a_crash_during_the_delay_of_counts_loses_no_pod() -> None:
    world = World()
    world.submit(spec(task(replicas=3)))
    world.run_until_stable()
    world.crash()
    world.run_until_stable().pass_time(15)
    assert len(world.pods()) == 3
    assert statuses(world)[-1] == "Pending pending 3"
    assert not world.collisions
