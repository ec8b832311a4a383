"""Commands: carried out at most once, whatever is killed when, and never left lying about."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.jobs.driver import World, spec, task
from volcanoio.model import names

COMMANDS = "commands.bus.volcano.sh"


def running() -> World:
    world = World()
    world.submit(spec(task(replicas=2)))
    world.run_until_stable()
    for pod in world.pods():
        world.phase(pod, "Running")
    return world.run_until_stable()


def test_the_intent_names_the_command_in_the_write_that_carries_it_out() -> None:
    world = running()
    world.command("RestartJob")
    while world.job().status.state.phase != "Restarting":
        assert world.step()
    status = world.job().status
    uid = world.objects[COMMANDS, "default/job-restartjob"]["metadata"]["uid"]
    assert (status.controlled_resources[names.ACCEPTED_COMMAND], status.version, status.retry_count) == (uid, 1, 1)


@pytest.mark.parametrize("steps", range(30))
def test_a_command_acts_once_wherever_we_are_killed(steps: int) -> None:
    world = running()
    world.command("RestartJob")
    for _ in range(steps):
        world.step()
    world.crash()
    world.run_until_stable()
    status = world.job().status
    assert (status.version, status.retry_count, status.state.phase) == (1, 1, "Pending")
    assert not world.names(COMMANDS)
    assert len(world.pods()) == 2


def test_commands_act_in_the_order_they_were_issued() -> None:
    world = running()
    world.command("AbortJob", name="a")
    world.command("ResumeJob", name="b")
    world.run_until_stable()
    assert world.job().status.state.phase in ("Pending", "Running")
    assert [reason for _, reason, _ in world.records if reason == "CommandIssued"] == ["CommandIssued"] * 2


@pytest.mark.parametrize(
    ("action", "job", "uid", "text"),
    [
        ("Explode", "job", "", "unknown action"),
        ("AbortJob", "job", "uid-of-another", "older job"),
        ("AbortJob", "missing", "", "does not exist"),
        ("ResumeJob", "job", "", "changes nothing while the job is Running"),
        ("RestartTask", "job", "", "cannot name the task"),
        (
            "Explode",
            "job",
            "",
            "valid values: AbortJob, CompleteJob, RestartJob, ResumeJob, TerminateJob",
        ),
    ],
)
def test_a_command_that_cannot_be_carried_out_is_deleted_and_reported(
    action: Any, job: str, uid: str, text: str
) -> None:
    world = running()
    world.command(action, job=job, name="c", uid=uid)
    world.run_until_stable()
    assert not world.names(COMMANDS)
    assert world.job().status.state.phase == "Running"
    kind, reason, message = world.records[-1]
    assert (kind, reason) == ("Warning", "CommandIssued")
    assert text in message


def test_a_command_without_effect_in_this_phase_is_only_deleted() -> None:
    world = running()
    before = world.job().status
    world.command("ResumeJob")
    world.run_until_stable()
    assert not world.names(COMMANDS)
    assert world.job().status == before
