"""Division of a cluster by weight: the deserved amounts of queues (Volcano: plugins/proportion, OnSessionOpen).

Each round gives every open queue its part, by weight, of what remains; a queue that has all it requests, or all it can
have, is closed, and the rest remains for the others.
"""

from collections.abc import Mapping, Sequence

import msgspec

from volcanoio.model.resources import CPU, MEMORY, PODS, Amounts
from volcanoio_plugins.scheduling.queues.quantities import TOLERANCE, Quantities, fits_within

_WHOLE = 1e-3
"""A share this close to an integer is rounded to it: amounts are integers, and division by weights must not lose a
unit.
"""


class QueueRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of one queue. `real_capability` is the most it can have; missing resources are unlimited."""

    name: str
    weight: int
    request: Mapping[str, int]
    guarantee: Mapping[str, int]
    real_capability: Mapping[str, int]


def compute_real_capability(
    total: Mapping[str, int], guaranteed: Mapping[str, int], own: Mapping[str, int], capability: Mapping[str, int]
) -> Amounts:
    """Return the most a queue can have: the cluster less the others' guarantees, at most its capability.

    A capability for cpu or memory that is not positive means none.
    """
    result = {name: max(amount - guaranteed.get(name, 0), 0) for name, amount in total.items()}
    for name, amount in own.items():
        result[name] = result.get(name, 0) + amount
    for name, limit in capability.items():
        if name in result and (limit > 0 or name not in (CPU, MEMORY)):
            result[name] = min(result[name], limit)
    return result


def compute_deserved(total: Mapping[str, int], requests: Sequence[QueueRequest]) -> dict[str, dict[str, float]]:
    """Return what each queue deserves, by name."""
    deserved: dict[str, dict[str, float]] = {queue.name: {} for queue in requests}
    remaining: dict[str, float] = dict(total)
    waiting = list(requests)
    while (weights := sum(queue.weight for queue in waiting)) > 0:
        taken: dict[str, float] = {}
        still: list[QueueRequest] = []
        for queue in waiting:
            before = deserved[queue.name]
            after = _offered(queue, before, remaining, weights)
            deserved[queue.name] = after
            for name in {**before, **after}:
                taken[name] = taken.get(name, 0) + after.get(name, 0) - before.get(name, 0)
            if not fits_within(queue.request, after) and not _equal(before, after):
                still.append(queue)
        waiting = still
        left = {name: max(amount - taken.get(name, 0), 0) for name, amount in remaining.items()}
        if _equal(left, remaining) or all(amount < TOLERANCE for name, amount in left.items() if name != PODS):
            break
        remaining = left
    return deserved


def _offered(
    queue: QueueRequest, before: Mapping[str, float], remaining: Mapping[str, float], weights: int
) -> dict[str, float]:
    """Return what a queue deserves after one more round."""
    after: dict[str, float] = {}
    for name in {**before, **remaining, **queue.guarantee}:
        amount = before.get(name, 0) + remaining.get(name, 0) * queue.weight / weights
        amount = min(amount, queue.real_capability.get(name, amount), queue.request.get(name, 0))
        amount = max(amount, queue.guarantee.get(name, 0))
        nearest = round(amount)
        after[name] = float(nearest) if abs(amount - nearest) < _WHOLE else amount
    return after


def _equal(left: Quantities, right: Quantities) -> bool:
    return fits_within(left, right) and fits_within(right, left)
