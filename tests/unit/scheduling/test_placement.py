"""Placing a gang gives the same result as a naive loop over its tasks and all nodes."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scenario.scheduling.harness import decoded, node
from tests.unit.scheduling.naive_placement import CYCLE, SEED, build, gangs, naive
from tests.unit.scheduling.placement_plugins import (
    PLUGINS,
    CountingRoomier,
    Crowd,
    Roomier,
    SelectorsOnly,
    Undeclared,
    Zones,
)
from volcanoio.engine.scheduling.cluster.inputs import Inputs
from volcanoio.engine.scheduling.cluster.jobs import TaskInfo
from volcanoio.engine.scheduling.config.plugin_rules import Rules
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.placement import by_node_state, node_states
from volcanoio.engine.scheduling.placement import placer as placer_module
from volcanoio.engine.scheduling.placement.placer import PlacementRequest, Placer
from volcanoio.framework.scheduling.points import Plugin
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.model.core import Node

ZONE = st.sampled_from(["a", "b"])
NODES = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6), ZONE), min_size=1, max_size=8)
TASKS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from(["", "a"])), max_size=24)
CHOICE = st.lists(st.sampled_from(sorted(PLUGINS)), unique=True, max_size=4)


@examples(300)
@given(nodes=NODES, tasks=TASKS, chosen=CHOICE, taken_back=st.integers(0, 3), room=st.sampled_from([2, 100]))
def test_a_gang_is_placed_as_its_tasks_would_be_one_by_one(
    nodes: list[tuple[int, int, str]], tasks: list[tuple[int, int, str]], chosen: list[str], taken_back: int, room: int
) -> None:
    with (
        patch.object(placer_module, "MAX_TABLES", room // 2),
        patch.object(node_states, "MAX_STATES", room),
        patch.object(node_states, "REVIEW_ROWS", room),
        patch.object(node_states, "FEW_STATES", room),
        patch.multiple(
            by_node_state, NARROWED_TO=room // 2, MIN_CANDIDATES=room, MAX_CANDIDATES=2 * room, MAX_INSERTS=room // 2
        ),
    ):
        _same_as_naive(nodes, tasks, chosen, taken_back)


def _same_as_naive(
    nodes: list[tuple[int, int, str]], tasks: list[tuple[int, int, str]], chosen: list[str], taken_back: int
) -> None:
    plugins: list[Plugin] = [PLUGINS[name]() for name in sorted(chosen)]
    exact = {"relative", "undeclared"}
    plugins.sort(key=lambda plugin: plugin.name in exact)  # scores are summed in this order
    fast, fast_tasks = build(nodes, tasks)
    slow, slow_tasks = build(nodes, tasks)
    placer = Placer(fast, Inputs())
    placer.open(Rules(Profile.of([plugins], [])), CYCLE, SEED)
    for turn, (gang, same) in enumerate(zip(gangs(fast_tasks), gangs(slow_tasks), strict=True)):
        log: list[TaskInfo] = []
        row = placer.take_one_row(gang[0]) if len(gang) == 1 else -1
        if row < 0:
            placer.place(PlacementRequest(gang, log))
        else:
            fast.record_allocated(gang[0], row)
            log.append(gang[0])
        expected = naive(slow, plugins, same)
        assert [(task.node, task.status) for task in log] == expected
        if turn % 4 < taken_back:
            for ledger, placed in ((fast, log), (slow, same[: len(expected)])):
                for task in reversed(placed):
                    ledger.revert(task, TaskStatus.PENDING, "")
    assert np.array_equal(fast.columns.block, slow.columns.block)


def test_no_node_gets_more_pods_than_its_pod_limit() -> None:
    ledger, tasks = build([(64, 64, "a"), (8, 8, "a")], [(0, 0, "")] * 12)
    placer = Placer(ledger, Inputs())
    placer.open(Rules(Profile.of([[Roomier()]], [])), 1, SEED)
    log: list[TaskInfo] = []
    for task in tasks:
        placer.place(PlacementRequest([task], log, idle_only=True))
    assert [task.node for task in log] == ["n0"] * 7 + ["n1"] * 3


def test_a_part_is_called_for_the_shapes_that_it_applies_to() -> None:
    ledger, (plain, selecting) = build([(4, 4, "a"), (4, 4, "a")], [(1, 1, ""), (1, 1, "a")])
    plugin = SelectorsOnly()
    placer = Placer(ledger, Inputs())
    placer.open(Rules(Profile.of([[plugin]], [])), 1, SEED)
    assert placer.place(PlacementRequest([plain], [])) == (1, False)
    assert plugin.calls == []
    assert placer.place(PlacementRequest([selecting], [])) == (1, False)
    assert selecting.node == "n0"
    assert plugin.calls[:2] == ["feasible_depends", "score_depends"]


def test_fit_errors_leave_out_filters_that_do_not_apply_to_the_shape() -> None:
    ledger, (task,) = build([(2, 2, "a"), (1, 1, "a"), (1, 1, "a"), (2, 2, "a")], [(2, 2, "")])
    plugin = SelectorsOnly()
    placer = Placer(ledger, Inputs())
    placer.open(Rules(Profile.of([[plugin]], [])), 1, SEED)
    errors = placer.fit_errors(task.shape, idle_only=True)
    assert errors.text == "0/4 nodes are unavailable: 4 Insufficient cpu."
    assert plugin.calls == []


def test_scores_by_state_are_kept_when_the_columns_grow() -> None:
    ledger, (task,) = build([(4, 4, "a")] * 60, [(1, 1, "")])
    plugin = CountingRoomier()
    placer = Placer(ledger, Inputs())
    placer.open(Rules(Profile.of([[plugin]], [])), 1, SEED)
    placer.candidate_scores(task)
    calls, capacity = plugin.calls, ledger.columns.capacity
    while ledger.columns.capacity == capacity:
        struct = decoded(node(f"m{len(ledger.columns)}", cpu="4", memory="4", pods="3", labels={"zone": "a"}))
        assert isinstance(struct, Node)
        ledger.put_node(struct)
    placer.candidate_scores(task)
    assert plugin.calls == calls > 0


def test_a_node_is_feasible_after_evictions_when_a_dropped_table_is_made_again() -> None:
    ledger, (*tasks, other) = build([(8, 8, "a")], [(1, 1, "")] * 6 + [(2, 2, "")])
    placer = Placer(ledger, Inputs())
    placer.open(Rules(Profile.of([[Crowd()]], [])), 1, SEED)
    assert placer.place(PlacementRequest(tasks, [])) == (4, False)
    with patch.object(placer_module, "MAX_TABLES", 1):
        placer.candidate_scores(other)
        assert placer.candidate_scores(tasks[-1])[0].tolist() == [True]
        assert not placer.fits(tasks[-1], 0)


def test_a_filter_without_declared_dependencies_depends_on_the_time() -> None:
    ledger, (task,) = build([(4, 4, "a")], [(1, 1, "")])
    placer = Placer(ledger, Inputs())
    placer.open(Rules(Profile.of([[Undeclared()]], [])), 1, SEED)
    assert not placer.is_time_independent(task.shape)
    placer.open(Rules(Profile.of([[Zones()]], [])), 1, SEED)
    assert placer.is_time_independent(task.shape)


def test_a_part_that_names_an_unknown_field_is_an_error() -> None:
    plugin = SelectorsOnly()
    plugin.applies_to = ("node_selector", "ports")
    with pytest.raises(ValueError, match=r"SelectorsOnly.applies_to names no field of Shape: \['ports'\]"):
        Rules(Profile.of([[plugin]], []))


def test_a_changed_node_is_filtered_again() -> None:
    ledger, (task, *_) = build([(4, 4, "b"), (4, 4, "b")], [(1, 1, "a")])
    placer = Placer(ledger, Inputs())
    rules = Rules(Profile.of([[Zones()]], []))
    placer.open(rules, 1, SEED)
    log: list[TaskInfo] = []
    assert placer.place(PlacementRequest([task], log)) == (0, False)
    assert placer.fit_errors(task.shape, idle_only=False).text == "0/2 nodes are unavailable: 2 another zone."
    struct = decoded(node("n1", cpu="4", memory="4", labels={"zone": "a"}))
    assert isinstance(struct, Node)
    ledger.put_node(struct)
    placer.open(rules, 2, SEED)
    assert placer.place(PlacementRequest([task], log)) == (1, False)
    assert task.node == "n1"


def test_ties_are_spread_and_depend_on_the_seed() -> None:
    chosen = set()
    for seed in range(20):
        ledger, (task, *_) = build([(4, 4, "a")] * 8, [(1, 1, "")])
        placer = Placer(ledger, Inputs())
        placer.open(Rules(Profile.of([], [])), CYCLE, seed)
        placer.place(PlacementRequest([task], []))
        chosen.add(task.node)
    assert len(chosen) > 3
