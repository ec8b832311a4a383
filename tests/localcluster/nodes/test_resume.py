"""After everything was killed, nodes go on from what is stored."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.localcluster.nodes.pods import T0, pod, run_of, stored
from volcanoio.localcluster.nodes.pods.behaviour import behaviour_of
from volcanoio.localcluster.nodes.pods.lifecycle import advance
from volcanoio.localcluster.nodes.pods.podrun import PodRun, RunContext
from volcanoio.localcluster.nodes.pods.status import is_finished, resume, was_accepted
from volcanoio.model import names
from volcanoio.model.core import Pod

KINDS: list[dict[str, Any]] = [
    {},
    {"annotations": {names.EXIT_CODE: "1"}},
    {"restartPolicy": "OnFailure", "annotations": {names.FAIL_ATTEMPTS: "3"}},
    {"annotations": {names.RUN_DURATION: "uniform(1s,9s)"}, "containers": [{"name": "a"}, {"name": "b"}]},
    {"initContainers": [{"name": "i", "command": ["sleep", "2"]}, {"name": "s", "restartPolicy": "Always"}]},
    {"activeDeadlineSeconds": 3},
]
WHOLE_SECOND = 1.0  # stored times are whole seconds


def revived(subject: Pod, now: float) -> PodRun:
    return resume(subject, behaviour_of(subject, seed=0), now, RunContext())


@given(kind=st.sampled_from(KINDS), killed=st.floats(0.3, 70), dead_for=st.floats(0, 100))
def test_the_outcome_is_that_of_an_uninterrupted_life(kind: dict[str, Any], killed: float, dead_for: float) -> None:
    run = advance(run_of(pod(**kind)), T0 + killed)
    kept = stored(run)
    if is_finished(kept):
        return
    assert was_accepted(kept)
    again = advance(revived(kept, T0 + killed + dead_for), T0 + 500)
    straight = advance(run, T0 + 500)
    assert again.phase == straight.phase
    assert again.reason == straight.reason
    assert [(c.spec.name, c.restarts, c.ended and c.ended.exit_code) for c in again.containers] == [
        (c.spec.name, c.restarts, c.ended and c.ended.exit_code) for c in straight.containers
    ]


@given(killed=st.floats(0.3, 4))
def test_running_pods_continue_for_the_rest_of_their_time(killed: float) -> None:
    run = advance(run_of(pod()), T0 + killed)
    again = revived(stored(run), T0 + killed)
    assert again.due is not None
    assert run.due is not None
    assert abs(again.due - run.due) <= WHOLE_SECOND


def test_a_bound_pod_that_was_never_taken_in_is_new() -> None:
    assert not was_accepted(pod())
    assert not is_finished(pod())


def test_a_pod_that_waited_for_its_volumes_waits_again() -> None:
    run = run_of(pod(), has_volumes=True)
    again = revived(stored(run), T0 + 60)
    assert again.volumes_at is None
    assert again.due is None
