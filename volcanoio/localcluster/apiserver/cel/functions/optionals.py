"""Optional values (cel-go `cel.OptionalTypes`)."""

from __future__ import annotations

from typing import Any

from volcanoio.localcluster.apiserver.cel.errors import EvaluationError, NoSuchOverload
from volcanoio.localcluster.apiserver.cel.functions.arguments import taking
from volcanoio.localcluster.apiserver.cel.signatures import Declared
from volcanoio.localcluster.apiserver.cel.values import NOTHING, Optional


def _of(value: Any) -> Optional:
    return Optional(present=True, value=value)


def _of_non_zero(value: Any) -> Optional:
    zero = value is None or (type(value) is not Optional and not value)
    return NOTHING if zero else _of(value)


def _value(one: Optional) -> Any:
    if not one.present:
        raise EvaluationError("optional.none() dereference")
    return one.value


def _or_value(one: Any, other: Any) -> Any:
    if type(one) is not Optional:
        raise NoSuchOverload
    return one.value if one.present else other


def _unwrap(items: list[Any]) -> list[Any]:
    return [one.value for one in items if type(one) is Optional and one.present]


TABLE: dict[str, Declared] = {
    "optional.of": Declared("(V) -> optional(V)", _of),
    "optional.ofNonZeroValue": Declared("(V) -> optional(V)", _of_non_zero),
    "optional.none": Declared("() -> optional(V)", lambda: NOTHING),
    "value": Declared("optional(V).() -> V", taking(Optional)(_value)),
    "hasValue": Declared("optional(V).() -> bool", taking(Optional)(lambda one: one.present)),
    "or": Declared(
        "optional(V).(optional(V)) -> optional(V)",
        taking(Optional, Optional)(lambda one, other: one if one.present else other),
    ),
    "orValue": Declared("optional(V).(V) -> V", _or_value),
    "optional.unwrap": Declared("(list(optional(V))) -> list(V)", taking(list)(_unwrap)),
    "unwrapOpt": Declared("list(optional(V)).() -> list(V)", taking(list)(_unwrap)),
}
