"""Quantities such as `1.5Gi` (Kubernetes' `kubernetes.quantity`)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from volcanoio.localcluster.apiserver.cel.errors import EvaluationError
from volcanoio.localcluster.apiserver.cel.functions.arguments import taking
from volcanoio.localcluster.apiserver.cel.signatures import Declared
from volcanoio.localcluster.apiserver.cel.values import INT_MAX, INT_MIN, Opaque
from volcanoio.model.quantity import QuantityError, parse

_KIND = "kubernetes.Quantity"
_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class Quantity(Opaque):
    """An exact amount."""

    __slots__ = ("amount",)
    kind = _KIND

    def __init__(self, amount: Fraction) -> None:
        self.amount = amount

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and other.amount == self.amount

    def __hash__(self) -> int:
        return hash(self.amount)


def _quantity(text: str) -> Quantity:
    try:
        return Quantity(parse(text))
    except QuantityError:
        raise EvaluationError(_RULE) from None


def _is_quantity(text: str) -> bool:
    try:
        parse(text)
    except QuantityError:
        return False
    return True


def _sign(one: Quantity) -> int:
    return (one.amount > 0) - (one.amount < 0)


def _is_integer(one: Quantity) -> bool:
    return one.amount.denominator == 1 and INT_MIN <= one.amount <= INT_MAX


def _as_integer(one: Quantity) -> int:
    if not _is_integer(one):
        raise EvaluationError("cannot convert value to integer")
    return int(one.amount)


def _other(value: Any) -> Fraction:
    if type(value) is int:
        return Fraction(value)
    if isinstance(value, Quantity):
        return value.amount
    raise EvaluationError("no such overload")


_TWO = "kubernetes.Quantity.(kubernetes.Quantity)"
_SUM = f"{_TWO} -> kubernetes.Quantity; kubernetes.Quantity.(int) -> kubernetes.Quantity"
_one, _pair = taking(Quantity), taking(Quantity, Quantity)

TABLE: dict[str, Declared] = {
    "quantity": Declared("(string) -> kubernetes.Quantity", taking(str)(_quantity)),
    "isQuantity": Declared("(string) -> bool", taking(str)(_is_quantity)),
    "sign": Declared("(kubernetes.Quantity) -> int", _one(_sign)),
    "isGreaterThan": Declared(f"{_TWO} -> bool", _pair(lambda one, other: one.amount > other.amount)),
    "isLessThan": Declared(f"{_TWO} -> bool", _pair(lambda one, other: one.amount < other.amount)),
    "compareTo": Declared(
        f"{_TWO} -> int", _pair(lambda one, other: (one.amount > other.amount) - (one.amount < other.amount))
    ),
    "asApproximateFloat": Declared("kubernetes.Quantity.() -> double", _one(lambda one: float(one.amount))),
    "asInteger": Declared("kubernetes.Quantity.() -> int", _one(_as_integer)),
    "isInteger": Declared("kubernetes.Quantity.() -> bool", _one(_is_integer)),
    "add": Declared(_SUM, taking(Quantity, object)(lambda one, other: Quantity(one.amount + _other(other)))),
    "sub": Declared(_SUM, taking(Quantity, object)(lambda one, other: Quantity(one.amount - _other(other)))),
}
