"""Lists and sets (Kubernetes' `kubernetes.lists`, cel-go's `lists` version 3 and `sets`)."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

from volcanoio.model.cel.errors import EvaluationError, NoSuchOverload
from volcanoio.model.cel.functions.arguments import taking
from volcanoio.model.cel.functions.standard import OPERATORS
from volcanoio.model.cel.signatures import Declared
from volcanoio.model.cel.values import Duration, Optional, contains, equal, ordered

_COMPARABLE = ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"]
_SUMMABLE = ["int", "uint", "double", "duration"]
_less, _greater = ordered(operator.lt), ordered(operator.gt)


def _is_sorted(items: list[Any]) -> bool:
    return not any(_greater(one, other) for one, other in itertools.pairwise(items))


def _sum(items: list[Any]) -> Any:
    """Return the sum of the elements.

    The checker's type determines the zero of an empty list, see `evaluate`.
    """
    if not items:
        return 0
    total = items[0]
    for one in items[1:]:
        total = OPERATORS["_+_"].call(total, one)
    if type(total) in {str, bytes} or isinstance(total, list):
        raise NoSuchOverload
    return total


EMPTY_SUMS: dict[str, Any] = {"double": 0.0, "duration": Duration(0)}
"""The sum of an empty list by the type of its elements; 0 for all others."""


def _extreme(better: Callable[[Any, Any], bool], name: str) -> Callable[[list[Any]], Any]:
    def call(items: list[Any]) -> Any:
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        best = items[0]
        for one in items[1:]:
            if better(one, best):
                best = one
        return best

    return call


def _index_of(items: Any, value: Any) -> int:
    if not isinstance(items, list):
        raise NoSuchOverload
    return next((at for at, one in enumerate(items) if equal(one, value)), -1)


def _last_index_of(items: Any, value: Any) -> int:
    if not isinstance(items, list):
        raise NoSuchOverload
    return next((at for at in reversed(range(len(items))) if equal(items[at], value)), -1)


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    found: list[Any] = []
    for one in items:
        if isinstance(one, list) and depth:
            found += _flatten(one, depth - 1)
        else:
            found.append(one)
    return found


def _distinct(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for one in items:
        if not contains(found, one):
            found.append(one)
    return found


def sort_by(items: list[Any], keys: list[Any]) -> list[Any]:
    """Return the items sorted by their keys; raises EvaluationError for keys without an order."""
    if len({type(one) for one in keys}) > 1:
        raise EvaluationError("list elements must have the same type")
    if keys:
        _less(keys[0], keys[0])
    places = sorted(range(len(items)), key=keys.__getitem__)
    return [items[at] for at in places]


def _range(count: int) -> list[int]:
    if count > 1_000_000:
        raise EvaluationError("operation cancelled: actual cost limit exceeded")
    return list(range(count))


def _each(form: str, kinds: list[str]) -> str:
    return ";".join(form.replace("X", kind) for kind in kinds)


def _strict(call: Callable[..., Any]) -> Callable[..., Any]:
    return taking(list, list)(call)


TABLE: dict[str, Declared] = {
    "isSorted": Declared(_each("list(X).() -> bool", _COMPARABLE), taking(list)(_is_sorted)),
    "sum": Declared(_each("list(X).() -> X", _SUMMABLE), taking(list)(_sum)),
    "max": Declared(_each("list(X).() -> X", _COMPARABLE), taking(list)(_extreme(_greater, "max"))),
    "min": Declared(_each("list(X).() -> X", _COMPARABLE), taking(list)(_extreme(_less, "min"))),
    "indexOf": Declared("list(A).(A) -> int", _index_of),
    "lastIndexOf": Declared("list(A).(A) -> int", _last_index_of),
    "slice": Declared("list(T).(int, int) -> list(T)", taking(list, int, int)(_slice)),
    "flatten": Declared("list(list(T)).() -> list(T); list(dyn).(int) -> list(dyn)", taking(list, int)(_flatten)),
    "sort": Declared(_each("list(X).() -> list(X)", _COMPARABLE), taking(list)(lambda items: sort_by(items, items))),
    "lists.range": Declared("(int) -> list(int)", taking(int)(_range)),
    "reverse": Declared("list(T).() -> list(T)", taking(list)(lambda items: items[::-1])),
    "distinct": Declared("list(T).() -> list(T)", taking(list)(_distinct)),
    "first": Declared(
        "list(V).() -> optional(V)",
        taking(list)(lambda items: Optional(present=True, value=items[0]) if items else Optional(present=False)),
    ),
    "last": Declared(
        "list(V).() -> optional(V)",
        taking(list)(lambda items: Optional(present=True, value=items[-1]) if items else Optional(present=False)),
    ),
    "sets.contains": Declared(
        "(list(T), list(T)) -> bool", _strict(lambda one, other: all(contains(one, item) for item in other))
    ),
    "sets.equivalent": Declared(
        "(list(T), list(T)) -> bool",
        _strict(
            lambda one, other: all(contains(one, item) for item in other) and all(contains(other, item) for item in one)
        ),
    ),
    "sets.intersects": Declared(
        "(list(T), list(T)) -> bool", _strict(lambda one, other: any(contains(one, item) for item in other))
    ),
}
