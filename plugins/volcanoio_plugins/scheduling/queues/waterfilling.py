"""Sharing out a cluster by weight: what each queue deserves (Volcano: pkg/scheduler/plugins/proportion, OnSessionOpen).

Each round gives every open queue its part, by weight, of what remains; a queue that has all it asks for, or all it may
have, is closed, and what it did not take remains for the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from volcanoio.model.resources import CPU, MEMORY, PODS, Amounts
from volcanoio_plugins.scheduling.queues.quantities import TOLERANCE, Quantities, fits_within

_WHOLE = 1e-3
"""A share this near to an integer is that integer: amounts are integers, and dividing by weights must not lose one."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue brings to the sharing. `ceiling` is the most it can have; resources it lacks are unlimited."""

    name: str
    weight: int
    request: Mapping[str, int]
    guarantee: Mapping[str, int]
    ceiling: Mapping[str, int]


def reachable(
    total: Mapping[str, int], guaranteed: Mapping[str, int], own: Mapping[str, int], capability: Mapping[str, int]
) -> Amounts:
    """The most a queue can have: the cluster less the others' guarantees, and no more than its capability.

    A capability for cpu or memory that is not positive is none.
    """
    result = {name: max(amount - guaranteed.get(name, 0), 0) for name, amount in total.items()}
    for name, amount in own.items():
        result[name] = result.get(name, 0) + amount
    for name, limit in capability.items():
        if name in result and (limit > 0 or name not in (CPU, MEMORY)):
            result[name] = min(result[name], limit)
    return result


def fill(total: Mapping[str, int], claims: Sequence[Claim]) -> dict[str, dict[str, float]]:
    """What each queue deserves, by name."""
    deserved: dict[str, dict[str, float]] = {claim.name: {} for claim in claims}
    remaining: dict[str, float] = dict(total)
    waiting = list(claims)
    while (weights := sum(claim.weight for claim in waiting)) > 0:
        taken: dict[str, float] = {}
        still: list[Claim] = []
        for claim in waiting:
            before = deserved[claim.name]
            after = _offered(claim, before, remaining, weights)
            deserved[claim.name] = after
            for name in {**before, **after}:
                taken[name] = taken.get(name, 0) + after.get(name, 0) - before.get(name, 0)
            if not fits_within(claim.request, after) and not _equal(before, after):
                still.append(claim)
        waiting = still
        left = {name: max(amount - taken.get(name, 0), 0) for name, amount in remaining.items()}
        if _equal(left, remaining) or all(amount < TOLERANCE for name, amount in left.items() if name != PODS):
            break
        remaining = left
    return deserved


def _offered(
    claim: Claim, before: Mapping[str, float], remaining: Mapping[str, float], weights: int
) -> dict[str, float]:
    """What a queue deserves after one more round."""
    after: dict[str, float] = {}
    for name in {**before, **remaining, **claim.guarantee}:
        amount = before.get(name, 0) + remaining.get(name, 0) * claim.weight / weights
        amount = min(amount, claim.ceiling.get(name, amount), claim.request.get(name, 0))
        amount = max(amount, claim.guarantee.get(name, 0))
        nearest = round(amount)
        after[name] = float(nearest) if abs(amount - nearest) < _WHOLE else amount
    return after


def _equal(left: Quantities, right: Quantities) -> bool:
    return fits_within(left, right) and fits_within(right, left)
