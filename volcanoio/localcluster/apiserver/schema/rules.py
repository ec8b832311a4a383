"""The rules of one schema node about one value: ranges, lengths, patterns, enumerations and list uniqueness."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from volcanoio.engine.admission.fielderrors import FieldError, duplicate, invalid, too_long, too_many, unsupported
from volcanoio.localcluster.apiserver.schema.formats import FORMATS, RANGES

Check = Callable[[Any, str, list[FieldError]], None]


def is_number(value: Any) -> bool:
    """Whether a JSON value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def compile_rules(schema: dict[str, Any]) -> list[Check]:
    """The checks of every rule the node states, in a fixed order."""
    return [make(schema[word], schema) for word, make in _RULES.items() if schema.get(word) is not None]


def _when(
    applies: Callable[[Any], bool], broken: Callable[[Any], bool], error: Callable[[str, Any], FieldError]
) -> Check:
    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if applies(value) and broken(value):
            errors.append(error(path, value))

    return check


def _rule(text: str) -> Callable[[str, Any], FieldError]:
    """An error whose text names the path, as kube-openapi's do."""
    return lambda path, value: invalid(path, value, f"{path} in body {text}")


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _list(value: Any) -> bool:
    return isinstance(value, list)


def _map(value: Any) -> bool:
    return isinstance(value, dict)


def _enum(values: list[Any], _: dict[str, Any]) -> Check:
    texts = [value if isinstance(value, str) else str(value) for value in values]
    return _when(lambda _: True, lambda value: value not in values, lambda path, v: unsupported(path, v, texts))


def _minimum(bound: float, schema: dict[str, Any]) -> Check:
    if schema.get("exclusiveMinimum"):
        return _when(is_number, lambda value: value <= bound, _rule(f"should be greater than {bound}"))
    return _when(is_number, lambda value: value < bound, _rule(f"should be greater than or equal to {bound}"))


def _maximum(bound: float, schema: dict[str, Any]) -> Check:
    if schema.get("exclusiveMaximum"):
        return _when(is_number, lambda value: value >= bound, _rule(f"should be less than {bound}"))
    return _when(is_number, lambda value: value > bound, _rule(f"should be less than or equal to {bound}"))


def _multiple(of: float, _: dict[str, Any]) -> Check:
    return _when(is_number, lambda value: value % of != 0, _rule(f"should be a multiple of {of}"))


def _pattern(pattern: str, _: dict[str, Any]) -> Check:
    search = re.compile(pattern).search
    return _when(_text, lambda value: search(value) is None, _rule(f"should match '{pattern}'"))


def _min_length(least: int, _: dict[str, Any]) -> Check:
    return _when(_text, lambda value: len(value) < least, _rule(f"should be at least {least} chars long"))


def _max_length(most: int, _: dict[str, Any]) -> Check:
    return _when(_text, lambda value: len(value) > most, lambda path, _: too_long(path, most))


def _min_items(least: int, _: dict[str, Any]) -> Check:
    return _when(_list, lambda value: len(value) < least, _rule(f"should have at least {least} items"))


def _max_items(most: int, _: dict[str, Any]) -> Check:
    return _when(_list, lambda value: len(value) > most, lambda path, v: too_many(path, len(v), most))


def _min_properties(least: int, _: dict[str, Any]) -> Check:
    return _when(_map, lambda value: len(value) < least, _rule(f"should have at least {least} properties"))


def _max_properties(most: int, _: dict[str, Any]) -> Check:
    return _when(_map, lambda value: len(value) > most, lambda path, v: too_many(path, len(v), most))


def _unique_items(unique: bool, _: dict[str, Any]) -> Check:
    def repeats(value: list[Any]) -> bool:
        return unique and len({msgspec.json.encode(one, order="sorted") for one in value}) < len(value)

    return _when(_list, repeats, _rule("shouldn't contain duplicates"))


def _format(name: str, _: dict[str, Any]) -> Check:
    if name in RANGES:
        low, high = RANGES[name]
        return _when(
            is_number,
            lambda value: not low <= value <= high,
            _rule(f"should be a value of format {name}: out of range"),
        )
    matches = FORMATS.get(name, _anything)
    return _when(
        _text,
        lambda value: not matches(value),
        lambda path, value: invalid(path, value, f'{path} in body must be of type {name}: "{value}"'),
    )


def _anything(_: str) -> bool:
    return True


def _list_type(kind: str, schema: dict[str, Any]) -> Check:
    """Items of a set are unique; items of a map by their keys."""
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
    defaults = {key: ((schema.get("items") or {}).get("properties") or {}).get(key, {}).get("default") for key in keys}

    def identity(item: Any) -> Any:
        if kind == "set":
            return item
        return {key: item.get(key, defaults[key]) for key in keys} if isinstance(item, dict) else item

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if kind not in {"set", "map"} or not isinstance(value, list):
            return
        seen: set[bytes] = set()
        for at, item in enumerate(value):
            known = identity(item)
            encoded = msgspec.json.encode(known, order="sorted")
            if encoded in seen:
                errors.append(duplicate(f"{path}[{at}]", known))
            seen.add(encoded)

    return check


_RULES: dict[str, Callable[[Any, dict[str, Any]], Check]] = {
    "enum": _enum,
    "minimum": _minimum,
    "maximum": _maximum,
    "multipleOf": _multiple,
    "minLength": _min_length,
    "maxLength": _max_length,
    "pattern": _pattern,
    "format": _format,
    "minItems": _min_items,
    "maxItems": _max_items,
    "uniqueItems": _unique_items,
    "minProperties": _min_properties,
    "maxProperties": _max_properties,
    "x-kubernetes-list-type": _list_type,
}
