"""Big jobs: what is stored stays small whatever their pods do; work grows with the pods, not with their square."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.jobs.driver import World, spec, task
from volcanoio.engine.jobs.decide import delayed_actions
from volcanoio.engine.jobs.decide.delayed_actions import MAX_ENCODED_LENGTH, PodDelayedAction
from volcanoio.engine.jobs.decide.policy_answers import MAX_POD_OVERRIDES, with_override
from volcanoio.engine.jobs.pods.index_ranges import parse_indexes
from volcanoio.engine.jobs.state.stored_state import DelayedAction, StoredState
from volcanoio.framework.decisions import Override
from volcanoio.model import kinds
from volcanoio.model.batch import MOST_PODS, JobAction
from volcanoio.model.core import ResourceRequirements

LIMIT = 256 * 1024
PODS = 600
JOBS = "jobs.batch.volcano.sh"


def test_thousands_that_wait_for_slightly_different_times_stay_short_and_never_come_early() -> None:
    waits = [
        PodDelayedAction(JobAction.RESTART_POD, "PodFailed", 1000.0 + 0.37 * number, 0, "t", (number * 7919) % 10_000)
        for number in range(10_000)
    ]
    entries = delayed_actions.add_delays((), waits)
    assert len(msgspec.json.encode(entries)) <= MAX_ENCODED_LENGTH
    due = {index: entry.due for entry in entries for index in parse_indexes(entry.pods)}
    assert sorted(due) == list(range(10_000))
    assert all(wait.due <= due[wait.index or 0] for wait in waits)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), max_size=30))
def test_the_first_delayed_action_is_kept_until_replaced(steps: list[tuple[int, int]]) -> None:
    actions = [JobAction.RESTART_POD, JobAction.RESTART_JOB, JobAction.ABORT_JOB, JobAction.RESTART_TASK]
    entries: tuple[DelayedAction, ...] = ()
    wanted: dict[int, tuple[JobAction, float]] = {}
    for moment, (index, action) in enumerate(steps):
        chosen = actions[action]
        entries = delayed_actions.add_delays(
            entries, [PodDelayedAction(chosen, "PodFailed", float(moment), 0, "t", index)]
        )
        if wanted.get(index, (None, 0.0))[0] is not chosen:
            wanted[index] = (chosen, float(moment))
    found = {index: (entry.action, entry.due) for entry in entries for index in parse_indexes(entry.pods)}
    assert found == wanted


@pytest.mark.parametrize(
    "policies",
    [
        [{"event": "PodPending", "action": "AbortJob", "timeout": "10m"}],
        [{"event": "PodFailed", "action": "RestartPod"}],
        [{"event": "PodEvicted", "action": "RestartPod", "timeout": "1h"}],
    ],
    ids=["pending", "failed", "evicted"],
)
def test_failures_and_evictions_of_half_the_pods_leave_the_job_small(policies: list[dict[str, str]]) -> None:
    world = World(graceful=True)
    world.submit(spec(task(replicas=PODS), minAvailable=1, policies=policies))
    biggest = 0
    world.run_until_stable(limit=50_000)
    biggest = max(biggest, size(world))
    for name in world.pods():
        world.phase(name, "Running")
    world.run_until_stable(limit=50_000)
    for index in range(0, PODS, 2):
        if index % 4:
            world.phase(f"job-t-{index}", "Failed", 1)
        else:
            world.remove("pods", f"default/job-t-{index}", graceful=True)
    world.run_until_stable(limit=50_000)
    biggest = max(biggest, size(world))
    world.vanish()
    world.run_until_stable(limit=50_000)
    biggest = max(biggest, size(world))
    assert biggest < 12 * PODS
    assert world.job().status.retry_count <= 1
    writes = [effect for effect in world.writes if getattr(effect, "resource", "") == JOBS]
    assert len(writes) < PODS / 2, "decisions of one moment are one write"


def size(world: World) -> int:
    """Bytes of the biggest object that the controller keeps."""
    kept = (JOBS, kinds.POD_GROUP.resource)
    return max(len(msgspec.json.encode(one)) for (resource, _), one in world.objects.items() if resource in kept)


def test_a_job_of_too_many_pods_waits_with_the_reason() -> None:
    world = World()
    world.submit(spec(task(replicas=MOST_PODS + 1), minAvailable=1))
    world.run_until_stable()
    state = world.job().status.state
    assert (state.phase, state.reason) == ("Pending", "TooManyPods")
    assert not world.names(kinds.POD_GROUP.resource)


def test_overrides_of_too_many_pods_apply_to_their_task() -> None:
    ledger = StoredState()
    for index in range(MAX_POD_OVERRIDES + 1):
        resources = {"c": ResourceRequirements(limits={"memory": f"{index + 1}Gi"})}
        ledger = with_override(ledger, Override(task="t", index=index, resources=resources))
    (only,) = ledger.overrides
    assert (only.index, only.resources["c"].limits) == (None, {"memory": f"{MAX_POD_OVERRIDES + 1}Gi"})
