"""Kubernetes' node scorers (pkg/scheduler/framework/plugins/noderesources), for all nodes and for one.

Both forms give the same numbers, with Kubernetes' integer division. The vector form divides in float64, which is exact
while 100 times an amount stays below 2^53 (nodes up to 80 TiB of memory). They are called for a few rows after every
gang, and for one after every task: the usual case, nodes that have cpu and memory, comes first.
"""

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.verdicts import Depends
from volcanoio.framework.scheduling.views import AmountColumns, Nodes, Shape, cpu_memory_column
from volcanoio.model.resources import CPU, MEMORY

MAX = 100
COUNTED = (CPU, MEMORY)
"""Resources of the least and most allocated scorers, with equal weight."""
GPU = "nvidia.com/gpu"
"""Balanced too, beside cpu and memory, if the pod requests it."""

LEVEL = 150
"""Twice the balance score of a pod that changes nothing: 50 + (50 + with − without)/2 is (150 + with − without)/2."""

_BY_AMOUNTS = Depends.NODE_AMOUNTS | Depends.NODE_USAGE
_HUNDRED, _FIFTY, _TWO, _ONE, _HALF, _NONE, _LEVEL = (
    np.array(float(number)) for number in (MAX, MAX / 2, 2, 1, 0.5, 0, LEVEL)
)
"""Numbers as numpy has them: to make them of Python's is a third of what an operation on a few hundred nodes costs."""

Floats = NDArray[np.float64]
Score: TypeAlias = Callable[[Sequence[int]], float]
"""Returns a node's score from its amounts."""


class UsageScorer:
    """The weighted sum of the scorers by usage, which depend on the row's own amounts."""

    def __init__(self, *, least: int, most: int, even: int) -> None:
        weighted = ((least, least_allocated), (most, most_allocated), (even, balanced))
        self._parts = tuple((weight, scorer) for weight, scorer in weighted if weight)
        singly = ((least, least_allocated_from), (most, most_allocated_from), (even, balanced_from))
        self._singly = tuple((weight, make) for weight, make in singly if weight)

    def score_depends(self, shape: Shape) -> Depends:  # noqa: ARG002 - the same for all shapes
        """Depend on the node's amounts."""
        return _BY_AMOUNTS if self._parts else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> Floats:  # noqa: ARG002 - not relative to other nodes
        """Score all nodes."""
        total: Floats | None = None
        for weight, scorer in self._parts:
            scores = scorer(shape, nodes)
            if weight != 1:
                scores *= weight
            total = scores if total is None else np.add(total, scores, out=total)
        return np.zeros(len(nodes)) if total is None else total

    def score_from(self, shape: Shape, at: AmountColumns) -> Score:
        """Return a scorer of one node: the same operations in the same order."""
        parts = [(weight, make(shape, at)) for weight, make in self._singly]
        if len(parts) == 2:  # the default weights
            (its, first), (others, second) = parts
            return lambda amounts: first(amounts) * its + second(amounts) * others

        def score(amounts: Sequence[int]) -> float:
            total = 0.0
            for weight, one in parts:
                total += one(amounts) * weight
            return total

        return score


def least_allocated(shape: Shape, nodes: Nodes) -> Floats:
    """Score (capacity − requested)·100/capacity, the mean over cpu and memory."""
    return _mean(shape, nodes, least=True)


def most_allocated(shape: Shape, nodes: Nodes) -> Floats:
    """Score requested·100/capacity, the mean over cpu and memory."""
    return _mean(shape, nodes, least=False)


def _mean(shape: Shape, nodes: Nodes, *, least: bool) -> Floats:
    if nodes.all_have_cpu_memory:
        return _mean_of_both(shape, nodes, least=least)
    total: Floats | None = None
    weights: NDArray[np.int64] | int = 0
    for resource in COUNTED:
        capacity = nodes.allocatable(resource)
        part: Floats = np.add(nodes.nonzero_used(resource), shape.nonzero_requests.get(resource, 0), dtype=np.float64)
        if least:
            np.subtract(capacity, part, out=part)
            np.maximum(part, 0, out=part)
        else:
            np.minimum(part, capacity, out=part)
        part *= MAX
        if positive(capacity):
            weights = weights + 1
            part /= capacity
        else:
            has = capacity != 0
            weights = weights + has
            part = np.where(has, part / np.where(has, capacity, 1), 0.0)
        np.floor(part, out=part)
        total = part if total is None else np.add(total, part, out=total)
    assert total is not None
    total /= weights if isinstance(weights, int) else np.maximum(weights, 1)
    return np.floor(total, out=total)


def _mean_of_both(shape: Shape, nodes: Nodes, *, least: bool) -> Floats:
    """Compute the same if all nodes have both resources: the usual case, in half as many steps."""
    asked, capacity = shape.nonzero_requests.get, nodes.cpu_memory("allocatable")
    both: Floats = nodes.cpu_memory("nonzero_used") + cpu_memory_column(asked(CPU, 0), asked(MEMORY, 0))
    if least:
        np.subtract(capacity, both, out=both)
        np.maximum(both, _NONE, out=both)
    else:
        np.minimum(both, capacity, out=both)
    both *= _HUNDRED
    both /= capacity
    np.floor(both, out=both)
    total: Floats = both[0]
    total += both[1]
    total *= _HALF
    return np.floor(total, out=total)


