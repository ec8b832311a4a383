"""Which scheduler gets which node: each in turn filters, orders and cuts the nodes that those before left.

Source: Volcano pkg/controllers/sharding. Unlike there, more than 50 nodes are not divided into batches, in each of
which a node limit would count again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from volcanoio.engine.sharding.configuration import SchedulerShard
from volcanoio.engine.sharding.policies import Filters, NodeFacts, Scores, Selects

CHANGED_SHARE = 0.1
"""Share of a shard's nodes that must differ before it is written, if their number stays the same."""


def assign(schedulers: Sequence[SchedulerShard], nodes: Iterable[NodeFacts]) -> dict[str, tuple[str, ...]]:
    """Return the sorted nodes of each scheduler, by its name; no node has two."""
    left = sorted(nodes, key=lambda node: node.name)
    assigned: dict[str, tuple[str, ...]] = {}
    for scheduler in schedulers:
        names = sorted(node.name for node in _choose(scheduler, left))
        assigned[scheduler.name] = tuple(names)
        taken = frozenset(names)
        left = [node for node in left if node.name not in taken]
    return assigned


def _choose(scheduler: SchedulerShard, nodes: Sequence[NodeFacts]) -> Sequence[NodeFacts]:
    filters = [policy for policy, _ in scheduler.policies if isinstance(policy, Filters)]
    chosen: Sequence[NodeFacts] = [node for node in nodes if all(each.accepts(node) for each in filters)]
    if scorers := [(policy, weight) for policy, weight in scheduler.policies if isinstance(policy, Scores)]:
        chosen = sorted(chosen, key=lambda node: -sum(weight * policy.score(node) for policy, weight in scorers))
    for policy, _ in scheduler.policies:
        if isinstance(policy, Selects):
            chosen = policy.select(chosen)
    return chosen


def due_writes(
    assigned: Mapping[str, tuple[str, ...]], stored: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Return the shards to write, by name: all that differ, if any of them differs enough or is missing."""
    differing = {
        name: nodes for name, nodes in assigned.items() if name not in stored or set(stored[name]) != set(nodes)
    }
    enough = any(name not in stored or _is_large(stored[name], nodes) for name, nodes in differing.items())
    return differing if enough else {}  # one alone could leave a node in two shards


def _is_large(stored: Sequence[str], nodes: Sequence[str]) -> bool:
    before, after = set(stored), set(nodes)
    changed = max(len(before - after), len(after - before))
    return len(before) != len(after) or changed >= max(1, ceil(CHANGED_SHARE * len(after)))
