"""Placing a gang gives the same result as a naive loop over its tasks and all nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.examples import examples
from tests.scenario.scheduling.harness import decoded, node, pod
from volcanoio.engine.scheduling.cluster.inputs import Inputs
from volcanoio.engine.scheduling.cluster.jobs import TaskInfo
from volcanoio.engine.scheduling.cluster.node_columns import name_hash
from volcanoio.engine.scheduling.cluster.rows import SingleRow
from volcanoio.engine.scheduling.cluster.task_transitions import Ledger
from volcanoio.engine.scheduling.config.plugin_rules import Rules
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.placement import by_node_state, node_states
from volcanoio.engine.scheduling.placement.placer import PlacementRequest, Placer
from volcanoio.engine.scheduling.placement.score_table import mix
from volcanoio.framework.scheduling.points import Plugin
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import AmountColumns, NodeRow, Nodes, Shape, TaskStatus
from volcanoio.model.core import Node, Pod

SEED, CYCLE = 11, 3
USAGE = Depends.NODE_SPEC | Depends.NODE_USAGE


class Emptier:
    """More idle cpu is better; vector and scalar form, from amounts alone: kept by state."""

    name = "emptier"

    def score_depends(self, shape: Shape) -> Depends:
        return Depends.NODE_AMOUNTS | Depends.NODE_USAGE

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        return (nodes.idle("cpu") // 1000).astype(np.float64)

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        return float(node.idle("cpu") // 1000)


class Later:
    """The name's last digit counts, and what is idle; vector and scalar form."""

    name = "later"

    def score_depends(self, shape: Shape) -> Depends:
        return USAGE

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.array([int(name[-1]) for name in nodes.names]) % 3 + (nodes.idle("cpu") % 2).astype(np.float64)

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        return float(int(node.name[-1]) % 3 + node.idle("cpu") % 2)


