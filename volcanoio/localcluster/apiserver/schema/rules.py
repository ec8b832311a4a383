"""Checks of one schema node: ranges, lengths, patterns, formats and enumerations.

Texts are those of kube-openapi (`pkg/validation/errors/schema.go`), the order that of its validators.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from volcanoio.localcluster.apiserver.schema.equality import identical
from volcanoio.model.validation.field_errors import (
    FieldError,
    invalid,
    shown,
    too_long,
    too_many,
    unsupported,
    wrong_type,
)
from volcanoio.model.validation.formats import FORMATS, NUMBER_FORMATS, RANGES, known_format
from volcanoio.model.validation.patterns import PatternError, compile_pattern

Check: TypeAlias = Callable[[Any, str, list[FieldError]], None]
"""Add the errors of a value at a path."""

INT64: Final = (-(2**63), 2**63 - 1)
_Bound: TypeAlias = Callable[[float, bool, str, list[FieldError]], None]


def composite(text: str) -> FieldError:
    """Return an error of several schemas, or of a schema itself, which has no field."""
    return FieldError("<nil>", "FieldValueInvalid", f'Invalid value: "": {text}')


def is_int(value: Any) -> bool:
    """Return whether Go decodes the number as an int64; larger ones are floats."""
    return type(value) is int and INT64[0] <= value <= INT64[1]


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a number; booleans are not."""
    return type(value) in {int, float}


def go_number(value: float) -> str:
    """Return a number as Go's `%v` prints it."""
    if type(value) is int or (math.isfinite(value) and value.is_integer() and abs(value) < 1e21):
        whole = int(value)
        if type(value) is float and abs(whole) >= 10**21:
            return f"{value:e}"
        return str(whole)
    text = repr(float(value))
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}e{exponent[0] if exponent[0] in '+-' else '+'}{exponent.lstrip('+-'):0>2}" if mark else text


def strings(schema: dict[str, Any]) -> Check | None:
    """Compile the checks of a string's length and pattern; only the first error is reported."""
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if most is None and least is None and not pattern:
        return None
    search, broken = None, ""
    if pattern:
        try:
            search = compile_pattern(pattern).search
        except PatternError as error:
            broken = f"{pattern}, but pattern is invalid: {error}"

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if most is not None and len(value) > most:
            errors.append(too_long(path, most))
        elif least is not None and len(value) < least:
            errors.append(invalid(path, value, f"{path} in body should be at least {least} chars long"))
        elif broken:
            errors.append(invalid(path, value, f"{path} in body should match '{broken}'"))
        elif search is not None and search(value) is None:
            errors.append(invalid(path, value, f"{path} in body should match '{pattern}'"))

    return check


def formats(schema: dict[str, Any]) -> Check | None:
    """Compile the check of a string's format."""
    name = schema.get("format")
    if not name or schema.get("x-kubernetes-int-or-string") or not known_format(schema):
        return None
    if schema.get("type") in NUMBER_FORMATS:
        return None
    holds = FORMATS[name.replace("-", "")]

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if not holds(value):
            errors.append(wrong_type(path, value, f'{path} in body must be of type {name}: "{value}"'))

    return check


def numbers(schema: dict[str, Any]) -> Check | None:
    """Compile the checks of a number: the range of its format, multipleOf, maximum and minimum."""
    kind = "" if schema.get("x-kubernetes-int-or-string") else schema.get("type") or ""
    name = schema.get("format") or ""
    fits = RANGES.get(name) if name in NUMBER_FORMATS.get(kind, ()) else None
    shown_format = (
        f"with format {name}" if fits is not None or name in NUMBER_FORMATS.get(kind, ()) else "(default format)"
    )
    checks = _bounds(schema, kind, shown_format)
    if fits is None and kind != "integer" and not checks:
        return None

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if not _in_range(value, kind, fits):
            errors.append(composite(f"Checked value must be of type {kind} {shown_format} in {path}"))
        whole = is_int(value)
        for check in checks:
            check(value, whole, path, errors)

    return check


def _bounds(schema: dict[str, Any], kind: str, shown_format: str) -> list[_Bound]:
    """Return checks of multipleOf, maximum and minimum.

    An integer is compared with truncated bounds, as in Go.
    """
    found: list[_Bound] = []
    for word, (name, check) in _BOUNDED.items():
        bound = schema.get(word)
        if bound is None:
            continue
        if kind == "integer" and type(bound) is float and not bound.is_integer():
            found.append(_misfit(f"{name} value must be of type integer {shown_format} in "))
        found.append(check(bound, schema))
    return found


