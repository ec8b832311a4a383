"""The reference for the engine: a scheduler in plain Python that evaluates every node for every pod.

Formulas and workload are those of the engine's default configuration (fit, node selector, least allocated, balanced,
binpack). It has no queues, gangs and accounting, which is in its favour.
"""

from __future__ import annotations

import time

from bench.workload import GPU, Workload

MAX = 100


class PlainNode:
    """A node: its allocatable amounts, its labels, and its usage."""

    __slots__ = ("allocatable", "labels", "name", "used")

    def __init__(self, name: str, allocatable: dict[str, int], labels: dict[str, str]) -> None:
        self.name = name
        self.allocatable = allocatable
        self.labels = labels
        self.used = dict.fromkeys(allocatable, 0)


def score(node: PlainNode, requests: dict[str, int]) -> float:
    """Return least allocated + balanced + binpack, with weight 1 each."""
    least = total = 0.0
    before, after = [], []
    for name in ("cpu", "memory"):
        capacity, used = node.allocatable[name], node.used[name] + requests[name]
        least += (capacity - used) * MAX // capacity
        total += used / capacity
        before.append(node.used[name] / capacity)
        after.append(used / capacity)
    gain = int((1 - abs(after[0] - after[1]) / 2) * MAX) - int((1 - abs(before[0] - before[1]) / 2) * MAX)
    return least // 2 + MAX // 2 + (MAX // 2 + gain) // 2 + total / 2 * MAX


def fits(node: PlainNode, requests: dict[str, int], selector: dict[str, str]) -> bool:
    """Return whether a pod fits a node."""
    for name, amount in requests.items():
        if node.allocatable.get(name, 0) - node.used.get(name, 0) < amount:
            return False
    return all(node.labels.get(key) == value for key, value in selector.items())


def placements_per_second(workload: Workload, seconds: float) -> float:
    """Measure how many of the workload's first pods such a loop places per CPU second."""
    nodes = [PlainNode(facts.name, dict(facts.allocatable), dict(facts.labels)) for facts in workload.node_facts()]
    placed, started = 0, time.process_time()
    for pod in workload.pod_facts():
        requests = {GPU: 0, **pod.requests, "pods": 1}
        best, most = None, float("-inf")
        for node in nodes:
            if fits(node, requests, dict(pod.selector)) and (value := score(node, requests)) > most:
                best, most = node, value
        if best is not None:
            for name, amount in requests.items():
                best.used[name] += amount
            placed += 1
        if time.process_time() - started >= seconds:
            break
    return placed / (time.process_time() - started)
