"""Binding conditions: what must be true of allocated devices before the pods that use them are bound.

A driver that attaches devices to nodes publishes the conditions with the device, and reports them in the claim's
`status.devices`. The wait is a step before the bind; if it fails, the claim is deallocated and the pod placed again
(Kubernetes: feature DRADeviceBindingConditions).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volcanoio.model.base import Manifest
from volcanoio.model.dynamic_resources.objects import Allocation, DeviceResult, ResourceClaim
from volcanoio.model.times import epoch_or_none

TIMEOUT = 600.0
"""Seconds from an allocation within which its binding conditions must be true (DynamicResourcesArgs.bindingTimeout)."""


def awaited(allocation: Allocation) -> Manifest:
    """Return the pattern of a claim whose binding conditions are all true; {} if it has none."""
    devices = [_device(result, result.binding_conditions) for result in _conditional(allocation)]
    return {"status": {"devices": devices}} if devices else {}


def failures(allocation: Allocation) -> dict[str, Manifest]:
    """Return the patterns of claims of which a binding failed, by what is wrong."""
    return {
        f"device {result.driver}/{result.pool}/{result.device} reports {name}": {
            "status": {"devices": [_device(result, (name,))]}
        }
        for result in _conditional(allocation)
        for name in result.binding_failure_conditions
    }


def has_failed(claim: ResourceClaim) -> bool:
    """Return whether a device of an allocated claim reports that its binding failed."""
    allocation = claim.status.allocation
    return allocation is not None and any(
        not _true_conditions(claim, result).isdisjoint(result.binding_failure_conditions)
        for result in _conditional(allocation)
    )


def is_ready(claim: ResourceClaim) -> bool:
    """Return whether all binding conditions of an allocated claim are true and none failed."""
    allocation = claim.status.allocation
    return allocation is not None and all(
        (true := _true_conditions(claim, result)).issuperset(result.binding_conditions)
        and true.isdisjoint(result.binding_failure_conditions)
        for result in _conditional(allocation)
    )


def seconds_left(allocation: Allocation, now: float) -> float:
    """Return how many seconds are left for the binding conditions of an allocation, at least 0."""
    since = epoch_or_none(allocation.allocation_timestamp)
    return TIMEOUT if since is None else max(since + TIMEOUT - now, 0.0)


def _conditional(allocation: Allocation) -> Iterator[DeviceResult]:
    """Yield the devices of an allocation that have binding conditions."""
    return (result for result in allocation.devices.results if result.binding_conditions)


def _true_conditions(claim: ResourceClaim, result: DeviceResult) -> set[str]:
    wanted = (result.driver, result.pool, result.device)
    return {
        condition.type
        for device in claim.status.devices
        if (device.driver, device.pool, device.device) == wanted
        for condition in device.conditions
        if condition.status == "True"
    }


def _device(result: DeviceResult, conditions: Sequence[str]) -> Manifest:
    return {
        "driver": result.driver,
        "pool": result.pool,
        "device": result.device,
        "conditions": [{"type": name, "status": "True"} for name in conditions],
    }
