"""The search for devices: for all requests of some claims at once, on one node.

Devices are tried in the order of pools, slices and their list, and the first solution is taken, as in Kubernetes
(k8s.io/dynamic-resource-allocation/structured). The search is exhaustive, but devices that nothing distinguishes are
tried once, and it ends after a number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from volcanoio.model.dynamic_resources.objects import (
    ALL_DEVICES,
    EXACT_COUNT,
    MAX_DEVICES,
    ClaimedDevices,
    DeviceClass,
    DeviceConstraint,
    DeviceSelector,
    ExactRequest,
    Quantity,
)
from volcanoio.model.dynamic_resources.selectors import SelectorError, compile_selector, is_selected
from volcanoio.model.quantity import parse
from volcanoio.model.selectors import first_untolerated
from volcanoio_plugins.scheduling.dynamic_resources.device_usage import DeviceUsage, consumption
from volcanoio_plugins.scheduling.dynamic_resources.inventory import CounterKey, PooledDevice, PoolKey, Visible

FULL = "cannot allocate all claims"
TOO_LONG = "timed out trying to allocate devices"
INVALID_POOLS = "invalid resource pools were encountered"


class AllocationError(Exception):
    """Devices cannot be allocated on a node, for a reason that is not just that they are in use."""


class Expressions(NamedTuple):
    """Selectors of a class or of a request; `source` begins the text of errors."""

    source: str
    texts: tuple[str, ...]


class Alternative(NamedTuple):
    """One way to satisfy a request: a number of devices of a class. `name` is that of the results."""

    name: str
    request: ExactRequest
    device_class: DeviceClass
    selectors: tuple[Expressions, ...]

    @property
    def is_all(self) -> bool:
        """Whether it is for all devices."""
        return self.request.allocation_mode == ALL_DEVICES


class ClaimRequest(NamedTuple):
    """What a claim asks for: per request its alternatives, and the constraints on the devices of all requests."""

    requests: tuple[tuple[Alternative, ...], ...]
    constraints: tuple[DeviceConstraint, ...]


class Chosen(NamedTuple):
    """A device for a request; `consumed` is what is consumed of a device that is shared."""

    alternative: Alternative
    device: PooledDevice
    consumed: Mapping[str, Quantity] | None


def requested(devices: ClaimedDevices, class_of: Callable[[str], DeviceClass | None]) -> ClaimRequest:
    """Return what a claim asks for; raises AllocationError if that cannot be understood."""
    found = []
    least = 0
    for request in devices.requests:
        if not request.alternatives:
            raise AllocationError(f"request {request.name}: unknown request type")
        alternatives = tuple(_alternative(name, exact, class_of) for name, exact in request.alternatives)
        least += min(1 if each.is_all else each.request.count for each in alternatives)
        found.append(alternatives)
    if least > MAX_DEVICES:
        raise AllocationError(f"number of requested devices {least} exceeds the claim limit of {MAX_DEVICES}")
    for at, constraint in enumerate(devices.constraints):
        if not constraint.match_attribute and not constraint.distinct_attribute:
            raise AllocationError(f"constraint #{at}: empty constraint (unsupported constraint type?)")
    return ClaimRequest(tuple(found), devices.constraints)


def _alternative(name: str, request: ExactRequest, class_of: Callable[[str], DeviceClass | None]) -> Alternative:
    if (device_class := class_of(request.device_class_name)) is None:
        raise AllocationError(f"request {name}: device class {request.device_class_name} does not exist")
    if request.allocation_mode not in (EXACT_COUNT, ALL_DEVICES):
        raise AllocationError(f"request {name}: unsupported count mode {request.allocation_mode}")
    selectors = (
        _expressions(f"class {device_class.metadata.name}", device_class.spec.selectors),
        _expressions(f"request {name}", request.selectors),
    )
    return Alternative(name, request, device_class, tuple(each for each in selectors if each.texts))


def _expressions(source: str, selectors: Sequence[DeviceSelector]) -> Expressions:
    texts = []
    for at, selector in enumerate(selectors):
        if selector.cel is None:
            raise AllocationError(f"{source}: selector #{at}: CEL expression empty (unsupported selector type?)")
        texts.append(selector.cel.expression)
    return Expressions(source, tuple(texts))


def satisfies(alternative: Alternative, device: PooledDevice) -> bool:
    """Return whether a device satisfies the selectors of an alternative; raises AllocationError."""
    for source, texts in alternative.selectors:
        if (known := device.matches.get(texts)) is None:
            known = device.matches[texts] = _evaluate(texts, device)
        if isinstance(known, SelectorError):
            raise AllocationError(f"{source}: {known}")
        if not known:
            return False
    return True


def _evaluate(texts: tuple[str, ...], device: PooledDevice) -> bool | SelectorError:
    for at, text in enumerate(texts):
        try:
            program = compile_selector(text)
        except SelectorError as error:
            return SelectorError(f"selector #{at}: CEL compile error: {error}")
        try:
            if not is_selected(program, device.variables):
                return False
        except SelectorError as error:
            return SelectorError(f"selector #{at}: CEL runtime error: {error}")
    return True


def attribute_of(device: PooledDevice, name: str) -> tuple[str, Hashable] | None:
    """Return the kind and value of a device's attribute of that full name, None if it has none."""
    attributes = device.spec.attributes
    if (attribute := attributes.get(name)) is None:
        domain, _, identifier = name.partition("/")
        attribute = attributes.get(identifier) if domain == device.id[0] else None
    return None if attribute is None else attribute.value


