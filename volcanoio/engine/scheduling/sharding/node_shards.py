"""The nodes that NodeShards assign to this scheduler, when several schedulers divide a cluster (Volcano: sharding).

A NodeShard lists the nodes that a scheduler is to use (`spec.nodesDesired`); the scheduler reports those that it uses
(`status.nodesInUse`). It may use the desired nodes that no other shard has in use, so a node moves only after its
previous scheduler has stopped using it. docs/sharding.md states what is guaranteed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.ledger import Ledger
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.engine.scheduling.cluster.rows import SingleRow
from volcanoio.engine.scheduling.config.plugin_parts import FilterPart, Numbers, ScorerPart
from volcanoio.framework.effects import Patch
from volcanoio.framework.events import Change
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Nodes, Shape, TaskStatus
from volcanoio.model import kinds
from volcanoio.model.names import SCHEDULER_NAME
from volcanoio.model.nodes import NodeShard, NodeShardStatus

OUTSIDE = "node isn't in scheduler node shard"
"""Volcano's reason why a node outside the shard is infeasible in hard mode."""
RELEASE_SECONDS = 2.0
"""Seconds until a node that another shard no longer lists may be used; the watch has shown its last pods by then."""
DELETION_SECONDS = 12.0
"""The same after a shard was deleted, whose scheduler may still have binds in flight (`scope.HANDOVER_SECONDS`)."""
OUTSIDE_PENALTY = 2.0**40
"""Subtracted from the score of nodes outside the shard in soft mode; larger than any sum of plugin scores."""


class ShardingMode(StrEnum):
    """What nodes outside the shard are used for: nothing, or only what fits no node of the shard."""

    HARD = "hard"
    SOFT = "soft"


class Sharding(msgspec.Struct, frozen=True):
    """A scheduler's mode of sharding, and the name of its NodeShard."""

    mode: ShardingMode
    name: str = SCHEDULER_NAME
    release_seconds: float = RELEASE_SECONDS
    deletion_seconds: float = DELETION_SECONDS


