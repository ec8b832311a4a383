"""Devices in use, and what is left of counters and shared capacities.

A device belongs to one claim, unless it allows several allocations: then claims share its capacities (consumable
capacity). Devices of a pool may consume counters of it (partitionable devices). Amounts are exact fractions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import takewhile

from volcanoio.model.dynamic_resources.objects import (
    Allocation,
    CapacityRequest,
    DeviceCapacity,
    DeviceResult,
    Quantity,
    RequestPolicy,
)
from volcanoio.model.quantity import format_bytes, parse, value
from volcanoio_plugins.scheduling.dynamic_resources.inventory import CounterKey, DeviceId, Pool, PooledDevice, PoolKey


class PoolUsage:
    """Devices of a pool in use. `version` is that of `DeviceUsage` as they last changed."""

    __slots__ = ("consumed", "holders", "shares", "version")

    def __init__(self) -> None:
        self.version = 0
        self.holders: dict[str, int] = {}
        """Claims that have a device to themselves, by the device's name: more than one only by mistake of others."""
        self.shares: dict[str, int] = {}
        """Number of shares by the device's name."""
        self.consumed: dict[str, dict[str, Fraction]] = {}
        """Capacity that these consume."""

    def count(self, result: DeviceResult, sign: int) -> None:
        """Count a device of an allocation in (sign 1) or out (sign -1)."""
        name = result.device
        if result.share_id is None:
            _count(self.holders, name, sign)
            return
        _count(self.shares, name, sign)
        consumed = self.consumed.setdefault(name, {})
        for capacity, amount in result.consumed_capacity.items():
            consumed[capacity] = consumed.get(capacity, Fraction(0)) + sign * parse(str(amount))
        if name not in self.shares:
            del self.consumed[name]


class DeviceUsage:
    """Devices in use, by pool. `version` grows with every change. Admin access does not count."""

    def __init__(self) -> None:
        self.version = 0
        self._pools: dict[PoolKey, PoolUsage] = {}
        """The pool that changed last is the last one."""
        self._left: dict[PoolKey, tuple[Pool, int, dict[CounterKey, Fraction]]] = {}

    def add(self, allocation: Allocation) -> None:
        """Count the devices of an allocation."""
        self._count(allocation, 1)

    def remove(self, allocation: Allocation) -> None:
        """Stop counting the devices of an allocation."""
        self._count(allocation, -1)

    def _count(self, allocation: Allocation, sign: int) -> None:
        for result in allocation.devices.results:
            if not result.admin_access:
                key = (result.driver, result.pool)
                usage = self._pools[key] = self._pools.pop(key) if key in self._pools else PoolUsage()
                usage.count(result, sign)
                self.version += 1
                usage.version = self.version

    def changed_since(self, version: int) -> list[PoolKey]:
        """Return the pools that changed after a version."""
        changed = takewhile(lambda entry: entry[1].version > version, reversed(self._pools.items()))
        return [key for key, _ in changed]

    def is_held(self, device: DeviceId) -> bool:
        """Return whether a claim has the device to itself."""
        usage = self._pools.get(device[:2])
        return usage is not None and device[2] in usage.holders

    def shares(self, device: DeviceId) -> int:
        """Return by how many allocations the device is shared."""
        usage = self._pools.get(device[:2])
        return 0 if usage is None else usage.shares.get(device[2], 0)

    def consumed(self, device: DeviceId) -> Mapping[str, Fraction]:
        """Return the capacity of the device that shares consume."""
        usage = self._pools.get(device[:2])
        return {} if usage is None else usage.consumed.get(device[2], {})

    def counters_left(self, pool: Pool) -> Mapping[CounterKey, Fraction]:
        """Return what is left of the counters of a pool; negative where devices in use need more."""
        usage = self._pools.get(pool.key)
        version = -1 if usage is None else usage.version
        known = self._left.get(pool.key)
        if known is None or known[0] is not pool or known[1] != version:
            left = dict(pool.counters)
            in_use: Iterable[str] = () if usage is None else {**usage.holders, **usage.shares}
            for name in in_use:
                if (device := pool.by_name.get(name)) is not None:
                    for counter, amount in device.consumes.items():
                        if counter in left:
                            left[counter] -= amount
            known = self._left[pool.key] = pool, version, left
        return known[2]


def consumption(device: PooledDevice, request: CapacityRequest | None) -> dict[str, Quantity] | None:
    """Return what a request consumes of each capacity of a device, None if the device cannot satisfy it.

    Without a requested amount it is the default, else all of it; a requested amount is rounded up to a valid one.
    """
    wanted = {} if request is None else request.requests
    capacities = device.spec.capacity
    if any(name not in capacities for name in wanted):
        return None
    amounts: dict[str, Quantity] = {}
    for name, capacity in capacities.items():
        amount = _amount(wanted.get(name), capacity)
        if not _is_valid(parse(str(amount)), capacity.request_policy):
            return None
        amounts[name] = amount
    return amounts


def _amount(wanted: Quantity | None, capacity: DeviceCapacity) -> Quantity:
    policy = capacity.request_policy
    if wanted is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return wanted
    exact = parse(str(wanted))
    if (bounds := policy.valid_range) is not None and bounds.min is not None:
        if exact < parse(str(bounds.min)):
            return bounds.min
        if bounds.step is None:
            return wanted
        least, step = value(bounds.min), value(bounds.step)
        return format_bytes(least + step * -(-(value(wanted) - least) // step))
    return next((valid for valid in policy.valid_values if exact <= parse(str(valid))), wanted)


def _is_valid(amount: Fraction, policy: RequestPolicy | None) -> bool:
    """Return whether an amount satisfies the policy of a capacity."""
    if policy is None or (policy.default is not None and amount == parse(str(policy.default))):
        return True
    if (bounds := policy.valid_range) is not None:
        return bounds.max is None or amount <= parse(str(bounds.max))
    return not policy.valid_values or any(amount == parse(str(valid)) for valid in policy.valid_values)


def _count(counts: dict[str, int], name: str, sign: int) -> None:
    if number := counts.get(name, 0) + sign:
        counts[name] = number
    else:
        counts.pop(name, None)
