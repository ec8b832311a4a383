"""Errors of fields: Kubernetes' reasons and messages (apimachinery `pkg/util/validation/field`)."""

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

_UNSAFE = re.compile("[<>&\u2028\u2029]")
_shown = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class FieldError(NamedTuple):
    """One broken rule. `field` is a path such as `spec.containers[0].name`; `str()` gives `path: rule`."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def shown(value: Any) -> str:
    """Return a value as Kubernetes prints it in messages: strings quoted, others as JSON that is safe within HTML."""
    text = _shown(_with_integers(value) if isinstance(value, float | list | dict) else value)
    if isinstance(value, str) or not _UNSAFE.search(text):
        return text
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _with_integers(value: Any) -> Any:
    """Return the value with whole floats as integers, as Go writes them."""
    match value:
        case float():
            return int(value) if value.is_integer() and abs(value) < 1e21 else value
        case list():
            return [_with_integers(one) for one in value]
        case dict():
            return {key: _with_integers(one) for key, one in value.items()}
    return value


def required(field: str, hint: str = "") -> FieldError:
    """Return the error of a missing field."""
    return FieldError(field, "FieldValueRequired", f"Required value: {hint}" if hint else "Required value")


def invalid(field: str, value: Any, rule: str) -> FieldError:
    """Return the error of a value that breaks a rule."""
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {shown(value)}: {rule}")


def wrong_type(field: str, value: Any, rule: str) -> FieldError:
    """Return the error of a value whose type is not the schema's."""
    return FieldError(field, "FieldValueTypeInvalid", f"Invalid value: {shown(value)}: {rule}")


def unsupported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """Return the error of an unsupported value, with the supported ones."""
    values = ", ".join(shown(one) for one in supported)
    return FieldError(field, "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {values}")


def duplicate(field: str, value: Any) -> FieldError:
    """Return the error of a value that occurs twice where it must be unique."""
    return FieldError(field, "FieldValueDuplicate", f"Duplicate value: {shown(value)}")


def forbidden(field: str, rule: str) -> FieldError:
    """Return the error of a field that must not be set, or not be changed."""
    return FieldError(field, "FieldValueForbidden", f"Forbidden: {rule}")


def not_found(field: str, value: Any) -> FieldError:
    """Return the error of a reference to a missing object or field."""
    return FieldError(field, "FieldValueNotFound", f"Not found: {shown(value)}")


def too_many(field: str, count: int, most: int) -> FieldError:
    """Return the error of a list or map with too many items."""
    return FieldError(field, "FieldValueTooMany", f"Too many: {count}: must have at most {most} item{'s'[: most != 1]}")


def too_long(field: str, most: int) -> FieldError:
    """Return the error of a text that is too long."""
    return FieldError(field, "FieldValueTooLong", f"Too long: may not be more than {most} byte{'s'[: most != 1]}")
