"""Validation of a value against a structural schema, as in kube-openapi (`pkg/validation/validate`).

On an update the errors of a node that equals its old value are dropped (apiextensions `validation/ratcheting.go`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from volcanoio.localcluster.apiserver.apimachinery.objects import encode
from volcanoio.localcluster.apiserver.schema import rules
from volcanoio.localcluster.apiserver.schema.equality import UNCORRELATED, identical, old_field, old_items
from volcanoio.model.validation.field_errors import FieldError, required, wrong_type
from volcanoio.model.validation.formats import known_format

Validate: TypeAlias = Callable[[Any, Any, str, list[FieldError]], int]
"""Add the errors of a value (with its old value, or UNCORRELATED) at a path; returns the number of visited nodes."""

_EXACT: Final = 2.0**53
_TYPE_NAMES: Final[dict[type, str]] = {bool: "boolean", dict: "object", list: "array", str: "string"}
_EXACT_TYPES: Final[dict[str, type]] = {name: kind for kind, name in _TYPE_NAMES.items()}
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_FINE: Final[dict[str, type]] = {"string": str, "boolean": bool}
_SAYS_NOTHING: Final = frozenset({"type", "description", "default", "title", "example", "externalDocs", "nullable"})
_ROOT_UNRATCHETED: Final = frozenset({"apiVersion", "kind", "metadata"})


def type_name(value: Any) -> str:
    """Return the JSON type of a value, as messages name it."""
    if value is None:
        return "null"
    return _TYPE_NAMES.get(type(value)) or ("integer" if rules.is_int(value) else "number")


def compile_validate(  # noqa: C901 - one closure, called for each value
    schema: dict[str, Any], *, root: bool = False
) -> Validate | None:
    """Compile the validation of a schema; None where everything is valid."""
    check_type, enumeration, junctors = _type(schema), rules.enumeration(schema), _junctors(schema)
    fields, items = _fields(schema, root=root), _items(schema)
    by_kind = _checks_by_kind(schema)
    checks = (check_type, enumeration, fields, items)
    if not junctors and all(one is None for one in checks) and not any(by_kind.values()):
        return None

    def validate(value: Any, old: Any, path: str, errors: list[FieldError]) -> int:
        start, looked, kind = len(errors), 1, type(value)
        if check_type is not None:
            check_type(value, path, errors)
        if value is not None:
            for junctor in junctors:
                looked += junctor(value, old, path, errors)
            if kind is list and items is not None:
                looked += items(value, old, path, errors)
            for check in by_kind.get(kind, ()):
                check(value, path, errors)
        if enumeration is not None:
            enumeration(value, path, errors)
        if fields is not None and kind is dict:
            looked += fields(value, old, path, errors)
        if len(errors) > start and old is not UNCORRELATED and identical(value, old):
            del errors[start:]
        return looked

    return validate


def _checks_by_kind(schema: dict[str, Any]) -> dict[type, list[rules.Check]]:
    numbers = rules.numbers(schema)
    found = {
        str: (rules.strings(schema), rules.formats(schema)),
        list: (rules.sizes(schema),),
        int: (numbers,),
        float: (numbers,),
    }
    return {kind: [one for one in checks if one is not None] for kind, checks in found.items()}


def _type(schema: dict[str, Any]) -> rules.Check | None:
    """Compile the check of the type; a null is valid where the schema is nullable."""
    nullable = bool(schema.get("nullable"))
    kind = schema.get("type") or ""
    wanted = {"integer", "string"} if schema.get("x-kubernetes-int-or-string") else {kind} if kind else set()
    form = str(schema.get("format") or "") if len(wanted) < 2 and known_format(schema) else ""
    if not wanted and not form:
        return None
    shown = "integer,string" if len(wanted) == 2 else kind
    # kube-openapi accepts a text or list of any format, unless numbers are expected
    texts_pass = bool(form) and not wanted & {"integer", "number"}

    exact = _EXACT_TYPES.get(shown)

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if type(value) is exact:
            return
        found = type_name(value)
        if value is None:
            if nullable or not wanted:
                return
        elif (
            found in wanted
            or (found == "integer" and "number" in wanted)
            or (found == "number" and "integer" in wanted and _is_json_integer(value))
            or (texts_pass and found in {"string", "array"})
        ):
            return
        elif form and found not in {"string", "array"}:
            given = {"integer": "int64", "number": "float64"}.get(found, "")
            errors.append(wrong_type(path, given, f'{path} in body must be of type {form}: "{given}"'))
            return
        errors.append(wrong_type(path, found, f'{path} in body must be of type {shown}: "{found}"'))

    return check


def _is_json_integer(value: float) -> bool:
    """Return whether a float is a whole number that JSON can hold exactly."""
    return abs(value) < _EXACT and float(value).is_integer()


def _fields(  # noqa: C901 - one closure, called for each object
    schema: dict[str, Any], *, root: bool
) -> Validate | None:
    """Compile the checks of properties, additional properties, their number and required names.

    Properties compile when the first object has them: schemas of a megabyte describe many unused fields.
    """
    specified: dict[str, Any] = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    each = compile_validate(others) if isinstance(others, dict) else None
    names: list[str] = schema.get("required") or []
    count = rules.properties(schema)
    forbids = others is False
    if not names and each is None and not specified and count is None and not forbids:
        return None
    unratcheted = _ROOT_UNRATCHETED if root else frozenset()
    fine = {name: kind for name, sub in specified.items() if (kind := _fine_kind(sub)) is not None}
    known: dict[str, Validate | None] = {}

    def compiled(key: str) -> Validate | None:
        if key not in specified:
            return each
        known[key] = compile_validate(specified[key])
        return known[key]

    def validate(value: Any, old: Any, path: str, errors: list[FieldError]) -> int:
        looked = 0
        if count is not None:
            count(value, path, errors)
        for key, one in value.items():
            if type(one) is fine.get(key):
                looked += 1
                continue
            if forbids and key not in specified:
                text = f"{path}.{key} in body is a forbidden property"
                errors.append(FieldError(path, "FieldValueInvalid", f'Invalid value: "{key}": {text}'))
            check = known[key] if key in known else compiled(key)
            if check is not None:
                before = UNCORRELATED if key in unratcheted else old_field(old, key)
                if root and before is not UNCORRELATED and encode(one) == encode(before):
                    continue  # unchanged values are not validated again
                looked += check(one, before, f"{path}.{key}" if path else key, errors)
        for name in names:
            if name not in value:
                errors.append(required(f"{path}.{name}" if path else name))  # noqa: PERF401 - nearly always none
        return looked

    return validate


def _fine_kind(schema: dict[str, Any]) -> type | None:
    """Return the Python type of always valid values.

    Many schemas only specify a type.
    """
    return _FINE.get(schema.get("type") or "") if _SAYS_NOTHING.issuperset(schema) else None


def _items(schema: dict[str, Any]) -> Validate | None:
    items = schema.get("items")
    check = compile_validate(items) if isinstance(items, dict) else None
    if check is None:
        return None
    item = check
    correlate = old_items(schema)

    def validate(value: Any, old: Any, path: str, errors: list[FieldError]) -> int:
        find = correlate(old)
        return sum(item(one, find(one), f"{path}[{at}]", errors) for at, one in enumerate(value))

    return validate


def _junctors(schema: dict[str, Any]) -> list[Validate]:
    """Compile anyOf, oneOf, allOf and not, in the order of validation."""
    found: list[Validate] = []
    if schema.get("anyOf"):
        any_of = _any_of([compile_validate(sub) for sub in schema["anyOf"]])
        found.append(_int_or_string(any_of) if schema["anyOf"] == _INT_OR_STRING else any_of)
    if schema.get("oneOf"):
        found.append(_one_of([compile_validate(sub) for sub in schema["oneOf"]]))
    if schema.get("allOf"):
        found.append(_all_of([compile_validate(sub) for sub in schema["allOf"]]))
    if isinstance(schema.get("not"), dict):
        found.append(_not(compile_validate(schema["not"])))
    return found


def _tried(sub: Validate | None, value: Any, old: Any, path: str) -> tuple[int, list[FieldError]]:
    errors: list[FieldError] = []
    return (sub(value, old, path, errors) if sub is not None else 1), errors


def _any_of(subs: list[Validate | None]) -> Validate:
    def validate(value: Any, old: Any, path: str, errors: list[FieldError]) -> int:
        best: tuple[int, list[FieldError]] | None = None
        for sub in subs:
            found = _tried(sub, value, old, path)
            if not found[1]:
                return found[0]
            if best is None or found[0] > best[0]:
                best = found
        errors.append(rules.composite(f'"{path}" must validate at least one schema (anyOf)'))
        if best is None:
            return 0
        errors += best[1]
        return best[0]

    return validate


def _int_or_string(any_of: Validate) -> Validate:
    """Return the checks for an int-or-string, with a shortcut for values that are one."""

    def validate(value: Any, old: Any, path: str, errors: list[FieldError]) -> int:
        return 1 if type(value) is str or rules.is_int(value) else any_of(value, old, path, errors)

    return validate


def _one_of(subs: list[Validate | None]) -> Validate:
    def validate(value: Any, old: Any, path: str, errors: list[FieldError]) -> int:
        tried = [_tried(sub, value, old, path) for sub in subs]
        passed = [looked for looked, wrong in tried if not wrong]
        if len(passed) == 1:
            return passed[0]
        text = f'"{path}" must validate one and only one schema (oneOf). '
        if passed:
            errors.append(rules.composite(f"{text}Found {len(passed)} valid alternatives"))
            return passed[0]
        errors.append(rules.composite(f"{text}Found none valid"))
        looked, wrong = max(tried, key=lambda one: one[0])
        errors += wrong
        return looked

    return validate


def _all_of(subs: list[Validate | None]) -> Validate:
    def validate(value: Any, old: Any, path: str, errors: list[FieldError]) -> int:
        looked = passed = 0
        for sub in subs:
            more, wrong = _tried(sub, value, old, path)
            looked += more
            passed += not wrong
            errors += wrong
        if passed < len(subs):
            none = "" if passed else ". None validated"
            errors.append(rules.composite(f'"{path}" must validate all the schemas (allOf){none}'))
        return looked

    return validate


def _not(sub: Validate | None) -> Validate:
    def validate(value: Any, old: Any, path: str, errors: list[FieldError]) -> int:
        if not _tried(sub, value, old, path)[1]:
            errors.append(rules.composite(f'"{path}" must not validate the schema (not)'))
        return 0

    return validate
