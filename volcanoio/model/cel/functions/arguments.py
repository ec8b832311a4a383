"""Checks of argument types: functions have no overload for other types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from volcanoio.model.cel.errors import EvaluationError, NoSuchOverload
from volcanoio.model.cel.values import INT_MIN, Opaque

Implementation = Callable[..., Any]


def taking(*kinds: type) -> Callable[[Implementation], Implementation]:
    """Wrap a function to accept only values of these types, else raise NoSuchOverload.

    Subclasses of list and Opaque are accepted too.

    Trailing arguments may be missing when the implementation has defaults for them.
    """

    def wrap(call: Implementation) -> Implementation:
        def checked(*values: Any) -> Any:
            if len(values) > len(kinds):
                raise NoSuchOverload
            for value, kind in zip(values, kinds, strict=False):
                if type(value) is not kind and not (
                    kind is object or (issubclass(kind, list | Opaque) and isinstance(value, kind))
                ):
                    raise NoSuchOverload
            return call(*values)

        return checked

    return wrap


def whole(value: float) -> int:
    """Truncate a double to an int; raises EvaluationError outside of its range."""
    if value != value or not float(INT_MIN) < value < float(-INT_MIN):
        raise EvaluationError("integer overflow")
    return int(value)