class Search:
    """One search on one node. `allocate` returns the devices of each claim, in the order of the claims."""

    def __init__(
        self, claims: Sequence[ClaimRequest], pools: Sequence[Visible], usage: DeviceUsage, max_steps: int
    ) -> None:
        self._claims = claims
        self._pools = pools
        self._usage = usage
        self._steps_left = max_steps
        self._max_steps = max_steps
        self._chosen: list[list[Chosen]] = [[] for _ in claims]
        self._taken: dict[tuple[str, str, str], list[int]] = {}
        """Claims for which a device is taken in this search."""
        self._consumed: dict[tuple[str, str, str], list[dict[str, Fraction]]] = {}
        """What the shares of a device that this search took consume."""
        self._sharers: dict[tuple[str, str, str], int] = {}
        """Number of these shares, without those of admin access: with the first one the device consumes counters."""
        self._counters: dict[tuple[PoolKey, CounterKey], Fraction] = {}
        """What the devices that this search took consume of counters."""
        self._devices = [device for visible in pools if visible.pool.is_usable for device in visible.devices]
        self._pool_of = {visible.pool.key: visible.pool for visible in pools}
        self._all: dict[int, list[PooledDevice]] = {}

    def allocate(self) -> list[list[Chosen]]:
        """Return the devices of each claim; raises AllocationError with the reason if there are not enough."""
        if self._claim(0):
            return self._chosen
        if any(visible.pool.fault for visible in self._pools):
            raise AllocationError(INVALID_POOLS)
        raise AllocationError(FULL)

    def _claim(self, at: int) -> bool:
        return at >= len(self._claims) or self._request(at, 0)

    def _request(self, claim: int, at: int) -> bool:
        """Satisfy the requests of a claim from the index `at` on, then the other claims."""
        requests = self._claims[claim].requests
        if at >= len(requests):
            return self._claim(claim + 1)
        for alternative in requests[at]:
            is_all = alternative.is_all
            devices = self._all_devices(alternative) if is_all else self._devices
            count = len(devices) if is_all else alternative.request.count
            if (is_all and not devices) or len(self._chosen[claim]) + count > MAX_DEVICES:
                continue
            if self._devices_of((claim, at, alternative), devices, 0, count, choose=not is_all):
                return True
        return False

    def _all_devices(self, alternative: Alternative) -> list[PooledDevice]:
        """Return all devices that an alternative of mode All asks for."""
        if (known := self._all.get(id(alternative))) is None:
            for visible in self._pools:
                if not visible.pool.is_usable:
                    what = "being updated" if visible.pool.is_incomplete else "invalid"
                    driver, name = visible.pool.key
                    raise AllocationError(
                        f"request {alternative.name}: asks for all devices, but resource pool {driver}/{name} "
                        f"is currently {what}"
                    )
            known = self._all[id(alternative)] = [
                device
                for device in self._devices
                if satisfies(alternative, device) and consumption(device, alternative.request.capacity) is not None
            ]
        return known

    def _devices_of(
        self,
        where: tuple[int, int, Alternative],
        devices: Sequence[PooledDevice],
        start: int,
        left: int,
        *,
        choose: bool,
    ) -> bool:
        """Take `left` more devices from index `start` on, then go on with the next request.

        With `choose` any of them, otherwise exactly these.
        """
        claim, at, alternative = where
        if not left:
            return self._request(claim, at + 1)
        self._steps_left -= 1
        if self._steps_left < 0:
            raise AllocationError(TOO_LONG)
        failed: set[Hashable] | None = None
        for index in range(start, len(devices)):
            device = devices[index]
            if not self._is_free(claim, alternative, device) or not satisfies(alternative, device):
                pass
            elif failed is None or self._signature(device) not in failed:
                if (chosen := self._take(claim, alternative, device)) is not None:
                    if self._devices_of(where, devices, index + 1, left - 1, choose=choose):
                        return True
                    self._give_back(claim, chosen)
                failed = failed or set()
                failed.add(self._signature(device))
            if not choose:
                break
        return False

    def _is_free(self, claim: int, alternative: Alternative, device: PooledDevice) -> bool:
        """Return whether a device is in use neither by other claims nor by this one."""
        taken = self._taken.get(device.id)
        if alternative.request.admin_access:
            return not taken or claim not in taken
        return not taken and not self._usage.is_held(device.id)

    def _take(self, claim: int, alternative: Alternative, device: PooledDevice) -> Chosen | None:
        """Take a device, if its capacity, counters, taints and the constraints of the claim allow it."""
        request, spec = alternative.request, device.spec
        amounts = consumption(device, request.capacity)
        if amounts is None or first_untolerated(spec.taints, request.tolerations) is not None:
            return None
        exact = {name: parse(str(amount)) for name, amount in amounts.items()}
        needs_counters = not request.admin_access and not self._is_shared_already(device)
        if not self._has_capacity(device, exact) or (needs_counters and not self._has_counters(device)):
            return None
        chosen = Chosen(alternative, device, amounts if spec.allow_multiple_allocations else None)
        if not all(self._agrees(claim, constraint, chosen) for constraint in self._claims[claim].constraints):
            return None
        if needs_counters:
            self._count_counters(device, 1)
        if spec.allow_multiple_allocations:
            self._consumed.setdefault(device.id, []).append(exact)
            self._sharers[device.id] = self._sharers.get(device.id, 0) + (not request.admin_access)
        else:
            self._taken.setdefault(device.id, []).append(claim)
        self._chosen[claim].append(chosen)
        return chosen

    def _give_back(self, claim: int, chosen: Chosen) -> None:
        """Undo the last `_take`."""
        self._chosen[claim].pop()
        device, is_admin = chosen.device, chosen.alternative.request.admin_access
        if device.spec.allow_multiple_allocations:
            self._consumed[device.id].pop()
            self._sharers[device.id] -= not is_admin
        else:
            self._taken[device.id].pop()
        if not is_admin and not self._is_shared_already(device):
            self._count_counters(device, -1)

    def _is_shared_already(self, device: PooledDevice) -> bool:
        """Return whether a share of the device exists: then its counters are consumed already."""
        return self._sharers.get(device.id, 0) > 0 or self._usage.shares(device.id) > 0

    def _has_capacity(self, device: PooledDevice, amounts: Mapping[str, Fraction]) -> bool:
        own, others = self._consumed.get(device.id, ()), self._usage.consumed(device.id)
        for name, amount in amounts.items():
            total = amount + others.get(name, 0) + sum(each.get(name, 0) for each in own)
            if total > parse(str(device.spec.capacity[name].value)):
                return False
        return True

    def _has_counters(self, device: PooledDevice) -> bool:
        if not device.consumes:
            return True
        left = self._usage.counters_left(self._pool_of[device.pool])
        return all(
            left[counter] - self._counters.get((device.pool, counter), 0) >= amount
            for counter, amount in device.consumes.items()
        )

    def _count_counters(self, device: PooledDevice, sign: int) -> None:
        for counter, amount in device.consumes.items():
            key = (device.pool, counter)
            self._counters[key] = self._counters.get(key, Fraction(0)) + sign * amount

    def _agrees(self, claim: int, constraint: DeviceConstraint, chosen: Chosen) -> bool:
        """Return whether a device satisfies a constraint together with those chosen for the claim."""
        if not _concerns(constraint, chosen.alternative.name):
            return True
        name = constraint.match_attribute or constraint.distinct_attribute
        if (own := attribute_of(chosen.device, name)) is None:
            return False
        others = (
            attribute_of(other.device, name)
            for other in self._chosen[claim]
            if _concerns(constraint, other.alternative.name)
        )
        if constraint.match_attribute:
            return all(own == other for other in others)
        return all(own != other for other in others)

    def _signature(self, device: PooledDevice) -> Hashable:
        """Return a value that is equal for devices between which this search makes no difference."""
        spec = device.spec
        if spec.allow_multiple_allocations or self._taken.get(device.id) or self._usage.is_held(device.id):
            return device.id
        answers = tuple(self._answers(device))
        names = sorted({each.match_attribute or each.distinct_attribute for each in self._constraints()})
        capacity = tuple(sorted((name, str(amount.value)) for name, amount in spec.capacity.items()))
        counters = (device.pool, tuple(sorted(device.consumes.items()))) if device.consumes else ()
        return answers, tuple(attribute_of(device, name) for name in names), capacity, counters, spec.taints

    def _constraints(self) -> Iterator[DeviceConstraint]:
        for claim in self._claims:
            yield from claim.constraints

    def _answers(self, device: PooledDevice) -> Iterator[bool | str]:
        """Yield whether a device satisfies each alternative of each request."""
        for claim in self._claims:
            for request in claim.requests:
                for alternative in request:
                    try:
                        yield satisfies(alternative, device)
                    except AllocationError as error:
                        yield str(error)


def _concerns(constraint: DeviceConstraint, name: str) -> bool:
    """Return whether a constraint is about the results of that name."""
    return not constraint.requests or name in constraint.requests or name.partition("/")[0] in constraint.requests
