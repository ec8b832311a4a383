"""All that a structural schema does to objects, compiled when it is first needed."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final, NamedTuple

from volcanoio.engine.admission.fielderrors import FieldError, invalid
from volcanoio.localcluster.apiserver.schema.correlation import UNCORRELATED, old_field
from volcanoio.localcluster.apiserver.schema.defaults import Default, compile_default
from volcanoio.localcluster.apiserver.schema.embedded import Coerce, Judge, compile_coerce, compile_embedded
from volcanoio.localcluster.apiserver.schema.expressions import Judge as Rules
from volcanoio.localcluster.apiserver.schema.expressions import Judging, compile_judge
from volcanoio.localcluster.apiserver.schema.lists import Unique, compile_unique
from volcanoio.localcluster.apiserver.schema.prune import Prune, compile_prune
from volcanoio.localcluster.apiserver.schema.rules import plain
from volcanoio.localcluster.apiserver.schema.validate import Validate, compile_validate
from volcanoio.model.base import Manifest

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
"""After such an error rules may not make sense, and are not evaluated."""
_BLOCKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)


class ScalePaths(NamedTuple):
    """Where the scale subresource reads and writes, as JSON paths such as `.spec.replicas`."""

    spec_replicas: str
    status_replicas: str
    label_selector: str = ""


class CompiledSchema:
    """The pruning, defaulting and validation of one schema; the scale's paths are validated with it."""

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
    def _embedded(self) -> Judge | None:
        return compile_embedded(self._schema)

    @cached_property
    def _rules(self) -> Rules | None:
        return compile_judge(self._schema, root=True)

    def prune(self, obj: Manifest) -> list[str]:
        """Remove unspecified fields, also of metadata; returns their paths, sorted. Raises Misfit."""
        removed: list[str] = []
        if self._coerce is not None:
            self._coerce(obj, "", removed)
        self._prune(obj, "", removed)
        removed.sort()
        return removed

    def default(self, obj: Manifest) -> None:
        """Fill absent fields."""
        if self._default is not None:
            self._default(obj)

    def validate(self, obj: Manifest, old: Manifest | None, status: bool, warnings: list[str]) -> list[FieldError]:
        """The broken rules of an object, or of its status alone when that is what is written.

        What an update does not change is not judged again; rules of CEL that do not hold for it become warnings.
        """
        errors: list[FieldError] = []
        before: Any = UNCORRELATED if old is None else old
        if status:
            self._judge_status(obj, before, errors)
        else:
            if self._validate is not None:
                self._validate(obj, before, "", errors)
                errors[:] = dict.fromkeys(errors)  # what several schemas say of a field is said once
            if self._scale is not None:
                _judge_count(obj, self._scale.spec_replicas, errors)
        if self._scale is not None:
            _judge_count(obj, self._scale.status_replicas, errors)
            _judge_selector(obj, self._scale.label_selector, errors)
        if self._embedded is not None and not status:
            self._embedded(obj, "", errors)
        if self._unique is not None:
            self._judge_lists(self._unique, obj, old, errors)
        if self._rules is not None:
            if any(one.reason in _BLOCKING for one in errors):
                errors.append(invalid("<nil>", None, _BLOCKED))
            else:
                judging = Judging(errors, warnings)
                self._rules(obj, before, "", None if old is None else (obj, old), judging)
        return errors

    def _judge_status(self, obj: Manifest, before: Any, errors: list[FieldError]) -> None:
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
    def _judge_lists(unique: Unique, obj: Manifest, old: Manifest | None, errors: list[FieldError]) -> None:
        """What repeats in a list is fine while something did before."""
        found: list[FieldError] = []
        unique(obj, "", found)
        if found and old is not None:
            earlier: list[FieldError] = []
            unique(old, "", earlier)
            if earlier:
                return
        errors += found


def _at(obj: Manifest, path: str) -> tuple[Any, str]:
    """The value at a simple path, and what is in its way if that is no object."""
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


def _judge_count(obj: Manifest, path: str, errors: list[FieldError]) -> None:
    value, wrong = _at(obj, path)
    if not wrong and value is not None and type(value) is not int:
        wrong = f"{path} accessor error: {plain(value)} is of the type {_go_type(value)}, expected int64"
    if wrong:
        errors.append(invalid(path, 0, wrong))
    elif value is not None and value < 0:
        errors.append(invalid(path, value, "should be a non-negative integer"))
    elif value is not None and value > _INT32_MAX:
        errors.append(invalid(path, value, f"should be less than or equal to {_INT32_MAX}"))


def _judge_selector(obj: Manifest, path: str, errors: list[FieldError]) -> None:
    if not path:
        return
    value, wrong = _at(obj, path)
    if not wrong and value is not None and type(value) is not str:
        wrong = f"{path} accessor error: {plain(value)} is of the type {_go_type(value)}, expected string"
    if wrong:
        errors.append(invalid(path, "", wrong))
