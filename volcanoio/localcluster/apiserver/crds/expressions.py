"""CEL rules and defaults of a definition's schema.

Rules are well formed, compile, and stay below Kubernetes' cost limits (apiextensions `validation.go`). Defaults are
valid and hold no unknown fields (apiextensions `schema/defaulting`).
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final, NamedTuple

from volcanoio.localcluster.apiserver.schema.embedded import compile_embedded
from volcanoio.localcluster.apiserver.schema.equality import UNCORRELATED, identical
from volcanoio.localcluster.apiserver.schema.expressions import Evaluation, compile_rule, compile_rules
from volcanoio.localcluster.apiserver.schema.fieldpaths import FieldPathError, normalized
from volcanoio.localcluster.apiserver.schema.prune import compile_prune
from volcanoio.localcluster.apiserver.schema.validate import compile_validate
from volcanoio.model.base import Manifest
from volcanoio.model.cel.types import Type
from volcanoio.model.validation.field_errors import FieldError, forbidden, invalid, required, unsupported

RULE_LIMIT: Final = 10_000_000
"""Cost limit of one rule, multiplied by how often its value may occur in an object."""
SCHEMA_LIMIT: Final = 100_000_000
"""Cost limit of all rules of a schema."""
_REQUEST: Final = 3 * 1024 * 1024
_NAMED: Final = 4
"""Number of the most expensive rules in the message."""


def occurrences(times: int | None, least: int) -> float:
    """Return how often a value may occur.

    Bounded by the enclosing lists and maps, or by the request size.
    """
    return times if times is not None else _REQUEST // (least + 1)


class Place(NamedTuple):
    """Context of a schema within the schema of a version."""

    no_defaults: str | None = None
    """Why it must not have defaults; None where it may."""
    in_meta: bool = False
    uncorrelated: str = ""
    """The list around it whose items have no old counterpart, so that rules cannot use oldSelf."""
    root: bool = False
    embedded: bool = False
    times: int | None = 1
    """How often its values may occur; None where a list or map around it is unbounded."""

    def many(self, most: Any) -> Place:
        """Return the place of a value that occurs up to `most` times in each value of this place."""
        known = self.times is not None and isinstance(most, int)
        return self._replace(times=self.times * most if known and self.times is not None else None)


class Costs:
    """The costs of one schema's rules."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: list[tuple[float, str]] = []

    def add(self, path: str, cost: float, what: str) -> list[FieldError]:
        """Count the cost of a rule or its message (`what`); returns an error when it is too high."""
        self._seen.append((cost, path))
        return [forbidden(path, _excess(what, cost, RULE_LIMIT))] if cost > RULE_LIMIT else []

    def total(self) -> list[FieldError]:
        """Return errors of the total cost of all rules."""
        total = sum(cost for cost, _ in self._seen)
        if total <= SCHEMA_LIMIT:
            return []
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        dearest = sorted(self._seen, key=lambda one: -one[0])[:_NAMED]
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        found = [forbidden(path, text) for _, path in dearest]
        return [*found, forbidden(self._path, _excess(what, total, SCHEMA_LIMIT))]