class NodeShards:
    """All NodeShards, and the nodes that this scheduler may use according to them.

    Events only record what has changed; `refresh` applies it between two cycles.
    """

    def __init__(self, sharding: Sharding, ledger: Ledger) -> None:
        self.sharding = sharding
        self.usable: frozenset[str] = frozenset()
        """Names of the nodes that may be used: desired by the own shard, and released by all others."""
        self.draining: set[str] = set()
        """Nodes that left `usable` while binds to them are in flight; they stay in use until those have ended."""
        self._ledger = ledger
        self._shards: dict[str, NodeShard] = {}
        self._free_at: dict[str, float] = {}
        """When nodes that other shards released may be used (epoch seconds)."""
        self._is_outdated = self._is_status_outdated = True
        self._inside: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Whether each row is in `usable`, as of `_clock` of the columns."""
        self._clock = -1
        self._in_flight: NodeShardStatus | None = None
        """The status that was sent last and is not answered yet."""

    @property
    def has_own(self) -> bool:
        """Whether this scheduler's NodeShard exists; without one no node is usable."""
        return self.sharding.name in self._shards

    def observe(self, shard: NodeShard, change: Change, at: float) -> bool:
        """Record a NodeShard; return whether that could alter a decision. `at` is in epoch seconds."""
        name, before = shard.metadata.name, self._shards.pop(shard.metadata.name, None)
        if change is not Change.GONE:
            self._shards[name] = shard
        if name == self.sharding.name:
            changed = change is Change.GONE or before is None or before.spec != shard.spec
            self._is_status_outdated = True
        elif before is None:
            changed = bool(shard.status.nodes_in_use)
        elif change is Change.GONE:
            self._release(_held(before), at + self.sharding.deletion_seconds)
            changed = True
        else:
            self._release(_held(before) - _held(shard), at + self.sharding.release_seconds)
            changed = before.status.nodes_in_use != shard.status.nodes_in_use or before.spec != shard.spec
        self._is_outdated = self._is_outdated or changed
        return changed

    def _release(self, nodes: Iterable[str], at: float) -> None:
        """Set when nodes that another shard no longer lists may be used."""
        self._free_at.update(dict.fromkeys(nodes, at))

    def refresh(self, now: float) -> bool:
        """Apply the shards between two cycles (epoch seconds); return whether other nodes are usable than before."""
        if due := [name for name, at in self._free_at.items() if at <= now]:
            self._is_outdated = True
            for name in due:
                del self._free_at[name]
        if self.draining:
            self.draining = {name for name in self.draining if self._has_bind_in_flight(name)}
            self._is_status_outdated = True
        if not self._is_outdated:
            return False
        self._is_outdated, self._is_status_outdated = False, True
        before, self.usable = self.usable, self._usable_now()
        self.draining.update(name for name in before - self.usable if self._has_bind_in_flight(name))
        self.draining -= self.usable
        columns = self._ledger.columns
        for name in before ^ self.usable:
            if (row := columns.rows.get(name)) is not None:
                columns.mark_respecified(row)
        return before != self.usable

    def _usable_now(self) -> frozenset[str]:
        if (own := self._shards.get(self.sharding.name)) is None:
            return frozenset()
        others = (shard.status.nodes_in_use for name, shard in self._shards.items() if name != self.sharding.name)
        return frozenset(own.spec.nodes_desired).difference(self._free_at, *others)

    def _has_bind_in_flight(self, node: str) -> bool:
        tasks = self._ledger.tasks_by_node.get(node, {})
        return any(task.status is TaskStatus.BINDING for task in tasks.values())

    def status_patch(self, timestamp: str) -> Patch | None:
        """Return the write of the shard's status; None if it is stored or sent already, or there is no shard."""
        if not self._is_status_outdated or (own := self._shards.get(self.sharding.name)) is None:
            return None
        self._is_status_outdated = False
        in_use, desired = self.usable | self.draining, frozenset(own.spec.nodes_desired)
        status = NodeShardStatus(
            nodes_in_use=tuple(sorted(in_use)),
            nodes_to_remove=tuple(sorted(in_use - desired)),
            nodes_to_add=tuple(sorted(desired - in_use)),
        )
        if status == self._in_flight or (self._in_flight is None and _has_lists(own.status, status)):
            return None
        self._in_flight = status
        lists = {
            "nodesInUse": status.nodes_in_use,
            "nodesToAdd": status.nodes_to_add,
            "nodesToRemove": status.nodes_to_remove,
        }
        written: dict[str, Any] = {"lastUpdateTime": timestamp, **{key: list(value) for key, value in lists.items()}}
        return Patch.of(kinds.NODE_SHARD.resource, own, {"status": written}, subresource="status")

    def status_answered(self, stored: NodeShard | None) -> None:
        """Record the response to the last write of the status, None if it failed: then it is written again."""
        self._in_flight, self._is_status_outdated = None, True
        if stored is not None and stored.metadata.name in self._shards:
            self._shards[stored.metadata.name] = stored

    def filters(self) -> tuple[FilterPart, ...]:
        """Return the filter of hard mode; none in soft mode."""
        if self.sharding.mode is not ShardingMode.HARD:
            return ()
        return (
            FilterPart(
                _on_node_spec,
                lambda _shape, _nodes, columns, rows: self._feasible(columns, rows),
                lambda _shape, columns: self.inside(columns),
                precedes_room=True,
            ),
        )

    def scorers(self) -> tuple[ScorerPart, ...]:
        """Return the scorer of soft mode; none in hard mode."""
        if self.sharding.mode is not ShardingMode.SOFT:
            return ()
        return (ScorerPart(_on_node_spec, self._score, self._score_one),)

    def inside(self, columns: NodeColumns) -> NDArray[np.bool_]:
        """Return by row whether a node is usable. Callers must not write to it."""
        size = len(columns)
        if self._clock != columns.spec_clock or len(self._inside) != columns.capacity:
            if len(self._inside) != columns.capacity:
                self._inside, self._clock = np.zeros(columns.capacity, np.bool_), -1
            names, usable = columns.names, self.usable
            for row in (columns.spec_changed_at[:size] > self._clock).nonzero()[0].tolist():
                self._inside[row] = names[row] in usable
            self._clock = columns.spec_clock
        return self._inside[:size]

    def _feasible(self, columns: NodeColumns, rows: Numbers) -> Feasibility:
        ok = _select(self.inside(columns), rows)
        return Feasibility(ok, ((OUTSIDE, ~ok),))

    def _score(
        self, _shape: Shape, _nodes: Nodes, _feasible: NDArray[np.bool_], columns: NodeColumns, rows: Numbers
    ) -> NDArray[np.float64]:
        return np.where(_select(self.inside(columns), rows), 0.0, -OUTSIDE_PENALTY)

    def _score_one(self, _shape: Shape, node: SingleRow) -> float:
        return 0.0 if node.name in self.usable else -OUTSIDE_PENALTY


def _on_node_spec(_shape: Shape) -> Depends:
    return Depends.NODE_SPEC


def _select(mask: NDArray[np.bool_], rows: Numbers) -> NDArray[np.bool_]:
    chosen: NDArray[np.bool_] = mask[rows.start : rows.stop] if isinstance(rows, range) else mask[np.asarray(rows)]
    return chosen


def _held(shard: NodeShard) -> set[str]:
    """Return the nodes on which the scheduler of a shard may place pods."""
    return {*shard.spec.nodes_desired, *shard.status.nodes_in_use}


def _has_lists(stored: NodeShardStatus, wanted: NodeShardStatus) -> bool:
    """Return whether a stored status has the same nodes, in any order."""

    def lists(status: NodeShardStatus) -> Iterable[set[str]]:
        return set(status.nodes_in_use), set(status.nodes_to_remove), set(status.nodes_to_add)

    return lists(stored) == lists(wanted)
