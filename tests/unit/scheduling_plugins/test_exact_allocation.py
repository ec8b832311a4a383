"""The search for devices finds a solution exactly where the rules admit one, and its removal restores everything."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.dynamic_resources.allocator import (
    TOO_LONG,
    AllocationError,
    Search,
    requested,
)
from volcanoio_plugins.scheduling.dynamic_resources.claim_plans import allocation_of
from volcanoio_plugins.scheduling.dynamic_resources.device_usage import DeviceUsage
from volcanoio_plugins.scheduling.dynamic_resources.inventory import Pool, Visible

from tests.examples import examples
from tests.unit.scheduling_plugins.device_rules import (
    CARD,
    CLAIMS,
    DEVICES,
    PLAIN,
    Claim,
    Device,
    Taken,
    Wanted,
    accepts,
    solutions,
)
from volcanoio.model.base import ObjectMeta
from volcanoio.model.dynamic_resources.objects import (
    Allocation,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)


def stored(claim: Claim, index: int) -> ResourceClaim:
    """The claim as an object."""
    manifest = {"metadata": {"name": f"c{index}", "uid": f"u{index}"}, "spec": claim.spec()}
    return msgspec.convert(manifest, ResourceClaim)


def pool_of(devices: Sequence[Device]) -> Pool:
    """A pool of these devices, named g0 and so on, and of the card."""
    spec = {"driver": "d", "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 2}}
    card = [{"name": "s", "counters": {"cells": {"value": CARD}}}]
    found = [device.manifest(f"g{index}") for index, device in enumerate(devices)]
    parts = [{"spec": {**spec, "devices": found}}, {"spec": {**spec, "sharedCounters": card}}]
    return Pool(("d", "p"), msgspec.convert(parts, list[ResourceSlice]))


def search(pool: Pool, claims: Sequence[ResourceClaim], usage: DeviceUsage) -> list[Allocation] | None:
    """Return the allocations of claims, None if there are none."""
    wanted = [requested(claim.spec.devices, lambda _: DeviceClass(metadata=ObjectMeta(name="c"))) for claim in claims]
    try:
        found = Search(wanted, [Visible(pool, pool.devices)], usage, 100_000).allocate()
    except AllocationError as error:
        if str(error) == TOO_LONG:
            raise
        return None
    return [
        allocation_of(claim, request, chosen, "n", 0.0)
        for claim, request, chosen in zip(claims, wanted, found, strict=True)
    ]


def hold(usage: DeviceUsage, devices: frozenset[int]) -> None:
    """Give devices to other claims."""
    results = [{"driver": "d", "pool": "p", "device": f"g{index}"} for index in sorted(devices)]
    usage.add(msgspec.convert({"devices": {"results": results}}, Allocation))


def taken_by(claims: Sequence[Claim], allocations: Sequence[Allocation]) -> list[Taken]:
    """The devices of allocations, in the order in which they were taken."""
    result = []
    for index, allocation in enumerate(allocations):
        for one in allocation.devices.results:
            name, _, sub = one.request.partition("/")
            wanted = claims[index].requests[int(name[1:])][int(sub[1:]) if sub else 0]
            result.append(Taken(index, int(name[1:]), wanted, int(one.device[1:])))
    return result


def one(count: int, model: str = "", *, is_admin: bool = False) -> Wanted:
    """An alternative that needs a part of a shared device's memory."""
    return Wanted(count, model, tolerates=True, is_admin=is_admin, memory=1)


SHARED = PLAIN._replace(is_shared=True, cells=2)


# with admin access to a shared device, the first other share still consumes the card
@example([SHARED, PLAIN._replace(cells=2)], [Claim(((one(1, is_admin=True),), (one(1),)), "", of_first=False)], {1})
# a second share that is given back leaves what the first one consumes
@example(
    [SHARED, PLAIN._replace(model="b", cells=2)],
    [Claim(((one(1, "a"),), (one(2), one(1, "b"))), "", of_first=False)],
    set(),
)
@given(DEVICES, CLAIMS, st.sets(st.integers(0, 3), max_size=2))
@examples(500)
def test_a_solution_is_found_exactly_if_there_is_one(
    devices: list[Device], claims: list[Claim], other: set[int]
) -> None:
    held = frozenset(index for index in other if index < len(devices) and not devices[index].is_shared)
    pool, usage = pool_of(devices), DeviceUsage()
    hold(usage, held)
    found = search(pool, [stored(claim, index) for index, claim in enumerate(claims)], usage)
    expected = next(solutions(devices, held, claims), None)
    assert (found is None) == (expected is None), expected
    if found is None:
        return
    taken = taken_by(claims, found)
    for end in range(1, len(taken) + 1):
        assert accepts(devices, held, claims, taken[:end]), taken[:end]
    left = dict(usage.counters_left(pool))
    for allocation in found:
        usage.add(allocation)
    assert usage.counters_left(pool)["s", "cells"] >= min(Fraction(0), left["s", "cells"])
    for allocation in reversed(found):
        usage.remove(allocation)
    assert usage.counters_left(pool) == left
    again = search(pool, [stored(claim, index) for index, claim in enumerate(claims)], usage)
    assert again == found