class Roomier:
    """Prefers more idle memory, by node amounts alone: one cached score for all nodes with equal amounts."""

    name = "roomier"

    def score_depends(self, shape: Shape) -> Depends:
        return Depends.NODE_AMOUNTS | Depends.NODE_USAGE

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        return (nodes.idle("memory") // 2**30).astype(np.float64)

    def score_from(self, shape: Shape, at: AmountColumns) -> Callable[[Sequence[int]], float]:
        where = at.idle("memory")
        return lambda amounts: 0.0 if where is None else float(amounts[where] // 2**30)


class Lonely:
    """Prefers nodes with an odd number of pods, by node amounts: pod slots are a part of the node state."""

    name = "lonely"

    def score_depends(self, shape: Shape) -> Depends:
        return Depends.NODE_AMOUNTS | Depends.NODE_USAGE

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        return (nodes.used("pods") % 2).astype(np.float64)

    def score_from(self, shape: Shape, at: AmountColumns) -> Callable[[Sequence[int]], float]:
        where = at.used("pods")
        return lambda amounts: 0.0 if where is None else float(amounts[where] % 2)


class Fuller:
    """More used memory is better, not monotone in what is placed; vector form only."""

    name = "fuller"

    def score_depends(self, shape: Shape) -> Depends:
        return USAGE

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        return (nodes.used("memory") * 7 % 5).astype(np.float64)


class Relative:
    """Among the feasible nodes, relative to the most used one: depends on the whole set."""

    name = "relative"

    def score_depends(self, shape: Shape) -> Depends:
        return USAGE | Depends.FEASIBLE_SET

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        most = int(nodes.used("cpu")[feasible].max(initial=0)) or 1
        return (nodes.used("cpu") * 10 // most).astype(np.float64)


class Zones:
    """Shapes with a selector go to nodes of that zone; scalar form, with its dependency declared."""

    name = "zones"

    def feasible_depends(self, shape: Shape) -> Depends:
        return Depends.NODE_SPEC

    def feasible_on(self, shape: Shape, node: NodeRow) -> str:
        zone = shape.node_selector.get("zone")
        return "" if zone is None or node.object.metadata.labels.get("zone") == zone else "another zone"


class Crowd:
    """No more than five pods a node; depends on usage, vector form."""

    name = "crowd"

    def feasible_depends(self, shape: Shape) -> Depends:
        return USAGE

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        ok = nodes.used("pods") < 5
        return Feasibility(ok, (("crowded", ~ok),))


class SelectorsOnly:
    """A filter and scorer about node selectors: it counts its calls, and fails for other shapes."""

    name = "selectors-only"
    applies_to = ("node_selector", "affinity")

    def __init__(self) -> None:
        self.calls: list[str] = []

    def feasible_depends(self, shape: Shape) -> Depends:
        self.calls.append("feasible_depends")
        return Depends.NODE_SPEC

    def feasible_on(self, shape: Shape, node: NodeRow) -> str:
        return "" if node.name == "n0" else "not n0"

    def score_depends(self, shape: Shape) -> Depends:
        self.calls.append("score_depends")
        return Depends.NODE_SPEC

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        self.calls.append("score_on")
        return 0.0


class Undeclared:
    """Says nothing about what it depends on: asked for every task."""

    name = "undeclared"

    def feasible_on(self, shape: Shape, node: NodeRow) -> str:
        return "" if node.used("memory") % 3 != 2 else "odd"


PLUGINS: dict[str, type] = {
    plugin.name: plugin for plugin in (Emptier, Later, Roomier, Lonely, Fuller, Relative, Zones, Crowd, Undeclared)
}


def naive(ledger: Ledger, plugins: Sequence[Any], tasks: Sequence[TaskInfo]) -> list[tuple[str, TaskStatus]]:
    """One task after the other, node after node, in plain Python."""
    columns, placed = ledger.columns, []
    for task in tasks:
        shape, row = task.shape, SingleRow(columns)
        groups: dict[TaskStatus, list[int]] = {TaskStatus.ALLOCATED: [], TaskStatus.PIPELINED: []}
        for at in range(len(columns)):
            row.load(at)
            if not all(row.future_idle(name) >= amount for name, amount in shape.requests.items()):
                continue
            if not all(_passes(plugin, shape, columns, row) for plugin in plugins):
                continue
            fits = all(row.idle(name) >= amount for name, amount in shape.requests.items())
            groups[TaskStatus.ALLOCATED if fits else TaskStatus.PIPELINED].append(at)
        status = TaskStatus.ALLOCATED if groups[TaskStatus.ALLOCATED] else TaskStatus.PIPELINED
        group = groups[status]
        if not group:
            break
        feasible = np.zeros(len(columns), np.bool_)
        feasible[group] = True
        scores = dict.fromkeys(group, 0.0)
        for plugin in plugins:
            if hasattr(plugin, "score"):
                column = plugin.score(shape, columns, feasible)
                for at in group:
                    scores[at] += float(column[at])
        best = max(scores.values())
        chosen = min((at for at in group if scores[at] == best), key=lambda at: _tie(columns.names[at], shape))
        placed.append((columns.names[chosen], status))
        ledger.assume(task, status, chosen)
    return placed


def _passes(plugin: Any, shape: Shape, columns: Any, row: SingleRow) -> bool:
    if hasattr(plugin, "feasible_on"):
        return not plugin.feasible_on(shape, row)
    return not hasattr(plugin, "feasible") or bool(plugin.feasible(shape, columns).ok[row.row])


def _tie(name: str, shape: Shape) -> int:
    return name_hash(name) ^ mix(mix(mix(SEED) ^ CYCLE) ^ shape.id)


def build(nodes: list[tuple[int, int, str]], tasks: list[tuple[int, int, str]]) -> tuple[Ledger, list[TaskInfo]]:
    """A ledger of nodes (cpu, memory, zone), some with a releasing pod, and its tasks (cpu, memory, selected zone).

    Every other node takes no more than three pods.
    """
    ledger = Ledger()
    for index, (cpu, memory, zone) in enumerate(nodes):
        pods = "3" if index % 2 else "8"
        manifest = node(f"n{index}", cpu=str(cpu), memory=str(memory), pods=pods, labels={"zone": zone})
        struct = decoded(manifest)
        assert isinstance(struct, Node)
        ledger.put_node(struct)
        if index % 3 == 0:
            ledger.add_task(_task(ledger, f"old-{index}", 1, 1, ""), TaskStatus.RELEASING, f"n{index}")
    made = []
    for index, (cpu, memory, zone) in enumerate(tasks):
        task = _task(ledger, f"t-{index}", cpu, memory, zone)
        ledger.add_task(task, TaskStatus.PENDING, "")
        made.append(task)
    ledger.set_queue(ledger.get_or_create_job("ns/pg"), ledger.get_or_create_queue("q"))
    return ledger, made


def _task(ledger: Ledger, name: str, cpu: int, memory: int, zone: str) -> TaskInfo:
    spec = {"nodeSelector": {"zone": zone}} if zone else {}
    struct = decoded(pod(name, "pg", cpu=str(cpu), memory=str(memory), spec=spec))
    assert isinstance(struct, Pod)
    return TaskInfo(struct, ledger.shapes.of(struct), "ns/pg")


def gangs(tasks: list[TaskInfo]) -> list[list[TaskInfo]]:
    """Neighbours of one shape."""
    result: list[list[TaskInfo]] = []
    for task in tasks:
        if result and result[-1][0].shape is task.shape:
            result[-1].append(task)
        else:
            result.append([task])
    return result


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
        patch.object(node_states, "MOST_STATES", room),
        patch.object(node_states, "WINDOW", room),
        patch.object(node_states, "FEW_STATES", room),
        patch.multiple(by_node_state, MOST_FIRST=room // 2, LEAST=room, MOST=2 * room, FIRST_ROWS=room // 2),
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
        row = placer.assume_one(gang[0]) if len(gang) == 1 else -1
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
