"""Checks placements against the requests in the simplest way, without the engine: it imports nothing of volcanoio.

Amounts are integers in any units, as long as nodes, pods and queues use the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node: its allocatable amounts and labels."""

    name: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod: its requests, the labels that its node must have, and its gang."""

    uid: str
    group: str
    requests: Mapping[str, int]
    selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A gang: its minimum number of members, and its queue."""

    name: str
    minimum: int
    queue: str


@dataclass(slots=True)
class Report:
    """Result of a check; `violations` lists the first ones in full."""

    placed: int = 0
    gangs_placed: int = 0
    gangs_unplaced: int = 0
    violations: list[str] = field(default_factory=list)


def check(
    nodes: Iterable[NodeFacts],
    pods: Iterable[PodFacts],
    groups: Iterable[GroupFacts],
    limits: Mapping[str, Mapping[str, int]],
    placements: Iterable[tuple[str, str]],
) -> Report:
    """Check (pod uid, node name) placements: fit, selectors, whole gangs, limits of queues, no pod twice."""
    report = Report()
    by_name = {node.name: node for node in nodes}
    by_uid = {pod.uid: pod for pod in pods}
    by_group = {group.name: group for group in groups}
    on_node: defaultdict[str, Counter[str]] = defaultdict(Counter)
    in_queue: defaultdict[str, Counter[str]] = defaultdict(Counter)
    members: Counter[str] = Counter()
    seen: set[str] = set()
    for uid, node_name in placements:
        pod, node = by_uid.get(uid), by_name.get(node_name)
        if pod is None or node is None:
            report.violations.append(f"pod {uid} on node {node_name}: no such pod or node")
            continue
        if uid in seen:
            report.violations.append(f"pod {uid} is placed twice")
            continue
        seen.add(uid)
        members[pod.group] += 1
        for key, value in pod.selector.items():
            if node.labels.get(key) != value:
                report.violations.append(f"pod {uid} wants {key}={value}, node {node_name} has {node.labels.get(key)}")
        on_node[node_name].update({**pod.requests, "pods": 1})
        in_queue[by_group[pod.group].queue].update(pod.requests)
    report.placed = len(seen)
    for name, used in on_node.items():
        _within(
            report, f"node {name}", used, {resource: by_name[name].allocatable.get(resource, 0) for resource in used}
        )
    for queue, used in in_queue.items():
        _within(report, f"queue {queue}", used, limits.get(queue, {}))
    for group in by_group.values():
        count = members[group.name]
        if count >= group.minimum:
            report.gangs_placed += 1
        elif count:
            report.violations.append(f"gang {group.name} has {count} of {group.minimum} members placed")
        else:
            report.gangs_unplaced += 1
    return report


def _within(report: Report, what: str, used: Mapping[str, int], limits: Mapping[str, int]) -> None:
    for resource, limit in limits.items():
        if used.get(resource, 0) > limit:
            report.violations.append(f"{what} holds {used[resource]} {resource}, more than {limit}")
