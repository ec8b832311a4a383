"""The search for devices ends in time; amounts of capacity are valid; what is in use is counted exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.dynamic_resources.allocator import (
    TOO_LONG,
    AllocationError,
    Chosen,
    Search,
    requested,
)
from volcanoio_plugins.scheduling.dynamic_resources.device_usage import DeviceUsage, consumption
from volcanoio_plugins.scheduling.dynamic_resources.inventory import Pool, PooledDevice, Reach, Visible

from tests.examples import examples
from volcanoio.model.dynamic_resources.objects import (
    Allocation,
    ClaimedDevices,
    Device,
    DeviceClass,
    DeviceResult,
    DeviceResults,
    ResourceSlice,
)

DRIVER = "d"
CLASS = DeviceClass()


def pool_of(devices: list[dict[str, Any]], counters: int = 0) -> Pool:
    """Return a pool of one slice; `counters` is the amount of the counter c of set s."""
    shared = [{"name": "s", "counters": {"c": {"value": counters}}}]
    spec = {"driver": DRIVER, "nodeName": "n", "devices": devices, "pool": {"name": "p", "resourceSliceCount": 1}}
    parts = [{"spec": {**spec, "sharedCounters": shared}}]
    return Pool((DRIVER, "p"), msgspec.convert(parts, list[ResourceSlice]))


def claim_of(*requests: dict[str, Any], **more: Any) -> ClaimedDevices:
    return msgspec.convert({"requests": requests, **more}, ClaimedDevices)


def search(
    claims: Sequence[ClaimedDevices], pool: Pool, usage: DeviceUsage | None = None, steps: int = 100_000
) -> list[list[Chosen]] | None:
    wanted = [requested(claim, lambda _: CLASS) for claim in claims]
    try:
        return Search(wanted, [Visible(pool, pool.devices)], usage or DeviceUsage(), steps).allocate()
    except AllocationError as error:
        if str(error) == TOO_LONG:
            raise
        return None


def test_devices_that_nothing_distinguishes_are_tried_once() -> None:
    """Two requests for all but one of many equal devices: the combinations would take for ever."""
    pool = pool_of([{"name": f"g{index}", "attributes": {"id": {"int": index}}} for index in range(40)])
    many = {"deviceClassName": "c", "count": 15}
    never = {"deviceClassName": "c", "count": 1, "selectors": [{"cel": {"expression": "false"}}]}
    claim = claim_of({"name": "a", "exactly": many}, {"name": "b", "exactly": many}, {"name": "x", "exactly": never})
    assert search([claim], pool, steps=200) is None


def test_the_search_ends_after_a_number_of_steps() -> None:
    pool = pool_of([{"name": f"g{index}", "attributes": {"id": {"int": index}}} for index in range(12)])
    some = {"deviceClassName": "c", "count": 6}
    claim = claim_of({"name": "a", "exactly": some}, constraints=[{"matchAttribute": "d/id"}])
    with pytest.raises(AllocationError, match=TOO_LONG):
        Search([requested(claim, lambda _: CLASS)], [Visible(pool, pool.devices)], DeviceUsage(), 1).allocate()


POLICY = {"default": "2", "validRange": {"min": "2", "max": "8", "step": "2"}}


@pytest.mark.parametrize(
    ("capacity", "wanted", "consumed"),
    [
        ({"value": "10"}, None, "10"),
        ({"value": "10"}, "3", "3"),
        ({"value": "10", "requestPolicy": POLICY}, None, "2"),
        ({"value": "10", "requestPolicy": POLICY}, "1", "2"),
        ({"value": "10", "requestPolicy": POLICY}, "3", "4"),
        ({"value": "10", "requestPolicy": POLICY}, "9", None),
        ({"value": "10", "requestPolicy": {"default": "1", "validValues": ["1", "4"]}}, "2", "4"),
        ({"value": "10", "requestPolicy": {"default": "1", "validValues": ["1", "4"]}}, "5", None),
    ],
)
def test_a_requested_capacity_is_rounded_up_to_a_valid_one(
    capacity: dict[str, Any], wanted: str | None, consumed: str | None
) -> None:
    spec = msgspec.convert({"name": "g", "capacity": {"memory": capacity}}, Device)
    request = {"requests": {"memory": wanted}} if wanted else None
    exactly = msgspec.convert({"deviceClassName": "c", "capacity": request}, dict[str, Any])
    claim = claim_of({"name": "r", "exactly": exactly})
    assert claim.requests[0].exactly is not None
    amounts = consumption(PooledDevice(DRIVER, "p", spec, Reach("n")), claim.requests[0].exactly.capacity)
    assert amounts == (None if consumed is None else {"memory": consumed})


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12))
@examples(100)
def test_removing_what_was_added_restores_the_usage(given_out: list[tuple[int, bool]]) -> None:
    needs = [{"counterSet": "s", "counters": {"c": {"value": 3}}}]
    pool = pool_of([{"name": f"g{index}", "consumesCounters": needs} for index in range(4)], 10)
    usage = DeviceUsage()
    allocations = [
        Allocation(
            devices=DeviceResults(
                results=(
                    DeviceResult(
                        driver=DRIVER, pool="p", device=f"g{index}", share_id=f"{at}" if is_shared else None,
                        consumed_capacity={"memory": "1Gi"} if is_shared else {},
                    ),
                )
            )
        )
        for at, (index, is_shared) in enumerate(given_out)
    ]  # fmt: skip
    for each in allocations:
        usage.add(each)
    used = {index for index, _ in given_out}
    assert usage.counters_left(pool) == {("s", "c"): 10 - 3 * len(used)}
    for each in reversed(allocations):
        usage.remove(each)
    assert usage.counters_left(pool) == {("s", "c"): Fraction(10)}
    for index in range(4):
        device = (DRIVER, "p", f"g{index}")
        assert not usage.is_held(device)
        assert not usage.shares(device)
        assert not usage.consumed(device)


def test_each_pool_is_listed_once_however_often_it_changed_since_a_version() -> None:
    usage = DeviceUsage()
    first, second = (
        Allocation(devices=DeviceResults(results=(DeviceResult(driver=DRIVER, pool=pool, device="g"),)))
        for pool in ("p", "q")
    )
    usage.add(first)
    version = usage.version
    for _ in range(3):
        usage.add(second)
        usage.remove(second)
    assert usage.changed_since(0) == [(DRIVER, "q"), (DRIVER, "p")]
    assert usage.changed_since(version) == [(DRIVER, "q")]
    assert usage.changed_since(usage.version) == []
