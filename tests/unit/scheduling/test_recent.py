"""The recently changed nodes: the same rows and amounts as in the node columns."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from volcanoio.engine.scheduling.cluster.loads import Load
from volcanoio.engine.scheduling.cluster.node_columns import LOG_SIZE, NodeColumns
from volcanoio.engine.scheduling.placement.recent_changes import RecentChanges
from volcanoio.framework.scheduling.views import Shape
from volcanoio.model.base import ObjectMeta
from volcanoio.model.core import Node, NodeStatus, ResourceList

ROWS = 5
GPU = "nvidia.com/gpu"
SHAPES = [
    Shape(
        id=0,
        requests={"cpu": 700, "memory": 300, "pods": 1},
        best_effort=False,
        nonzero_requests={"cpu": 700},
        base_id=0,
    ),
    Shape(id=1, requests={"pods": 1}, best_effort=True, nonzero_requests={"cpu": 100, "memory": 200}, base_id=1),
    Shape(
        id=2, requests={"cpu": 100, GPU: 1000, "pods": 1}, best_effort=False, nonzero_requests={"cpu": 100}, base_id=2
    ),
]
LOADS = [Load.OCCUPIES, Load.RESERVES]
CHANGE = st.tuples(
    st.integers(0, ROWS - 1), st.sampled_from(SHAPES[:2]), st.sampled_from(LOADS), st.sampled_from([1, -1])
)
STEPS = st.lists(st.one_of(CHANGE, st.just("ask"), st.just("mark")), max_size=40)


def columns_of_nodes() -> NodeColumns:
    columns = NodeColumns()
    for at in range(ROWS):
        offered: ResourceList = {"cpu": f"{1 + at}", "memory": "1000", "pods": "3"}
        columns.put_node(Node(metadata=ObjectMeta(name=f"n{at}"), status=NodeStatus(allocatable=offered)))
    return columns


def following(columns: NodeColumns) -> RecentChanges:
    """Entries are made from the first question on."""
    recent = RecentChanges(columns)
    recent.fitting(columns.clock, [(0, 1)], None)
    return recent


def wants(columns: NodeColumns, shape: Shape) -> list[tuple[int, int]]:
    return [(columns.resource(name), amount) for name, amount in shape.requests.items()]


def check(recent: RecentChanges, columns: NodeColumns, since: int, shape: Shape, passing: list[bool] | None) -> None:
    mask = None if passing is None else np.array([*passing, *[False] * (columns.capacity - ROWS)])
    found = recent.fitting(since, wants(columns, shape), mask)
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
    assert nodes.all_fit
    for what in ("allocatable", "used", "nonzero_used"):
        amounts = getattr(columns, what)
        assert nodes.cpu_memory(what).tolist() == [[*amounts(name)[fitting]] for name in ("cpu", "memory")]


@examples(150)
@given(
    steps=STEPS,
    shape=st.sampled_from(SHAPES),
    passing=st.none() | st.lists(st.booleans(), min_size=ROWS, max_size=ROWS),
)
def test_the_changed_rows_with_room_equal_those_found_in_the_columns(
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


def test_entries_are_kept_as_long_as_the_change_log() -> None:
    columns = columns_of_nodes()
    recent, start = following(columns), columns.clock
    marks = []
    for at in range(3 * LOG_SIZE):
        columns.apply(at % ROWS, SHAPES[0], Load.OCCUPIES, 1 if at // ROWS % 2 else -1)
        if not at % 37:
            marks.append(columns.clock)
            check(recent, columns, max(marks[-3:][0], start), SHAPES[1], None)
    check(recent, columns, columns.clock - LOG_SIZE // 2, SHAPES[0], None)
    assert recent.fitting(start, wants(columns, SHAPES[0]), None) is None, "that is too long ago"


def test_a_result_older_than_the_log_is_unknown() -> None:
    columns = columns_of_nodes()
    recent, start = following(columns), columns.clock
    for _ in range(LOG_SIZE + 1):
        columns.apply(0, SHAPES[0], Load.OCCUPIES, 1)
    assert recent.fitting(start, wants(columns, SHAPES[0]), None) is None
    now = columns.clock
    columns.apply(1, SHAPES[1], Load.OCCUPIES, 1)
    check(recent, columns, now, SHAPES[1], None)


def test_a_new_resource_clears_all_entries() -> None:
    columns = columns_of_nodes()
    recent, start = following(columns), columns.clock
    columns.apply(0, SHAPES[0], Load.OCCUPIES, 1)
    check(recent, columns, start, SHAPES[0], None)
    columns.apply(1, SHAPES[2], Load.OCCUPIES, 1)
    now = columns.clock
    assert recent.fitting(start, wants(columns, SHAPES[2]), None) is None
    columns.apply(2, SHAPES[0], Load.OCCUPIES, 1)
    check(recent, columns, now, SHAPES[0], None)
