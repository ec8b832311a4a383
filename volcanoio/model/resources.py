"""Resource lists as exact integers, in the scheduler's units.

`cpu` is in milli-cores, `memory` in bytes, `pods` in pods, and every other resource in thousandths of its unit, as in
Volcano (`pkg/scheduler/api/resource_info.go`).
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from volcanoio.model import quantity
from volcanoio.model.core import Container, PodSpec

Amounts: TypeAlias = dict[str, int]
"""Resource name to integer amount in scheduling units."""

CPU, MEMORY, PODS = "cpu", "memory", "pods"
_WHOLE_UNITS = frozenset({MEMORY, PODS})


LARGEST = 1 << 60
"""Largest amount in scheduling units. Columns of nodes are 64-bit: with this bound the difference of two fits. In
thousandths it is 1.1 PB of ephemeral storage."""


def bounded(amount: int) -> int:
    """Return an amount within `LARGEST`, above and below zero."""
    return max(-LARGEST, min(amount, LARGEST))


def amount_of(name: str, text: str | int | float) -> int:
    """Return one quantity in scheduling units, within `LARGEST`; raises QuantityError."""
    return bounded(quantity.value(text) if name in _WHOLE_UNITS else quantity.milli(text))


def stored_amounts(resource_list: Mapping[str, str | int | float] | None) -> Amounts:
    """Return a stored ResourceList in scheduling units; an amount that cannot be read counts as the largest.

    The pattern of quantities in CRDs admits some that Kubernetes refuses, such as 1e999999999 and 1e1.5.
    """
    return {name: _stored_amount(name, text) for name, text in (resource_list or {}).items()}


def _stored_amount(name: str, text: str | int | float) -> int:
    try:
        return amount_of(name, text)
    except quantity.QuantityError:
        return LARGEST


def amounts(resource_list: Mapping[str, str | int | float] | None) -> Amounts:
    """Return a ResourceList in scheduling units."""
    return {name: amount_of(name, text) for name, text in (resource_list or {}).items()}


def format_amount(name: str, amount: int) -> str:
    """Return the canonical quantity of an amount in scheduling units."""
    if name == MEMORY:
        return quantity.format_bytes(amount)
    return str(amount) if name == PODS else quantity.format_milli(amount)


_BYTES = frozenset({MEMORY, "ephemeral-storage"})


def amount_text(name: str, amount: float) -> str:
    """Return an amount in scheduling units for people: `38.4`, `153.6Gi`."""
    if name == PODS:
        return str(int(amount))
    if name != MEMORY:
        amount /= 1000
    if name in _BYTES or name.startswith("hugepages-"):
        for unit, power in (("Ti", 4), ("Gi", 3), ("Mi", 2), ("Ki", 1)):
            if amount >= 1024**power:
                return f"{_decimal(amount / 1024**power)}{unit}"
    return _decimal(amount)


def _decimal(number: float) -> str:
    return f"{number:.3f}".rstrip("0").rstrip(".")


def resource_list(values: Mapping[str, int]) -> dict[str, str]:
    """Return amounts as a ResourceList, sorted by name."""
    return {name: format_amount(name, values[name]) for name in sorted(values)}


def add(total: Amounts, other: Mapping[str, int], times: int = 1) -> None:
    """Add `times` × other to total, in place."""
    for name, amount in other.items():
        total[name] = total.get(name, 0) + amount * times


def add_nonzero(into: Amounts, other: Mapping[str, int], times: int) -> None:
    """Add `times` × other in place (-1 subtracts); names that reach zero are dropped."""
    get = into.get
    for name, amount in other.items():
        if value := get(name, 0) + times * amount:
            into[name] = value
        else:
            into.pop(name, None)


def add_to_each(other: Mapping[str, int], times: int, *into: Amounts) -> None:
    """Add `times` × other to several amounts in place; names that reach zero are dropped."""
    for name, amount in other.items():
        change = times * amount
        for each in into:
            if value := each.get(name, 0) + change:
                each[name] = value
            else:
                each.pop(name, None)


def maximum(left: Mapping[str, int], right: Mapping[str, int]) -> Amounts:
    """Return the larger amount of each resource."""
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}


def total(parts: Iterable[Mapping[str, int]]) -> Amounts:
    """Return the sum of several amounts."""
    result: Amounts = {}
    for part in parts:
        add(result, part)
    return result


def _container_amounts(
    container: Container, which: str, missing: Mapping[str, int], per_device: Mapping[str, str]
) -> Amounts:
    """Return a container's requests or limits; requests default to limits, as in the API server."""
    resources = container.resources
    listed = resources.limits if which == "limits" else {**resources.limits, **resources.requests}
    amounts = {**missing, **stored_amounts(listed)}
    for name, number in per_device.items():
        if name in amounts and number in amounts:
            amounts[name] *= amounts[number] // 1000  # thousandths
    return amounts


def pod_amounts(
    spec: PodSpec,
    which: str,
    missing: Mapping[str, int] = MappingProxyType({}),
    per_device: Mapping[str, str] = MappingProxyType({}),
) -> Amounts:
    """Return a pod's requests or limits; `missing` holds defaults of each container.

    `per_device` are resources of which a container names the amount of each device, with the resource that is the
    number of its devices (without it: one): the amounts of all devices are returned.
    """
    running: Amounts = {}
    for container in spec.containers:
        add(running, _container_amounts(container, which, missing, per_device))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        own = _container_amounts(container, which, missing, per_device)
        if container.restart_policy == "Always":
            add(sidecars, own)
            peak = maximum(peak, sidecars)
        else:
            add(own, sidecars)
            peak = maximum(peak, own)
    add(running, sidecars)
    result = maximum(running, peak)
    if spec.resources is not None:
        whole = spec.resources.limits if which == "limits" else {**spec.resources.limits, **spec.resources.requests}
        result.update(stored_amounts(whole))
    add(result, stored_amounts(spec.overhead))
    return {name: bounded(amount) for name, amount in result.items()}