def least_allocated_from(shape: Shape, at: AmountColumns) -> Score:
    """Return the scorer of one node: (capacity − requested)·100/capacity, the mean over cpu and memory."""
    pairs = _counted(shape, at)

    def of_any(amounts: Sequence[int]) -> float:
        total = weights = 0
        for offered, used, asked in pairs:
            if capacity := amounts[offered]:
                if (left := capacity - amounts[used] - asked) > 0:
                    total += left * MAX // capacity
                weights += 1
        return total // weights if weights else 0

    if len(pairs) != 2:
        return of_any
    (cpu_at, cpu_used, cpu_asked), (memory_at, memory_used, memory_asked) = pairs

    def of_both(amounts: Sequence[int]) -> float:
        cpu, memory = amounts[cpu_at], amounts[memory_at]
        if not cpu or not memory:
            return of_any(amounts)
        first = cpu - amounts[cpu_used] - cpu_asked
        second = memory - amounts[memory_used] - memory_asked
        return ((first * MAX // cpu if first > 0 else 0) + (second * MAX // memory if second > 0 else 0)) // 2

    return of_both


def most_allocated_from(shape: Shape, at: AmountColumns) -> Score:
    """Return the scorer of one node: requested·100/capacity, the mean over cpu and memory."""
    pairs = _counted(shape, at)

    def score(amounts: Sequence[int]) -> float:
        total = weights = 0
        for offered, used, asked in pairs:
            if capacity := amounts[offered]:
                total += min(amounts[used] + asked, capacity) * MAX // capacity
                weights += 1
        return total // weights if weights else 0

    return score


def _counted(shape: Shape, at: AmountColumns) -> list[tuple[int, int, int]]:
    """Return the column indexes of cpu and memory, allocatable and used, with the shape's requests."""
    found = ((at.allocatable(name), at.nonzero_used(name), shape.nonzero_requests.get(name, 0)) for name in COUNTED)
    return [(offered, used, asked) for offered, used, asked in found if offered is not None and used is not None]


def balanced(shape: Shape, nodes: Nodes) -> Floats:
    """Score how much more balanced the usage is with the pod than without: 50 to 100, 75 if it makes no difference.

    Balance is 100·(1 − σ), where σ is the standard deviation of the used fractions of resources (Kubernetes 1.36).
    """
    requests = shape.requests
    if nodes.all_have_cpu_memory:
        if not requests.get(GPU):
            return _gain_of_both(nodes, requests.get(CPU, 0), requests.get(MEMORY, 0))
        if nodes.all_fit:
            return _gain_of_three(nodes, requests)
    resources = _balanced_resources(shape)
    return _gain(_evenness(nodes, resources, requests), _evenness(nodes, resources, {}))


def _gain(after: Floats, before: Floats) -> Floats:
    """Return the score from the balance with the pod and without; the first array is overwritten."""
    after -= before
    after += _LEVEL
    after *= _HALF
    return np.floor(after, out=after)


def _gain_of_both(nodes: Nodes, cpu: int, memory: int) -> Floats:
    """Compute the same if all nodes have cpu and memory, and these are requested: both balances at once."""
    after, before = nodes.utilization(cpu, memory), nodes.utilization(0, 0)
    if not nodes.all_fit:
        after, before = np.minimum(after, _ONE), np.minimum(before, _ONE)
    difference: Floats = np.empty_like(after)
    np.subtract(after[0], after[1], out=difference[0])
    np.subtract(before[0], before[1], out=difference[1])
    np.abs(difference, out=difference)
    np.subtract(_TWO, difference, out=difference)  # 50·(2 − difference) is exact and saves a step
    difference *= _FIFTY
    np.floor(difference, out=difference)
    return _gain(difference[0], difference[1])


def _gain_of_three(nodes: Nodes, requests: Mapping[str, int]) -> Floats:
    """Compute the same if GPUs are requested too and all nodes have them: the pod fits every node."""
    filled = np.empty((3, 2, len(nodes)))
    filled[:2, 0], filled[:2, 1] = (
        nodes.utilization(requests.get(CPU, 0), requests.get(MEMORY, 0)),
        nodes.utilization(0, 0),
    )
    filled[2] = nodes.used(GPU)
    filled[2, 0] += requests[GPU]
    filled[2] /= nodes.allocatable(GPU)
    filled -= np.add.reduce(filled) / 3
    filled *= filled
    deviation: Floats = np.add.reduce(filled)
    deviation /= 3
    both = _whole(np.sqrt(deviation, out=deviation))
    return _gain(both[0], both[1])


def _whole(deviation: Floats) -> Floats:
    """Return 100·(1 − σ) in whole numbers; the array is overwritten."""
    np.subtract(_ONE, deviation, out=deviation)
    deviation *= _HUNDRED
    return np.floor(deviation, out=deviation)


def _evenness(nodes: Nodes, resources: Sequence[str], requests: Mapping[str, int]) -> Floats:
    """Return the balance of each node with these requests added."""
    fractions: list[Floats] = []
    valid: list[NDArray[np.bool_]] = []
    for resource in resources:
        capacity = nodes.allocatable(resource)
        taken = np.add(nodes.used(resource), requests.get(resource, 0), dtype=np.float64)
        has = capacity != 0
        fraction = np.where(has, taken / np.where(has, capacity, 1), 0.0)
        valid.append(has)
        fractions.append(np.minimum(fraction, 1.0, out=fraction))
    return _whole(_deviation(fractions, valid))


def _deviation(fractions: list[Floats], valid: list[NDArray[np.bool_]]) -> Floats:
    """Return the standard deviation of each row's valid fractions, half the difference for two."""
    size = len(fractions[0])
    count = np.zeros(size, np.int64)
    mean, squares = np.zeros(size), np.zeros(size)
    for fraction, has in zip(fractions, valid, strict=True):
        count += has
        mean += fraction
    mean /= np.maximum(count, 1)
    for fraction, has in zip(fractions, valid, strict=True):
        difference = fraction - mean
        squares += np.where(has, difference * difference, 0.0)
    deviation: Floats = np.sqrt(squares / np.maximum(count, 1))
    pair = count == 2
    deviation[pair] = np.abs(_pair_difference(fractions, valid)[pair] / 2)
    deviation[count < 2] = 0.0
    return deviation


def balanced_from(shape: Shape, at: AmountColumns) -> Score:
    """Return the scorer of one node, as `balanced`."""
    asked = shape.requests
    found = ((at.allocatable(name), at.used(name), asked.get(name, 0)) for name in _balanced_resources(shape))
    triples = [(offered, used, request) for offered, used, request in found if offered is not None and used is not None]

    def of_any(amounts: Sequence[int]) -> float:
        there = [
            (amounts[used], request, capacity) for offered, used, request in triples if (capacity := amounts[offered])
        ]
        after = _even_of([min((used + request) / capacity, 1.0) for used, request, capacity in there])
        return (LEVEL + after - _even_of([min(used / capacity, 1.0) for used, _, capacity in there])) // 2

    if len(triples) != 2:
        return of_any
    (cpu_at, cpu_used, cpu_asked), (memory_at, memory_used, memory_asked) = triples

    def of_both(amounts: Sequence[int]) -> float:
        cpu, memory = amounts[cpu_at], amounts[memory_at]
        if not cpu or not memory:
            return LEVEL // 2
        used, filled = amounts[cpu_used], amounts[memory_used]
        first, second = (used + cpu_asked) / cpu, (filled + memory_asked) / memory
        if first > 1.0 or second > 1.0:
            return of_any(amounts)
        after, before = first - second, used / cpu - filled / memory
        if after < 0:
            after = -after
        if before < 0:
            before = -before
        return (LEVEL + (1 - after / 2) * MAX // 1 - (1 - before / 2) * MAX // 1) // 2

    return of_both


def _even_of(fractions: Sequence[float]) -> int:
    """Return the balance of the fractions of one node."""
    if len(fractions) < 2:
        return MAX
    if len(fractions) == 2:
        return int((1 - abs((fractions[0] - fractions[1]) / 2)) * MAX)
    mean = 0.0
    for fraction in fractions:
        mean += fraction
    mean /= len(fractions)
    squares = 0.0
    for fraction in fractions:
        difference = fraction - mean
        squares += difference * difference
    return int((1 - sqrt(squares / len(fractions))) * MAX)


def positive(amounts: NDArray[np.int64]) -> bool:
    """Return whether every node has some (a plain reduction: called for a few rows after every gang)."""
    return len(amounts) > 0 and bool(np.minimum.reduce(amounts) > 0)


def scaled(counts: NDArray[np.int64], largest: int, *, reverse: bool) -> NDArray[np.int64]:
    """Scale counts to 0 to 100 of the largest; reversed, the largest is 0 (DefaultNormalizeScore)."""
    if largest == 0:
        return np.full(len(counts), MAX if reverse else 0, np.int64)
    parts = counts * MAX // largest
    return MAX - parts if reverse else parts


def _balanced_resources(shape: Shape) -> list[str]:
    return [*COUNTED, GPU] if shape.requests.get(GPU) else [*COUNTED]


def _pair_difference(fractions: list[Floats], valid: list[NDArray[np.bool_]]) -> Floats:
    """Return the first valid fraction less the second, for rows that have two."""
    difference = np.zeros(len(fractions[0]))
    seen = np.zeros(len(fractions[0]), np.bool_)
    for fraction, has in zip(fractions, valid, strict=True):
        difference = np.where(has, np.where(seen, difference - fraction, fraction), difference)
        seen |= has
    return difference
