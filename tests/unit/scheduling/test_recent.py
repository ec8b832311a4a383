"""What changed last, side by side: the same rows and amounts as in the columns themselves."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from volcanoio.engine.scheduling.columns import LOGGED, Columns
from volcanoio.engine.scheduling.loads import Load
from volcanoio.engine.scheduling.recent import Recent
from volcanoio.framework.scheduling.views import Shape
from volcanoio.model.base import ObjectMeta
from volcanoio.model.core import Node, NodeStatus, ResourceList

ROWS = 5
GPU = "nvidia.com/gpu"
SHAPES = [
    Shape(
        id=0, requests={"cpu": 700, "memory": 300, "pods": 1}, best_effort=False, nonzero_requests={"cpu": 700}, like=0
    ),
    Shape(id=1, requests={"pods": 1}, best_effort=True, nonzero_requests={"cpu": 100, "memory": 200}, like=1),
    Shape(id=2, requests={"cpu": 100, GPU: 1000, "pods": 1}, best_effort=False, nonzero_requests={"cpu": 100}, like=2),
]
LOADS = [Load.OCCUPIES, Load.RESERVES]
CHANGE = st.tuples(
    st.integers(0, ROWS - 1), st.sampled_from(SHAPES[:2]), st.sampled_from(LOADS), st.sampled_from([1, -1])
)
STEPS = st.lists(st.one_of(CHANGE, st.just("ask"), st.just("mark")), max_size=40)


def columns_of_nodes() -> Columns:
    columns = Columns()
    for at in range(ROWS):
        offered: ResourceList = {"cpu": f"{1 + at}", "memory": "1000", "pods": "3"}
        columns.put(Node(metadata=ObjectMeta(name=f"n{at}"), status=NodeStatus(allocatable=offered)))
    return columns


def following(columns: Columns) -> Recent:
    """Entries are made from the first question on."""
    recent = Recent(columns)
    recent.that_fit(columns.clock, [(0, 1)], None)
    return recent


def wants(columns: Columns, shape: Shape) -> list[tuple[int, int]]:
    return [(columns.resource(name), amount) for name, amount in shape.requests.items()]


def check(recent: Recent, columns: Columns, since: int, shape: Shape, passing: list[bool] | None) -> None:
    mask = None if passing is None else np.array([*passing, *[False] * (columns.capacity - ROWS)])
    found = recent.that_fit(since, wants(columns, shape), mask)
    assert found is not None
    changed, fitting, nodes = found
    expected = set(columns.changed_since(since).tolist())
    assert set(changed.tolist()) == expected
    fit = {
        row
        for row in expected
        if (passing is None or passing[row])
        and all(
            min(columns.idle(name)[row], columns.future_idle(name)[row]) >= amount
            for name, amount in shape.requests.items()
        )
    }
    assert sorted(fitting.tolist()) == sorted(fit), "each once"
    assert nodes.have_room
    for what in ("allocatable", "used", "nonzero_used"):
        amounts = getattr(columns, what)
        assert nodes.basics(what).tolist() == [[*amounts(name)[fitting]] for name in ("cpu", "memory")]


@settings(max_examples=150, deadline=None)
@given(
    steps=STEPS,
    shape=st.sampled_from(SHAPES),
    passing=st.none() | st.lists(st.booleans(), min_size=ROWS, max_size=ROWS),
)
def test_the_rows_that_changed_and_have_room(
    steps: list[tuple[int, Shape, Load, int] | str], shape: Shape, passing: list[bool] | None
) -> None:
    columns = columns_of_nodes()
    columns.resource(GPU)
    recent, since = following(columns), columns.clock
    for step in steps:
        if step == "ask":
            check(recent, columns, since, shape, passing)
        elif step == "mark":
            since = columns.clock
        elif not isinstance(step, str):
            row, counted, load, sign = step
            columns.apply(row, counted, load, sign)
    check(recent, columns, since, shape, passing)


def test_entries_reach_back_as_far_as_the_log() -> None:
    columns = columns_of_nodes()
    recent, start = following(columns), columns.clock
    marks = []
    for at in range(3 * LOGGED):
        columns.apply(at % ROWS, SHAPES[0], Load.OCCUPIES, 1 if at // ROWS % 2 else -1)
        if not at % 37:
            marks.append(columns.clock)
            check(recent, columns, max(marks[-3:][0], start), SHAPES[1], None)
    check(recent, columns, columns.clock - LOGGED // 2, SHAPES[0], None)
    assert recent.that_fit(start, wants(columns, SHAPES[0]), None) is None, "that is too long ago"


def test_what_nobody_asked_about_in_time_is_not_known() -> None:
    columns = columns_of_nodes()
    recent, start = following(columns), columns.clock
    for _ in range(LOGGED + 1):
        columns.apply(0, SHAPES[0], Load.OCCUPIES, 1)
    assert recent.that_fit(start, wants(columns, SHAPES[0]), None) is None
    now = columns.clock
    columns.apply(1, SHAPES[1], Load.OCCUPIES, 1)
    check(recent, columns, now, SHAPES[1], None)


def test_a_new_resource_begins_anew() -> None:
    columns = columns_of_nodes()
    recent, start = following(columns), columns.clock
    columns.apply(0, SHAPES[0], Load.OCCUPIES, 1)
    check(recent, columns, start, SHAPES[0], None)
    columns.apply(1, SHAPES[2], Load.OCCUPIES, 1)
    now = columns.clock
    assert recent.that_fit(start, wants(columns, SHAPES[2]), None) is None
    columns.apply(2, SHAPES[0], Load.OCCUPIES, 1)
    check(recent, columns, now, SHAPES[0], None)
