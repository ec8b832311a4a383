"""Quantities that are added up and shown again as Kubernetes shows them (apimachinery `pkg/api/resource`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from volcanoio.model import quantity

_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_EXPONENT = re.compile(r"[eE][+-]?\d+$")


class Amount(NamedTuple):
    """An exact value and the family of suffixes it is shown with: `i` binary, `e` exponents, else decimal."""

    value: Fraction = Fraction(0)
    family: str = ""

    def plus(self, other: Amount) -> Amount:
        """The sum; it is shown as the first that is not zero."""
        return Amount(self.value + other.value, self.family if self.value else other.family)

    def minus(self, other: Amount) -> Amount:
        """The difference, shown as this one."""
        return Amount(self.value - other.value, self.family)

    def __str__(self) -> str:
        """The canonical text."""
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
    """A quantity of a manifest; raises QuantityError."""
    return _parsed(str(text))


def amounts(listed: Mapping[str, Any] | None) -> Amounts:
    """A ResourceList of a manifest; raises QuantityError."""
    return {name: amount(text) for name, text in listed.items()} if listed else {}


def whole(count: int) -> Amount:
    """A number of things."""
    return Amount(Fraction(count))


def added(total: Amounts, more: Mapping[str, Amount]) -> Amounts:
    """The sum of two lists."""
    result = dict(total)
    for name, one in more.items():
        result[name] = result[name].plus(one) if name in result else one
    return result


def largest(left: Amounts, right: Amounts) -> Amounts:
    """The larger of each."""
    result = dict(left)
    for name, one in right.items():
        if name not in result or one.value > result[name].value:
            result[name] = one
    return result


def shown(listed: Mapping[str, Amount]) -> dict[str, str]:
    """A ResourceList of a manifest, by name."""
    return {name: str(listed[name]) for name in sorted(listed)}
