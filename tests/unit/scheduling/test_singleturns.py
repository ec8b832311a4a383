"""Single pods that are kept in order across cycles have their turns as if sorted anew, and a few at a time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scenario.scheduling.harness import World, node, pod
from volcanoio.engine.scheduling import changes, queuebacklog, singles, singleturns
from volcanoio.engine.scheduling.budget import Unlimited
from volcanoio.engine.scheduling.cluster import ClusterState
from volcanoio.engine.scheduling.session import CycleSession
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model import kinds

STEPS = st.lists(st.tuples(st.sampled_from(["pod", "gone", "cycle", "node", "look"]), st.integers(0, 5)), max_size=30)


def world(*nodes: str) -> World:
    state = ClusterState(single_names=frozenset({"default-scheduler"}))
    return World(*(node(name, cpu="3") for name in nodes), state=state)


def put(there: World, number: int, priority: int) -> None:
    spec = {"schedulerName": "default-scheduler", "priority": priority}
    there.put(pod(f"p{number}", spec=spec, cpu="1"))


def turns(there: World) -> list[str]:
    kept = there.state.single_turns
    for _ in kept.begin():
        pass
    return [job.key for job in kept]


def anew(there: World) -> list[str]:
    waiting = there.state.ledger.singles
    first = {key: next(iter(job.waiting.values())) for key, job in waiting.items()}
    return sorted(waiting, key=lambda key: (-first[key].priority, first[key].created, key))


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, kept=st.integers(1, 8))
def test_turns_that_are_kept_equal_those_made_anew(steps: list[tuple[str, int]], kept: int) -> None:
    """Also where more changed than is remembered, and where what is left over is thrown away often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "MANY", kept)
        patch.setattr(queuebacklog, "_SPARE", 1)
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
    for where, name in ((singleturns, "AT_ONCE"), (singles, "PASSED"), (queuebacklog, "SOME"), (queuebacklog, "RUN")):
        monkeypatch.setattr(where, name, 4)
    there = world()
    for at in range(number):
        put(there, at, at % 3)
    for _ in range(3):  # all are new; then none has a chance; then what is left over is tidied
        session = CycleSession(there.state, there.profile, CycleOpened(cycle=1, upto=0, seed=1, at=1.0), Unlimited())
        looked = 0

        def hopeless(_: object) -> bool:
            nonlocal looked
            looked += 1
            return True

        monkeypatch.setattr(session, "hopeless", hopeless)
        steps, seen = singles.place_singles(session), 0
        for _ in steps:
            assert looked - seen <= 4
            seen = looked
        assert looked == number
        session.undo()