def _misfit(text: str) -> _Bound:
    return lambda value, whole, path, errors: errors.append(composite(text + path))  # noqa: ARG005 - a _Bound


def _multiple(factor: float, _: dict[str, Any]) -> _Bound:
    def check(value: float, whole: bool, path: str, errors: list[FieldError]) -> None:
        if whole and int(factor) == 0:
            text = f"factor MultipleOf declared for {path} must be positive: 0"
            errors.append(invalid(path, 0, text))
        elif not _divides(value, int(factor) if whole else factor):
            errors.append(invalid(path, value, f"{path} in body should be a multiple of {go_number(factor)}"))

    return check


def _maximum(bound: float, schema: dict[str, Any]) -> _Bound:
    strict = bool(schema.get("exclusiveMaximum"))
    return _limit(bound, operator.ge if strict else operator.gt, "less than" if strict else "less than or equal to")


def _minimum(bound: float, schema: dict[str, Any]) -> _Bound:
    strict = bool(schema.get("exclusiveMinimum"))
    rule = "greater than" if strict else "greater than or equal to"
    return _limit(bound, operator.le if strict else operator.lt, rule)


_BOUNDED: Final[dict[str, tuple[str, Callable[[float, dict[str, Any]], _Bound]]]] = {
    "multipleOf": ("MultipleOf", _multiple),
    "maximum": ("Maximum boundary", _maximum),
    "minimum": ("Minimum boundary", _minimum),
}


def _limit(bound: float, broken: Callable[[float, float], bool], rule: str) -> _Bound:
    def check(value: float, whole: bool, path: str, errors: list[FieldError]) -> None:
        limit = int(bound) if whole else bound
        if broken(value, limit):
            errors.append(invalid(path, value, f"{path} in body should be {rule} {go_number(limit)}"))

    return check


def _in_range(value: float, kind: str, fits: tuple[float, float] | None) -> bool:
    if kind == "integer" and (not is_int(value) and not float(value).is_integer()):
        return False
    if fits is not None:
        return fits[0] <= value <= fits[1]
    return kind != "integer" or INT64[0] <= value <= INT64[1]


def _divides(value: float, factor: float) -> bool:
    if type(value) is int:
        return value % factor == 0
    quotient = 1 / factor * value if factor < 1 else value / factor
    return math.isfinite(quotient) and (quotient == int(quotient) or abs(quotient - round(quotient)) < 1e-9)


def sizes(schema: dict[str, Any]) -> Check | None:
    """Compile the checks of a list's length."""
    return _counted(schema.get("minItems"), schema.get("maxItems"), "items")


def properties(schema: dict[str, Any]) -> Check | None:
    """Compile the checks of an object's number of fields."""
    return _counted(schema.get("minProperties"), schema.get("maxProperties"), "properties")


def _counted(least: int | None, most: int | None, noun: str) -> Check | None:
    if most is None and least is None:
        return None

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if least is not None and len(value) < least:
            errors.append(invalid(path, len(value), f"{path} in body should have at least {least} {noun}"))
        if most is not None and len(value) > most:
            errors.append(too_many(path, len(value), most))

    return check


def enumeration(schema: dict[str, Any]) -> Check | None:
    """Compile the check of an enumeration."""
    values: list[Any] = schema.get("enum") or []
    if not values:
        return None
    texts = frozenset(one for one in values if type(one) is str)
    listed = [plain(one) for one in values]

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if type(value) is str:
            if value in texts:
                return
        elif value is not None and any(_equal(value, one) for one in values):
            return
        errors.append(unsupported(path, value, listed))

    return check


def _equal(value: Any, one: Any) -> bool:
    """Return whether two values are equal: numbers by value, booleans only among themselves."""
    return bool(value == one) if is_number(value) and is_number(one) else identical(value, one)


def plain(value: Any) -> str:
    """Return a value as Go prints it without quotes."""
    if type(value) is str:
        return value
    if value is None or type(value) is bool:
        return {None: "null", True: "true", False: "false"}[value]
    return go_number(value) if is_number(value) else shown(value)
