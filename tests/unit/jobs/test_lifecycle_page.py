"""docs/job-lifecycle.md prints the phase × action table: it is the code's, and a job does what each cell says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.jobs.driver import World, spec, task
from volcanoio.engine.jobs.state.transitions import (
    RECONCILE_MODES,
    STOPPED_PHASES,
    TARGETED_ACTIONS,
    USER_ACTIONS,
    Transition,
    transition_for,
)
from volcanoio.framework.decisions import Act, Decision
from volcanoio.framework.effects import Patch
from volcanoio.framework.lifecycle import PolicyContext
from volcanoio.model.batch import POLICY_EVENTS, JobAction, JobEvent, JobPhase

PAGE = Path(__file__).parents[3] / "docs" / "job-lifecycle.md"
JOBS = "jobs.batch.volcano.sh"
NOTHING = "–"
ACTIONS = tuple(action for action in JobAction if action in USER_ACTIONS)


def cell_of(transition: Transition | None) -> str:
    if transition is None:
        return NOTHING
    return " ".join(
        [transition.to, *(["V+"] if transition.bumps_version else []), *(["R+"] if transition.counts_retry else [])]
    )


def printed() -> list[str]:
    """Return the table in the form of the page."""
    head = ["Phase", "upkeep", "ends as", *ACTIONS]
    lines = [head, ["---"] * len(head)]
    for phase in JobPhase:
        moves = [cell_of(transition_for(phase, action)) for action in ACTIONS]
        lines.append([phase, RECONCILE_MODES[phase], STOPPED_PHASES.get(phase, NOTHING), *moves])
    return [f"| {' | '.join(line)} |" for line in lines]


def test_the_page_prints_the_table_of_the_code() -> None:
    assert "\n".join(printed()) in PAGE.read_text(), "put this into docs/job-lifecycle.md:\n" + "\n".join(printed())


def test_the_page_names_the_events_that_policies_may_name_and_one_for_the_configuration_alone() -> None:
    table = PAGE.read_text().partition("| Event | when |")[2].partition("\n\n")[0]
    named = [line.split(" | ")[0].strip("| ") for line in table.splitlines()[2:]]
    assert sorted(named) == sorted({*POLICY_EVENTS, JobEvent.POD_RUNNING} - {JobEvent.ANY})


def _cells() -> list[tuple[str, str, str]]:
    rows = [line.strip("| \n").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    head = next(row for row in rows if row[0] == "Phase")
    body = [row for row in rows if row[0] in set(JobPhase) and len(row) == len(head)]
    return [(row[0], action, row[head.index(action)]) for row in body for action in ACTIONS]


class Answering:
    """Answers every failed pod with an action of the test's choice."""

    name = "answering"
    action: JobAction = JobAction.SYNC_JOB

    async def decide(self, context: PolicyContext) -> Decision:
        act = self.action if context.event.name == JobEvent.POD_FAILED else JobAction.SYNC_JOB
        return Act(action=act)


def in_phase(phase: str, policy: Answering) -> World:
    """Return a job of three pods in that phase. Deleted pods stay, so that the phase does not change."""
    world = World(policy=policy, graceful=True)
    partition = {"totalPartitions": 3, "partitionSize": 1}
    world.submit(spec(task(replicas=3, partitionPolicy=partition), maxRetry=9))
    world.run_until_stable()
    if phase == JobPhase.PENDING:
        return world
    for pod in world.pods():
        world.phase(pod, "Running")
    world.run_until_stable()
    by_command = {"Aborting": "AbortJob", "Completing": "CompleteJob", "Terminating": "TerminateJob"}
    final_phases = {"Aborted": "Aborting", "Completed": "Completing", "Terminated": "Terminating"}
    if stopping := final_phases.get(phase, phase if phase in by_command else ""):
        world.command(by_command[stopping])
        world.run_until_stable()
        if phase in final_phases:
            world.vanish()
    elif phase == JobPhase.RESTARTING:
        policy.action = JobAction.RESTART_POD
        world.phase("job-t-0", "Failed", 1)
    elif phase == JobPhase.FAILED:
        for pod in world.pods():
            world.phase(pod, "Failed", 1)
    return world.run_until_stable()


def act(world: World, policy: Answering, action: JobAction) -> None:
    """By a policy where a job asks it, by a Command otherwise."""
    policy.action = action
    if RECONCILE_MODES[JobPhase(world.job().status.state.phase)] == "stop" or action not in TARGETED_ACTIONS:
        world.command(action, name="it")
    else:
        world.phase("job-t-1", "Failed", 1)


def moved(world: World, before: Any, since: int) -> str:
    """Return the cell for the first status write that changes the phase, the version or the retries."""
    for effect in world.writes[since:]:
        if not isinstance(effect, Patch) or effect.resource != JOBS or effect.subresource != "status":
            continue
        status = effect.patch["status"]
        phase = status.get("state", {}).get("phase", before.state.phase)
        version, retry = status.get("version", before.version), status.get("retryCount", before.retry_count)
        targeted = "volcanoio.dev/restart-targets" in status.get("controlledResources", {})
        if (phase, version, retry) != (before.state.phase, before.version, before.retry_count) or targeted:
            return " ".join(
                [phase, *["V+"] * (version - before.version), *["R+"] * (retry - before.retry_count)],
            )
    return NOTHING


@pytest.mark.parametrize(("phase", "action", "cell"), _cells(), ids=lambda one: one.replace(" ", "_"))
def test_a_job_follows_the_cell(phase: str, action: str, cell: str) -> None:
    policy = Answering()
    world = in_phase(phase, policy)
    before = world.job().status
    assert before.state.phase == phase
    since = len(world.writes)
    act(world, policy, JobAction(action))
    world.run_until_stable()
    assert moved(world, before, since) == cell


def test_every_cell_is_printed() -> None:
    assert {(phase, action) for phase, action, _ in _cells()} == {(phase, one) for phase in JobPhase for one in ACTIONS}
