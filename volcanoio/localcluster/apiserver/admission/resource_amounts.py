"""Sums of quantities in Kubernetes' notation, and the requests of a whole pod.

Kubernetes: apimachinery `pkg/api/resource`, component-helpers/resource. A pod requests the sum of its containers, or
its largest init step if that is more. Restartable init containers (sidecars) run beside all that start after them.
Resources of the pod itself replace the sums of cpu, memory and huge pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from volcanoio.model import quantity
from volcanoio.model.base import Manifest

_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_EXPONENT = re.compile(r"[eE][+-]?\d+$")


class Amount(NamedTuple):
    """An exact quantity and its suffix family: `i` binary, `e` exponents, else decimal."""

    value: Fraction = Fraction(0)
    family: str = ""

    def plus(self, other: Amount) -> Amount:
        """Return the sum, in the notation of the first operand that is not zero."""
        return Amount(self.value + other.value, self.family if self.value else other.family)

    def minus(self, other: Amount) -> Amount:
        """Return the difference, in the notation of this amount."""
        return Amount(self.value - other.value, self.family)

    def __str__(self) -> str:
        """Return the canonical text."""
        value = self.value
        if self.family == "i" and abs(value) >= 1024 and value.denominator == 1:
            whole, power = value.numerator, 0
            while whole % 1024 == 0 and power < len(_BINARY) - 1:
                whole, power = whole // 1024, power + 1
            return f"{whole}{_BINARY[power]}"
        nano = -((-value.numerator * 10**9) // value.denominator)  # finer than nano is rounded up
        if nano == 0:
            return "0"
        exponent = -9
        while nano % 1000 == 0 and exponent < 18:
            nano, exponent = nano // 1000, exponent + 3
        if self.family == "e":
            return f"{nano}e{exponent}" if exponent else str(nano)
        return f"{nano}{_DECIMAL[exponent]}"


ZERO: Final = Amount()
ONE: Final = Amount(Fraction(1))
Amounts: TypeAlias = dict[str, Amount]
"""A ResourceList."""


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Amount:
    family = "i" if text.endswith("i") else "e" if _EXPONENT.search(text) else ""
    return Amount(quantity.parse(text), family)


def amount(text: Any) -> Amount:
    """Parse a quantity; raises QuantityError."""
    return _parsed(str(text))


def amounts(listed: Mapping[str, Any] | None) -> Amounts:
    """Parse a ResourceList; raises QuantityError."""
    return {name: amount(text) for name, text in listed.items()} if listed else {}


def whole(count: int) -> Amount:
    """Return the amount of a whole number."""
    return Amount(Fraction(count))


def added(total: Amounts, more: Mapping[str, Amount]) -> Amounts:
    """Return the sum of two lists."""
    result = dict(total)
    for name, one in more.items():
        result[name] = result[name].plus(one) if name in result else one
    return result


def largest(left: Amounts, right: Amounts) -> Amounts:
    """Return the larger amount of each resource in two lists."""
    result = dict(left)
    for name, one in right.items():
        if name not in result or one.value > result[name].value:
            result[name] = one
    return result


def shown(listed: Mapping[str, Amount]) -> dict[str, str]:
    """Return a ResourceList in canonical form, sorted by name."""
    return {name: str(listed[name]) for name in sorted(listed)}


def pod_amounts(spec: Manifest, what: Literal["requests", "limits"]) -> Amounts:
    """Return requests or limits of a pod's spec, with the overhead as Kubernetes counts it."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        total = added(total, _of(container, what))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _of(container, what)
        if container.get("restartPolicy") == "Always":
            total, sidecars = added(total, own), added(sidecars, own)
            peak = largest(peak, sidecars)
        else:
            peak = largest(peak, added(own, sidecars))
    total = largest(total, peak)
    stated = _of(spec, what)
    total |= {name: one for name, one in stated.items() if name in {"cpu", "memory"} or name.startswith("hugepages-")}
    return total


def with_overhead(spec: Manifest, total: Amounts, what: Literal["requests", "limits"]) -> Amounts:
    """Return the total plus the pod's overhead; a limit gets it only where there is one."""
    overhead = amounts(spec.get("overhead"))
    if what == "limits":
        overhead = {name: one for name, one in overhead.items() if name in total}
    return added(total, overhead)


def _of(holder: Any, what: str) -> Amounts:
    resources = holder.get("resources")
    return amounts(resources.get(what)) if isinstance(resources, dict) else {}
