"""Validation of a value against a structural schema, with the texts of Kubernetes (kube-openapi `pkg/validation`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from volcanoio.engine.admission.fielderrors import FieldError, required, wrong_type
from volcanoio.localcluster.apiserver.schema import rules

Validate: TypeAlias = Callable[[Any, str, list[FieldError]], None]
"""Notes what is wrong with the value at a path."""

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: rules.is_number(value) and float(value).is_integer(),
    "number": rules.is_number,
    "integer or string": lambda value: isinstance(value, str) or (rules.is_number(value) and float(value).is_integer()),
}

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
"""What structural schemas have to say beside `x-kubernetes-int-or-string`."""


def type_name(value: Any) -> str:
    """The JSON type of a value, as messages name it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names: dict[type, str] = {dict: "object", list: "array", str: "string", int: "integer"}
    return names.get(type(value), "number")


def compile_validate(schema: dict[str, Any]) -> Validate | None:
    """The validator of a schema; None where everything is valid."""
    int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    if int_or_string and schema.get("anyOf") == _INT_OR_STRING:
        schema = {key: value for key, value in schema.items() if key != "anyOf"}  # the type says as much
    checks = [*rules.compile_rules(schema), *_junctors(schema)]
    if (children := _children(schema)) is not None:
        checks.append(children)
    kind = schema.get("type")
    wanted = "integer or string" if int_or_string else kind
    is_type = _TYPES.get(str(wanted))
    nullable = bool(schema.get("nullable"))
    if wanted is None and not checks:
        return None

    def validate(value: Any, path: str, errors: list[FieldError]) -> None:
        if value is None and nullable:
            return
        if wanted is not None and is_type is not None and not is_type(value):
            found = type_name(value)
            errors.append(wrong_type(path, found, f'{path} in body must be of type {wanted}: "{found}"'))
            return
        for check in checks:
            check(value, path, errors)

    return validate


def _children(schema: dict[str, Any]) -> Validate | None:
    """Properties, additional properties, items and required names."""
    properties: dict[str, Any] = schema.get("properties") or {}
    known = {name: compile_validate(sub) for name, sub in properties.items()}
    others = schema.get("additionalProperties")
    each = compile_validate(others) if isinstance(others, dict) else None
    items = schema.get("items")
    item = compile_validate(items) if isinstance(items, dict) else None
    names: list[str] = schema.get("required") or []
    if not names and each is None and item is None and not any(known.values()):
        return None

    def validate(value: Any, path: str, errors: list[FieldError]) -> None:
        if isinstance(value, dict):
            errors += [required(f"{path}.{name}" if path else name) for name in names if name not in value]
            for key, one in value.items():
                check = known.get(key) if key in known else each
                if check is not None:
                    check(one, f"{path}.{key}" if path else key, errors)
        elif item is not None and isinstance(value, list):
            for at, one in enumerate(value):
                item(one, f"{path}[{at}]", errors)

    return validate


def _junctors(schema: dict[str, Any]) -> list[Validate]:
    """allOf, anyOf, oneOf and not."""
    found: list[Validate] = []
    words = {
        "anyOf": (lambda count, _: count > 0, "must validate at least one schema (anyOf)"),
        "oneOf": (lambda count, _: count == 1, "must validate one and only one schema (oneOf)"),
        "allOf": (lambda count, total: count == total, "must validate all the schemas (allOf)"),
    }
    for word, (enough, text) in words.items():
        subs = schema.get(word)
        if subs:
            found.append(_counted([compile_validate(sub) for sub in subs], enough, text))
    if isinstance(schema.get("not"), dict):
        text = "must not validate the schema (not)"
        found.append(_counted([compile_validate(schema["not"])], lambda count, _: count == 0, text))
    return found


def _counted(subs: list[Validate | None], enough: Callable[[int, int], bool], text: str) -> Validate:
    def validate(value: Any, path: str, errors: list[FieldError]) -> None:
        passed = 0
        inner: list[FieldError] = []
        for sub in subs:
            before = len(inner)
            if sub is not None:
                sub(value, path, inner)
            passed += len(inner) == before
        if not enough(passed, len(subs)):
            errors.append(FieldError(path, "FieldValueInvalid", f'Invalid value: "": {path} in body {text}'))
            errors.extend(inner)

    return validate
