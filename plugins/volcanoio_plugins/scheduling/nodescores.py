"""Kubernetes' node scorers (pkg/scheduler/framework/plugins/noderesources), for all nodes and for one.

Both forms give the same numbers: integers divided as Kubernetes divides them. The vector form divides in float64, which
is exact while 100 times an amount stays below 2^53 (nodes up to 80 TiB of memory).
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.views import NodeRow, Nodes, Shape
from volcanoio.model.resources import CPU, MEMORY

MAX = 100
COUNTED = (CPU, MEMORY)
"""Resources of the least and most allocated scorers, of equal weight."""
BALANCED = (CPU, MEMORY, "nvidia.com/gpu")
"""Resources that are to be used evenly; one that is neither cpu nor memory counts if the pod asks for it."""

Floats = NDArray[np.float64]


def least_allocated(shape: Shape, nodes: Nodes) -> Floats:
    """(capacity − requested)·100/capacity, the mean over cpu and memory."""
    return _mean(shape, nodes, least=True)


def most_allocated(shape: Shape, nodes: Nodes) -> Floats:
    """requested·100/capacity, the mean over cpu and memory."""
    return _mean(shape, nodes, least=False)


def _mean(shape: Shape, nodes: Nodes, *, least: bool) -> Floats:
    total = np.zeros(len(nodes))
    weights: NDArray[np.int64] | int = 0
    for resource in COUNTED:
        capacity = nodes.allocatable(resource)
        part = nodes.nonzero_used(resource) + shape.nonzero_requests.get(resource, 0)
        if least:
            np.subtract(capacity, part, out=part)
            np.maximum(part, 0, out=part)
        else:
            np.minimum(part, capacity, out=part)
        part *= MAX
        if capacity.all():
            weights = weights + 1
            total += np.floor(part / capacity)
        else:
            has = capacity != 0
            weights = weights + has
            total += np.where(has, np.floor(part / np.where(has, capacity, 1)), 0.0)
    result: Floats = np.floor(total / np.maximum(weights, 1))
    return result


def least_allocated_on(shape: Shape, node: NodeRow) -> int:
    """As `least_allocated`, of one node."""
    total = weights = 0
    for resource in COUNTED:
        if capacity := node.allocatable(resource):
            left = capacity - node.nonzero_used(resource) - shape.nonzero_requests.get(resource, 0)
            if left > 0:
                total += left * MAX // capacity
            weights += 1
    return total // weights if weights else 0


def most_allocated_on(shape: Shape, node: NodeRow) -> int:
    """As `most_allocated`, of one node."""
    total = weights = 0
    for resource in COUNTED:
        if capacity := node.allocatable(resource):
            taken = node.nonzero_used(resource) + shape.nonzero_requests.get(resource, 0)
            total += min(taken, capacity) * MAX // capacity
            weights += 1
    return total // weights if weights else 0


def balanced(shape: Shape, nodes: Nodes) -> Floats:
    """100·(1 − σ) where σ is the standard deviation of the used fractions of resources."""
    fractions: list[Floats] = []
    valid: list[NDArray[np.bool_]] = []
    for resource in _balanced_resources(shape):
        capacity = nodes.allocatable(resource)
        has = capacity != 0
        taken = nodes.used(resource) + shape.requests.get(resource, 0)
        fraction = taken / (capacity if has.all() else np.where(has, capacity, 1))
        np.minimum(fraction, 1.0, out=fraction)
        fraction[~has] = 0.0
        fractions.append(fraction)
        valid.append(has)
    if len(fractions) == 2 and valid[0].all() and valid[1].all():
        return _score(np.abs((fractions[0] - fractions[1]) / 2))
    count = sum(has.astype(np.int64) for has in valid)
    mean = sum(fractions[1:], fractions[0]) / np.maximum(count, 1)
    squares = np.zeros(len(nodes))
    for fraction, has in zip(fractions, valid, strict=True):
        difference = fraction - mean
        squares += np.where(has, difference * difference, 0.0)
    deviation = np.sqrt(squares / np.maximum(count, 1))
    pair = count == 2
    deviation[pair] = np.abs(_pair_difference(fractions, valid)[pair] / 2)
    deviation[np.asarray(count) < 2] = 0.0
    return _score(deviation)


def balanced_on(shape: Shape, node: NodeRow) -> int:
    """As `balanced`, of one node."""
    fractions = []
    for resource in _balanced_resources(shape):
        if capacity := node.allocatable(resource):
            fraction = float(node.used(resource) + shape.requests.get(resource, 0)) / float(capacity)
            fractions.append(min(fraction, 1.0))
    if len(fractions) < 2:
        return MAX
    if len(fractions) == 2:
        return int((1 - abs((fractions[0] - fractions[1]) / 2)) * MAX)
    mean = sum(fractions) / len(fractions)
    squares = 0.0
    for fraction in fractions:
        difference = fraction - mean
        squares += difference * difference
    return int((1 - sqrt(squares / len(fractions))) * MAX)


def normalised(counts: NDArray[np.int64], feasible: NDArray[np.bool_], *, reverse: bool) -> NDArray[np.int64]:
    """Counts as 0 to 100 of the largest among feasible nodes; reversed, the largest is 0 (DefaultNormalizeScore)."""
    largest = int(counts[feasible].max(initial=0))
    if largest == 0:
        return np.full(len(counts), MAX if reverse else 0, np.int64)
    scaled = counts * MAX // largest
    return MAX - scaled if reverse else scaled


def _balanced_resources(shape: Shape) -> list[str]:
    return [name for name in BALANCED if name in COUNTED or shape.requests.get(name, 0)]


def _pair_difference(fractions: list[Floats], valid: list[NDArray[np.bool_]]) -> Floats:
    """The first valid fraction less the second, for rows that have two."""
    difference = np.zeros(len(fractions[0]))
    seen = np.zeros(len(fractions[0]), np.bool_)
    for fraction, has in zip(fractions, valid, strict=True):
        difference = np.where(has, np.where(seen, difference - fraction, fraction), difference)
        seen |= has
    return difference


def _score(deviation: Floats) -> Floats:
    result: Floats = np.floor((1 - deviation) * MAX)
    return result
