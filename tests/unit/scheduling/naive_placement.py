"""Placement in plain Python, one task after another and node by node: the reference for the placement tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.scenario.scheduling.harness import decoded, node, pod
from volcanoio.engine.scheduling.cluster.jobs import TaskInfo
from volcanoio.engine.scheduling.cluster.ledger import Ledger
from volcanoio.engine.scheduling.cluster.node_columns import name_hash
from volcanoio.engine.scheduling.cluster.rows import SingleRow
from volcanoio.engine.scheduling.placement.score_table import mix
from volcanoio.framework.scheduling.views import Shape, TaskStatus
from volcanoio.model.core import Node, Pod

SEED, CYCLE = 11, 3


def naive(ledger: Ledger, plugins: Sequence[Any], tasks: Sequence[TaskInfo]) -> list[tuple[str, TaskStatus]]:
    """Place one task after another, and return the node and status of each."""
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
    """Return a ledger of nodes (cpu, memory, zone) and its tasks (cpu, memory, selected zone).

    Every third node has a releasing pod, and every second one allows three pods only.
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
    """Group consecutive tasks of one shape."""
    result: list[list[TaskInfo]] = []
    for task in tasks:
        if result and result[-1][0].shape is task.shape:
            result[-1].append(task)
        else:
            result.append([task])
    return result
