"""Kubernetes quantities as exact integers.

Grammar: `k8s.io/apimachinery/pkg/api/resource` (decimal SI, binary SI, decimal exponent). Values finer than the
requested unit are rounded up, as Kubernetes' `Value()` and `MilliValue()` do.
"""

import re
from fractions import Fraction
from functools import lru_cache

_FORM = re.compile(r"^([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)|[eE]([+-]?[0-9]+))?$")
_MAX_LENGTH = 128
"""Characters of a quantity; Kubernetes writes at most 30."""
_SCALE: dict[str | None, Fraction] = {
    None: Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{suffix + "i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
}


class QuantityError(ValueError):
    """A string that is not a Kubernetes quantity."""


@lru_cache(maxsize=4096)
def parse(text: str) -> Fraction:
    """Return the exact value of a quantity such as `100m`, `1.5Gi` or `2e3`; raises QuantityError."""
    if len(text) > _MAX_LENGTH:
        msg = f"{text[:20]!r}… is not a quantity: it is longer than {_MAX_LENGTH} characters; write one such as 4Gi"
        raise QuantityError(msg)
    if (match := _FORM.match(text.strip())) is None:
        msg = f"{text!r} is not a quantity; write a number with an optional suffix, such as 500m, 2 or 4Gi"
        raise QuantityError(msg)
    number, suffix, exponent = match.groups()
    if exponent is not None:
        if abs(int(exponent)) > 64:
            raise QuantityError(f"{text!r} is not a quantity: the exponent is out of range")
        return Fraction(number) * Fraction(10) ** int(exponent)
    return Fraction(number) * _SCALE[suffix]


def value(text: str | int | float) -> int:
    """Return a quantity in whole units, rounded up."""
    return _value(str(text))


@lru_cache(maxsize=4096)
def _value(text: str) -> int:
    exact = parse(text)
    return -((-exact.numerator) // exact.denominator)


def milli(text: str | int | float) -> int:
    """Return a quantity in thousandths, rounded up."""
    return _milli(str(text))


@lru_cache(maxsize=4096)
def _milli(text: str) -> int:
    exact = parse(text) * 1000
    return -((-exact.numerator) // exact.denominator)


def format_milli(amount: int) -> str:
    """Return the canonical text of an amount of thousandths: 1500 → `1500m`, 2000 → `2`."""
    return f"{amount}m" if amount % 1000 else str(amount // 1000)


def format_bytes(amount: int) -> str:
    """Return the canonical binary text of an amount of bytes: 1073741824 → `1Gi`."""
    for suffix, power in (("Ei", 6), ("Pi", 5), ("Ti", 4), ("Gi", 3), ("Mi", 2), ("Ki", 1)):
        unit = 1024**power
        if amount and amount % unit == 0:
            return f"{amount // unit}{suffix}"
    return str(amount)


_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}


@lru_cache(maxsize=4096)
def canonical(text: str | int | float) -> str:
    """Return the canonical text that Kubernetes writes for a quantity: 0.1 → `100m`, 1024Mi → `1Gi`, 1000m → `1`.

    The family of suffixes stays: decimal, binary (if the amount is a multiple of 1024) or exponent. Only significant
    digits are written, with the largest suffix that needs no fraction. Raises QuantityError. Source:
    k8s.io/apimachinery/pkg/api/resource, Quantity.CanonicalizeBytes. The result is that of a server which stored and
    read the quantity once: an amount in Ki that no binary suffix fits is read back as a decimal one.
    """
    plain = str(text).strip()
    exact = parse(plain)
    form = _FORM.match(plain)
    assert form is not None
    _, suffix, exponent = form.groups()
    nano = exact * 10**9
    exact = Fraction(-((-nano.numerator) // nano.denominator), 10**9) if nano >= 0 else Fraction(nano // 1, 10**9)
    if not exact:
        return "0"
    if suffix is not None and suffix.endswith("i") and exact.denominator == 1 and not exact.numerator % 1024:
        sign, amount = ("-", -exact) if exact < 0 else ("", exact)
        return sign + format_bytes(int(amount))
    power = 18
    while (exact / Fraction(10) ** power).denominator != 1:
        power -= 3
    mantissa = int(exact / Fraction(10) ** power)
    if exponent is not None:
        return f"{mantissa}e{power}" if power else str(mantissa)
    return f"{mantissa}{_DECIMAL[power]}"
