"""The cached order of single pods equals a fresh sort, and it is updated in steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scenario.scheduling.harness import World, node, pod
from volcanoio.engine.scheduling.cluster import task_transitions
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.engine.scheduling.ordering import backlogs
from volcanoio.engine.scheduling.session import single_pods
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model import kinds

STEPS = st.lists(st.tuples(st.sampled_from(["pod", "gone", "cycle", "node", "look"]), st.integers(0, 5)), max_size=30)


def world(*nodes: str) -> World:
    state = ClusterState(StateOptions(single_pod_schedulers=frozenset({"default-scheduler"})))
    return World(*(node(name, cpu="3") for name in nodes), state=state)


def put(there: World, number: int, priority: int) -> None:
    spec = {"schedulerName": "default-scheduler", "priority": priority}
    there.put(pod(f"p{number}", spec=spec, cpu="1"))


def turns(there: World) -> list[str]:
    kept = there.state.single_pod_order
    for _ in kept.begin():
        pass
    return [job.key for job in kept]


def anew(there: World) -> list[str]:
    waiting = there.state.ledger.pending_single_pods
    first = {key: next(iter(job.pending.values())) for key, job in waiting.items()}
    return sorted(waiting, key=lambda key: (-first[key].priority, first[key].created, key))


@examples(60)
@given(steps=STEPS, kept=st.integers(1, 8))
def test_kept_orders_equal_recomputed_ones(steps: list[tuple[str, int]], kept: int) -> None:
    """Also where more changed than is remembered, and where what is left over is thrown away often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_transitions, "MAX_PENDING_CHANGES", kept)
        patch.setattr(backlogs, "_STALE_ALLOWANCE", 1)
        there = world("n1")
        for step, number in steps:
            members = sorted(key for kind, key in there.objects if kind == kinds.POD.resource)
            match step:
                case "pod" if f"ns/p{number}" not in members:
                    put(there, number, number % 3)
                case "gone" if members:
                    there.remove(kinds.POD, members[number % len(members)])
                case "cycle":
                    there.cycle()
                    there.echo()
                case "node":
                    there.put(node(f"n{number}", cpu="1"))
                case "look":
                    assert turns(there) == anew(there)
                case _:
                    pass
        assert turns(there) == anew(there)


@pytest.mark.parametrize("number", [10, 40])
def test_the_work_between_two_steps_is_bounded(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """However many pods wait, and also where none of them has a chance."""
    for where, name in (
        (backlogs, "SINGLE_PODS_PER_STEP"),
        (single_pods, "PASSED"),
        (backlogs, "ENTRIES_PER_STEP"),
        (backlogs, "SORT_CHUNK"),
    ):
        monkeypatch.setattr(where, name, 4)
    there = world()
    for at in range(number):
        put(there, at, at % 3)
    for _ in range(3):  # all are new; then none has a chance; then what is left over is tidied
        session = CycleSession(there.state, there.profile, CycleOpened(cycle=1, upto=0, seed=1, at=1.0))
        looked = 0

        def is_unschedulable(_: object) -> bool:
            nonlocal looked
            looked += 1
            return True

        monkeypatch.setattr(session, "is_unschedulable", is_unschedulable)
        steps, seen = single_pods.place_single_pods(session), 0
        for _ in steps:
            assert looked - seen <= 4
            seen = looked
        assert looked == number
        session.undo()
