"""A structural schema, compiled on first use to closures that prune, default and validate.

Defaults fill missing fields (CRD docs, "Defaulting"); a null where none is allowed becomes the default, or is dropped
where there is none (apiextensions `schema/defaulting`). Items of lists that are sets or maps are unique (apiextensions
`schema/listtype`).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from volcanoio.localcluster.apiserver.schema.embedded import Check, Coerce, compile_coerce, compile_embedded
from volcanoio.localcluster.apiserver.schema.equality import UNCORRELATED, old_field
from volcanoio.localcluster.apiserver.schema.expressions import Evaluate as Rules
from volcanoio.localcluster.apiserver.schema.expressions import Evaluation, compile_rules
from volcanoio.localcluster.apiserver.schema.prune import Prune, compile_prune
from volcanoio.localcluster.apiserver.schema.rules import plain
from volcanoio.localcluster.apiserver.schema.subschemas import Subschemas, compile_subschemas
from volcanoio.localcluster.apiserver.schema.validate import Validate, compile_validate
from volcanoio.model.base import Manifest
from volcanoio.model.validation.field_errors import FieldError, duplicate, invalid

Unique: TypeAlias = Callable[[Any, str, list[FieldError]], None]
"""Add errors for repeated items."""


def compile_unique(schema: dict[str, Any]) -> Unique | None:
    """Compile the uniqueness checks of all lists; None where no list is a set or map."""
    below = compile_subschemas(schema, compile_unique)
    kind = schema.get("x-kubernetes-list-type")
    own = _repeats(schema) if kind in {"set", "map"} else None
    return None if below.is_empty and own is None else _unique_below(below, own)


def _unique_below(below: Subschemas[Unique], own: Unique | None) -> Unique:
    """Return the check of a value; `own` checks the list itself."""
    fields, each, item = below

    def check_fields(value: dict[str, Any], path: str, errors: list[FieldError]) -> None:
        if each is not None:
            for key, one in value.items():
                each(one, f"{path}[{key}]" if path else key, errors)
        for name, sub in fields.items():
            if name in value:
                sub(value[name], f"{path}.{name}" if path else name, errors)

    return _unique_composite(check_fields, item, own)


def _unique_composite(check_fields: Unique, item: Unique | None, own: Unique | None) -> Unique:
    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if type(value) is dict:
            check_fields(value, path, errors)
        elif type(value) is list:
            if own is not None:
                own(value, path, errors)
            if item is not None:
                for at, one in enumerate(value):
                    item(one, f"{path}[{at}]", errors)

    return check


def _repeats(schema: dict[str, Any]) -> Unique:
    keys: list[str] | None = None
    if schema["x-kubernetes-list-type"] == "map":
        keys = sorted(schema.get("x-kubernetes-list-map-keys") or ())

    def check(value: list[Any], path: str, errors: list[FieldError]) -> None:
        if keys is not None:
            for at, one in enumerate(value):
                if one is not None and type(one) is not dict:
                    errors.append(invalid(f"{path}[{at}]", one, "must be an object for an array of list-type map"))
                    return
        seen: dict[bytes, int] = {}
        for at, one in enumerate(value):
            known = one if keys is None else {key: one[key] for key in keys if key in one} if one is not None else {}
            encoded = msgspec.json.encode(known, order="deterministic")
            seen[encoded] = times = seen.get(encoded, 0) + 1
            if times == 2:
                errors.append(duplicate(f"{path}[{at}]", known))

    return check


Default: TypeAlias = Callable[[Any], None]
"""Set defaults in place."""


def compile_default(schema: dict[str, Any]) -> Default | None:
    """Compile the defaults of a schema; None for scalars."""
    properties: dict[str, Any] = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    items = schema.get("items")
    if isinstance(items, dict):
        return _default_items(items)
    if not properties and not isinstance(others, dict):
        return None
    return _default_fields(properties, others if isinstance(others, dict) else None)


def _default_fields(  # noqa: C901 - one closure, called for each object
    properties: dict[str, Any], others: dict[str, Any] | None
) -> Default:
    own = {name: sub["default"] for name, sub in properties.items() if sub.get("default") is not None}
    inner = {name: sub for name, one in properties.items() if (sub := compile_default(one)) is not None}
    each = compile_default(others) if others is not None else None
    replace_nulls = _null_replacement(properties, others)

    def default(value: Any) -> None:
        if type(value) is not dict:
            return
        if None in value.values():
            replace_nulls(value)
        for name, given in own.items():
            if name not in value:
                value[name] = deepcopy(given)
        for name, sub in inner.items():
            if name in value:
                sub(value[name])
        if each is not None:
            for name, one in value.items():
                if name not in properties:
                    each(one)

    return default


def _null_replacement(properties: dict[str, Any], others: dict[str, Any] | None) -> Default:
    """Replace nulls where none is allowed by the default, or drop them where there is none."""
    nullable_others = {"nullable": True} if others is None else others

    def replace_nulls(value: Any) -> None:
        for name in [name for name, one in value.items() if one is None]:
            schema = properties.get(name, nullable_others)
            if schema.get("nullable"):
                continue
            if schema.get("default") is None:
                del value[name]
            else:
                value[name] = deepcopy(schema["default"])

    return replace_nulls


def _default_items(items: dict[str, Any]) -> Default:
    item = compile_default(items)
    given = None if items.get("nullable") else items.get("default")

    def default(value: Any) -> None:
        if type(value) is not list:
            return
        if given is not None and None in value:
            value[:] = [deepcopy(given) if one is None else one for one in value]
        if item is not None:
            for one in value:
                item(one)

    return default


_INT32_MAX: Final = 2**31 - 1
_BLOCKING: Final = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
"""Errors after which rules are not evaluated."""
_BLOCKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)


class ScalePaths(NamedTuple):
    """JSON paths of the scale subresource, such as `.spec.replicas`."""

    spec_replicas: str
    status_replicas: str
    label_selector: str = ""


class CompiledSchema:
    """Pruning, defaulting and validation of one schema.

    The paths of the scale subresource are validated too.
    """

    def __init__(self, schema: Manifest, scale: ScalePaths | None = None) -> None:
        self._schema = schema
        self._scale = scale

    @cached_property
    def _prune(self) -> Prune:
        return compile_prune(self._schema, root=True)

    @cached_property
    def _coerce(self) -> Coerce | None:
        return compile_coerce(self._schema, root=True)

    @cached_property
    def _default(self) -> Default | None:
        return compile_default(self._schema)

    @cached_property
    def _validate(self) -> Validate | None:
        return compile_validate(self._schema, root=True)

    @cached_property
    def _validate_status(self) -> Validate | None:
        status = (self._schema.get("properties") or {}).get("status")
        return compile_validate(status) if status else None

    @cached_property
    def _unique(self) -> Unique | None:
        return compile_unique(self._schema)

    @cached_property
    def _embedded(self) -> Check | None:
        return compile_embedded(self._schema)

    @cached_property
    def _rules(self) -> Rules | None:
        return compile_rules(self._schema, root=True)

    def prune(self, obj: Manifest) -> list[str]:
        """Remove unspecified fields, also of metadata.

        Returns their paths, sorted. Raises EmbeddedObjectError.
        """
        removed: list[str] = []
        if self._coerce is not None:
            self._coerce(obj, "", removed)
        self._prune(obj, "", removed)
        removed.sort()
        return removed

    def default(self, obj: Manifest) -> None:
        """Set missing fields."""
        if self._default is not None:
            self._default(obj)

    def validate(self, obj: Manifest, old: Manifest | None, status: bool, warnings: list[str]) -> list[FieldError]:
        """Return errors of an object, or of its status alone if that is written.

        On an update unchanged values are not validated again; CEL rules that they violate become warnings.
        """
        errors: list[FieldError] = []
        before: Any = UNCORRELATED if old is None else old
        if status:
            self._validate_status_part(obj, before, errors)
        else:
            if self._validate is not None:
                self._validate(obj, before, "", errors)
                errors[:] = dict.fromkeys(errors)  # several schemas may report the same error
            if self._scale is not None:
                _check_count(obj, self._scale.spec_replicas, errors)
        if self._scale is not None:
            _check_count(obj, self._scale.status_replicas, errors)
            _check_selector(obj, self._scale.label_selector, errors)
        if self._embedded is not None and not status:
            self._embedded(obj, "", errors)
        if self._unique is not None:
            self._list_errors(self._unique, obj, old, errors)
        if self._rules is not None:
            if any(one.reason in _BLOCKING for one in errors):
                errors.append(invalid("<nil>", None, _BLOCKED))
            else:
                evaluation = Evaluation(errors, warnings)
                self._rules(obj, before, "", None if old is None else (obj, old), evaluation)
        return errors

    def _validate_status_part(self, obj: Manifest, before: Any, errors: list[FieldError]) -> None:
        if self._validate_status is None or "status" not in obj:
            return
        found: list[FieldError] = []
        self._validate_status(obj["status"], old_field(before, "status"), "", found)
        found = list(dict.fromkeys(found))
        errors += [
            one if one.field == "<nil>" else one._replace(field=f"status.{one.field}" if one.field else "status")
            for one in found
        ]

    @staticmethod
    def _list_errors(unique: Unique, obj: Manifest, old: Manifest | None, errors: list[FieldError]) -> None:
        """Add errors of duplicate list items; on an update only where the old lists had none."""
        found: list[FieldError] = []
        unique(obj, "", found)
        if found and old is not None:
            earlier: list[FieldError] = []
            unique(old, "", earlier)
            if earlier:
                return
        errors += found


def _at(obj: Manifest, path: str) -> tuple[Any, str]:
    """Return the value at a simple path, and the value that blocks the path if it is no object."""
    value: Any = obj
    parts = path.removeprefix(".").split(".")
    for at, part in enumerate(parts):
        if type(value) is not dict:
            place = "." + ".".join(parts)
            shown = f"{plain(value)} is of the type {_go_type(value)}, expected map[string]interface{{}}"
            del at
            return None, f"{place} accessor error: {shown}"
        if part not in value:
            return None, ""
        value = value[part]
    return value, ""


def _go_type(value: Any) -> str:
    names: dict[type, str] = {str: "string", int: "int64", float: "float64", bool: "bool", list: "[]interface {}"}
    return names.get(type(value), "<nil>" if value is None else "map[string]interface {}")


def _check_count(obj: Manifest, path: str, errors: list[FieldError]) -> None:
    value, wrong = _at(obj, path)
    if not wrong and value is not None and type(value) is not int:
        wrong = f"{path} accessor error: {plain(value)} is of the type {_go_type(value)}, expected int64"
    if wrong:
        errors.append(invalid(path, 0, wrong))
    elif value is not None and value < 0:
        errors.append(invalid(path, value, "should be a non-negative integer"))
    elif value is not None and value > _INT32_MAX:
        errors.append(invalid(path, value, f"should be less than or equal to {_INT32_MAX}"))


def _check_selector(obj: Manifest, path: str, errors: list[FieldError]) -> None:
    if not path:
        return
    value, wrong = _at(obj, path)
    if not wrong and value is not None and type(value) is not str:
        wrong = f"{path} accessor error: {plain(value)} is of the type {_go_type(value)}, expected string"
    if wrong:
        errors.append(invalid(path, "", wrong))
