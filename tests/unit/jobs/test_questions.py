"""The job never runs ahead of its policies; answers come back as events and may be late."""

from __future__ import annotations

from typing import Any

from tests.unit.jobs.driver import World, spec, task
from volcanoio.framework.decisions import Act, Alert, Annotate, Hold, Override
from volcanoio.framework.events import PoliciesLoaded
from volcanoio.framework.lifecycle import PolicyRegistry, PolicySubscription
from volcanoio.model import names
from volcanoio.model.batch import JobAction, JobEvent
from volcanoio.model.core import ResourceRequirements


def running(**fields: Any) -> World:
    world = World()
    world.submit(spec(task(replicas=2), **fields))
    world.run_until_stable()
    for pod in world.pods():
        world.phase(pod, "Running")
    world.run_until_stable()
    world.held = []
    return world


def test_the_job_waits_for_the_answer_and_later_events_queue_behind_it() -> None:
    world = running(policies=[{"event": "PodFailed", "action": "RestartJob"}])
    world.phase("job-t-0", "Failed", 1)
    world.phase("job-t-1", "Failed", 1)
    world.run_until_stable()
    assert world.asked == ["PodFailed job-t-0"]
    assert world.job().status.state.phase == "Running"
    world.answer()
    world.run_until_stable()
    assert world.asked == ["PodFailed job-t-0", "PodFailed job-t-1"]
    assert world.job().status.version == 0
    world.answer()
    world.run_until_stable()
    status = world.job().status
    assert (status.version, status.retry_count, status.state.phase) == (1, 1, "Pending")


def test_a_pending_pod_does_not_block_other_questions() -> None:
    world = World()
    world.held = []
    world.submit(spec(task(replicas=1), policies=[{"event": "PodPending", "action": "AbortJob", "timeout": "9s"}]))
    world.run_until_stable()
    assert world.asked == ["PodPending job-t-0"]
    world.phase("job-t-0", "Running")
    world.run_until_stable()
    assert world.job().status.state.phase == "Running"
    world.answer()
    world.run_until_stable()
    world.pass_time(60)
    assert world.job().status.state.phase == "Running"


def test_an_answer_for_an_older_version_is_dropped() -> None:
    world = running()
    world.phase("job-t-0", "Failed", 1)
    world.run_until_stable()
    late = world.held.pop(0) if world.held else None
    assert late is not None
    world.change("jobs.batch.volcano.sh", "default/job", {"status": {"version": 5}})
    world.held = [late]
    world.answer(Act(action=JobAction.TERMINATE_JOB))
    world.run_until_stable()
    assert world.job().status.state.phase != "Terminated"


def test_an_answer_outlives_a_conflict() -> None:
    world = running()
    world.phase("job-t-0", "Failed", 1)
    world.run_until_stable()
    world.answer(Act(action=JobAction.RESTART_POD))
    while not world.outbox:
        assert world.step()
    world.change("jobs.batch.volcano.sh", "default/job", {"metadata": {"labels": {"who": "knows"}}})
    world.held = None
    world.run_until_stable()
    status = world.job().status
    assert status.retry_count == 1
    assert world.pods()["job-t-0"].status.phase == "Pending"


def test_a_question_is_asked_again_after_a_restart() -> None:
    world = running(policies=[{"event": "PodFailed", "action": "RestartJob"}])
    world.phase("job-t-0", "Failed", 1)
    world.run_until_stable()
    world.crash()
    world.held = None
    world.run_until_stable()
    assert world.job().status.version == 1


def test_annotations_alerts_and_holds() -> None:
    world = running()
    for decision in (
        Annotate(annotations={"seen": "yes"}),
        Alert(reason="Odd", message="look here"),
        Hold(reason="wait for the disk", until=world.now + 100),
        Override(task="t", resources={"main": ResourceRequirements(limits={"memory": "2Gi"})}),
    ):
        world.phase("job-t-0", "Running")
        world.run_until_stable()
        world.phase("job-t-0", "Failed", 1)
        world.run_until_stable()
        world.answer(decision)
        world.run_until_stable()
    assert world.job().metadata.annotations["seen"] == "yes"
    assert ("Warning", "Odd", "look here") in world.records
    assert world.job().status.state.reason == "Hold"
    assert '"memory":"2Gi"' in world.job().status.controlled_resources[names.OVERRIDES]
    world.crash()
    world.held = None
    world.run_until_stable()
    assert world.job().status.state.message == "wait for the disk"
    world.pass_time(101)
    assert world.job().status.state.reason == ""


def test_events_of_every_pod_go_to_policies_that_list_them() -> None:
    world = World()
    wanted = PolicySubscription(events=frozenset({JobEvent.POD_PENDING, JobEvent.POD_RUNNING}))
    world.host.handle(PoliciesLoaded(roster=PolicyRegistry(everywhere={"p": wanted})))
    world.submit(spec(task(replicas=1)))
    world.run_until_stable()
    world.phase("job-t-0", "Running")
    world.run_until_stable()
    assert world.asked == ["PodPending job-t-0", "PodRunning job-t-0"]


def test_restarts_of_containers_fail_a_task_once_and_again_to_a_fresh_process() -> None:
    world = running(policies=[])
    world.held = None
    for restarts in (1, 2, 5):
        for index in (0, 1):
            status = {"containerStatuses": [{"name": "c", "restartCount": restarts}], "phase": "Running"}
            world.change("pods", f"default/job-t-{index}", {"status": status})
            world.run_until_stable()
    assert [asked.split()[0] for asked in world.asked] == ["TaskFailed"]
    world.crash()
    world.run_until_stable()
    assert [asked.split()[0] for asked in world.asked] == ["TaskFailed", "TaskFailed"]
