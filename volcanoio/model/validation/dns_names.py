"""Names, labels and annotations: Kubernetes' rules and messages (apimachinery `pkg/util/validation`).

Results are cached: the same few names and labels occur in every pod of a job.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Any, TypeVar

from volcanoio.model.selectors import LABEL_VALUE, QUALIFIED, SUBDOMAIN
from volcanoio.model.validation.field_errors import FieldError, invalid

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?").fullmatch

LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
QUALIFIED_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_TWO_PREFIXES = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
ANNOTATION_BYTES = 256 * 1024
"""Maximum size of all annotations of an object."""


_Result = TypeVar("_Result")
_LONGEST_CACHED = 512
"""Characters of the longest text that a cache keeps: longer ones, which no name is, would fill the memory."""


def cached_by_text(size: int) -> Callable[[Callable[[str], _Result]], Callable[[str], _Result]]:
    """Cache the results of a function for its last `size` texts that have the length of names."""

    def decorate(function: Callable[[str], _Result]) -> Callable[[str], _Result]:
        cached = lru_cache(size)(function)

        @wraps(function)
        def call(text: str) -> _Result:
            return cached(text) if len(text) <= _LONGEST_CACHED else function(text)

        return call

    return decorate


@cached_by_text(8192)
def label_rule(name: str) -> str:
    """Return the broken rule of a DNS label; empty if it is valid."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    return "" if _LABEL(name) else LABEL_RULE


@cached_by_text(8192)
def subdomain_rule(name: str) -> str:
    """Return the broken rule of a DNS subdomain; empty if it is valid."""
    if len(name) > 253:
        return "must be no more than 253 characters"
    return "" if SUBDOMAIN(name) else SUBDOMAIN_RULE


@cached_by_text(8192)
def qualified_rule(name: str) -> str:
    """Return the broken rule of a qualified name such as `example.com/key`; empty if it is valid."""
    prefix, slash, part = name.rpartition("/")
    if slash:
        if "/" in prefix:
            return _TWO_PREFIXES
        if not prefix:
            return "prefix part must be non-empty"
        if rule := subdomain_rule(prefix):
            return f"prefix part {rule}"
    if not part:
        return "name part must be non-empty"
    if len(part) > 63:
        return "name part must be no more than 63 characters"
    return "" if QUALIFIED(part) else QUALIFIED_RULE


@cached_by_text(8192)
def _annotation_rule(key: str) -> str:
    return qualified_rule(key.lower())


def value_rule(value: Any) -> str:
    """Return the broken rule of a label's value; empty if it is valid."""
    return _text_rule(value) if isinstance(value, str) else "must be a string"


@cached_by_text(8192)
def _text_rule(value: str) -> str:
    if len(value) > 63:
        return "must be no more than 63 characters"
    return "" if LABEL_VALUE(value) else _VALUE_RULE


@lru_cache(maxsize=8192)
def _are_keys(keys: tuple[str, ...]) -> bool:
    """Return whether all are valid keys of labels and annotations; cached, as every pod of a job has the same."""
    return not any(map(qualified_rule, keys))


def _have_valid_keys(named: Mapping[str, Any]) -> bool:
    """Return whether all keys are valid; those of large maps are not kept in the cache."""
    keys = tuple(named)
    return _are_keys(keys) if sum(map(len, keys)) <= _LONGEST_CACHED else _are_keys.__wrapped__(keys)


def label_errors(labels: Any, path: str) -> list[FieldError]:
    """Return the errors of a map of labels."""
    if not labels:
        return []
    if not isinstance(labels, dict):
        return [invalid(path, labels, "must be an object of strings")]
    if _have_valid_keys(labels) and not any(map(value_rule, labels.values())):
        return []
    errors = [invalid(path, key, rule) for key in labels if (rule := qualified_rule(key))]
    return errors + [invalid(path, value, rule) for value in labels.values() if (rule := value_rule(value))]


def annotation_errors(annotations: Any, path: str) -> list[FieldError]:
    """Return the errors of a map of annotations."""
    if not annotations:
        return []
    if not isinstance(annotations, dict):
        return [invalid(path, annotations, "must be an object of strings")]
    keys = () if _have_valid_keys(annotations) else tuple(annotations)
    errors = [invalid(path, key, rule) for key in keys if (rule := _annotation_rule(key))]
    texts = [*annotations, *annotations.values()]
    if set(map(type, texts)) != {str}:
        errors += [
            invalid(path, key, "must be a string") for key, one in annotations.items() if not isinstance(one, str)
        ]
    elif sum(map(len, texts)) > ANNOTATION_BYTES:
        errors.append(FieldError(path, "FieldValueTooLong", f"Too long: may not be more than {ANNOTATION_BYTES} bytes"))
    return errors
