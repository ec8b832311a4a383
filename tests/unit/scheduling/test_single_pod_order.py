"""The cached order of single pods equals a fresh sort, and it is updated in steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scenario.scheduling.harness import World, node, pod
from volcanoio.engine.scheduling.cluster import ledger
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.engine.scheduling.ordering import backlogs
from volcanoio.engine.scheduling.session import single_pods
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model import kinds

STEPS = st.lists(st.tuples(st.sampled_from(["pod", "gone", "cycle", "node", "look"]), st.integers(0, 5)), max_size=30)


def single_pod_world(*nodes: str) -> World:
    state = ClusterState(StateOptions(single_pod_schedulers=frozenset({"default-scheduler"})))
    return World(*(node(name, cpu="3") for name in nodes), state=state)


def put(world: World, number: int, priority: int) -> None:
    spec = {"schedulerName": "default-scheduler", "priority": priority}
    world.put(pod(f"p{number}", spec=spec, cpu="1"))


def cached_order(world: World) -> list[str]:
    kept = world.state.single_pod_order
    for _ in kept.begin():
        pass
    return [job.key for job in kept]


def fresh_sort(world: World) -> list[str]:
    waiting = world.state.ledger.pending_single_pods
    first = {key: next(iter(job.pending.values())) for key, job in waiting.items()}
    return sorted(waiting, key=lambda key: (-first[key].priority, first[key].created, key))


@examples(60)
@given(steps=STEPS, kept=st.integers(1, 8))
def test_the_cached_order_equals_a_fresh_sort(steps: list[tuple[str, int]], kept: int) -> None:
    """This includes more changes than are recorded, and frequent removal of stale entries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "MAX_PENDING_CHANGES", kept)
        patch.setattr(backlogs, "_STALE_ALLOWANCE", 1)
        world = single_pod_world("n1")
        for step, number in steps:
            members = sorted(key for kind, key in world.objects if kind == kinds.POD.resource)
            match step:
                case "pod" if f"ns/p{number}" not in members:
                    put(world, number, number % 3)
                case "gone" if members:
                    world.remove(kinds.POD, members[number % len(members)])
                case "cycle":
                    world.cycle()
                    world.echo()
                case "node":
                    world.put(node(f"n{number}", cpu="1"))
                case "look":
                    assert cached_order(world) == fresh_sort(world)
                case _:
                    pass
        assert cached_order(world) == fresh_sort(world)


@pytest.mark.parametrize("number", [10, 40])
def test_the_number_of_pods_processed_in_a_step_does_not_grow_with_the_pending_pods(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """This includes that all of them are known to be unschedulable."""
    for where, name in (
        (backlogs, "SINGLE_PODS_PER_STEP"),
        (single_pods, "SKIPPED_PER_STEP"),
        (backlogs, "ENTRIES_PER_STEP"),
        (backlogs, "SORT_CHUNK"),
    ):
        monkeypatch.setattr(where, name, 4)
    world = single_pod_world()
    for at in range(number):
        put(world, at, at % 3)
    for _ in range(3):  # all new; then all unschedulable; then with stale entries to remove
        session = CycleSession(world.state, world.profile, CycleOpened(cycle=1, upto=0, seed=1, at=1.0))
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