def _excess(what: str, cost: float, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    hint = (
        "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings "
        "are declared)"
    )
    return f"{what} exceeds budget by factor of {shown} {hint}"


_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


def rule_text_errors(schema: Manifest, path: str) -> Iterator[FieldError]:
    """Yield errors of the texts of rules, without compiling them."""
    for at, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        where = f"{path}.x-kubernetes-validations[{at}]"
        text, message = _text(rule, "rule"), _text(rule, "message")
        if not text.strip():
            yield required(f"{where}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid(f"{where}.message", message, "must be non-empty if specified")
        elif _has_breaks(message.strip()):
            yield invalid(f"{where}.message", message, "must not contain line breaks")
        elif _has_breaks(text.strip()) and not message.strip():
            yield required(f"{where}.message", "message must be specified if rule contains line breaks")
        expression, reason = _text(rule, "messageExpression"), rule.get("reason")
        if expression and not expression.strip():
            rule_text = "messageExpression must be non-empty if specified"
            yield required(f"{where}.messageExpression", rule_text)
        if reason is not None and reason not in _REASONS:
            yield unsupported(f"{where}.reason", reason, _REASONS)
        yield from _path_errors(_text(rule, "fieldPath"), schema, f"{where}.fieldPath")


def _path_errors(given: str, schema: Manifest, where: str) -> Iterator[FieldError]:
    if not given:
        return
    if not given.strip():
        yield invalid(where, given, "must be non-empty if specified")
    if _has_breaks(given):
        yield invalid(where, given, "must not contain line breaks")
    try:
        normalized(given, schema)
    except FieldPathError:
        yield invalid(where, given, "must be a valid path")


def rule_errors(schema: Manifest, path: str, type_: Type, place: Place, costs: Costs) -> Iterator[FieldError]:
    """Yield errors of rules that do not compile, cost too much, or misuse oldSelf.

    oldSelf is invalid where there is no old value.
    """
    often = occurrences(place.times, type_.least)
    for at, rule in enumerate(schema["x-kubernetes-validations"]):
        where = f"{path}.x-kubernetes-validations[{at}]"
        compiled = compile_rule(rule, type_, schema)
        if compiled.program is not None:
            yield from costs.add(f"{where}.rule", compiled.program.most * often, "estimated rule cost")
        if compiled.error:
            yield invalid(f"{where}.rule", _shown(rule), compiled.error)
        if compiled.message_error:
            yield invalid(f"{where}.messageExpression", _shown(rule), compiled.message_error)
        elif compiled.message is not None:
            what = "estimated messageExpression cost"
            yield from costs.add(f"{where}.messageExpression", compiled.message.most, what)
        if compiled.uses_old:
            if place.uncorrelated:
                text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelated}"
                yield invalid(f"{where}.rule", _text(rule, "rule"), text)
        elif rule.get("optionalOldSelf") is not None:
            text = "may not be set if oldSelf is not used in rule"
            yield invalid(f"{where}.optionalOldSelf", rule["optionalOldSelf"], text)


def _text(rule: Manifest, word: str) -> str:
    return str(rule.get(word) or "")


def _has_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _shown(rule: Manifest) -> dict[str, Any]:
    """Return a rule as messages show it."""
    return {
        "Rule": _text(rule, "rule"),
        "Message": _text(rule, "message"),
        "MessageExpression": _text(rule, "messageExpression"),
        "Reason": rule.get("reason"),
        "FieldPath": _text(rule, "fieldPath"),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


_META = frozenset({"metadata", "apiVersion", "kind"})


def default_errors(schema: Manifest, path: str) -> list[FieldError]:
    """Return errors of the defaults of a schema."""
    return list(_below(schema, path, embedded=True))


def _below(schema: Manifest, path: str, *, embedded: bool) -> Iterator[FieldError]:
    if schema.get("default") is not None:
        yield from _check_default(schema["default"], schema, f"{path}.default")
    items = schema.get("items")
    if isinstance(items, dict):
        yield from _below(items, f"{path}.items", embedded=bool(items.get("x-kubernetes-embedded-resource")))
    for name, one in (schema.get("properties") or {}).items():
        if embedded and name in _META:
            continue  # checked elsewhere: forbidden at the root, and validated with an embedded object
        where = f"{path}.properties[{name}]"
        yield from _below(one, where, embedded=bool(one.get("x-kubernetes-embedded-resource")))


def _check_default(value: Any, schema: Manifest, path: str) -> Iterator[FieldError]:
    pruned = deepcopy(value)
    compile_prune(schema)(pruned, "", [])
    if not identical(pruned, value):
        yield invalid(path, value, "must not have unknown fields")
    found: list[FieldError] = []
    embedded = compile_embedded(schema)
    if embedded is not None:
        embedded(value, path, found)
    if not found:
        validate = compile_validate(schema)
        wrong: list[FieldError] = []
        if validate is not None:
            validate(value, UNCORRELATED, "", wrong)
        found = [one._replace(field=_joined(path, one.field)) for one in wrong]
    if not found:
        found = _broken_rules(value, schema, path)
    yield from found


def _broken_rules(value: Any, schema: Manifest, path: str) -> list[FieldError]:
    """Return errors of rules for the default, both as a new and as an unchanged value."""
    add = compile_rules(schema)
    if add is None:
        return []
    for old in (value, UNCORRELATED):
        evaluation = Evaluation()
        add(value, old, path, None, evaluation)
        if evaluation.errors:
            return evaluation.errors
    return []


def _joined(path: str, field: str) -> str:
    if field == "<nil>" or not field:
        return path
    return f"{path}.{field}"
