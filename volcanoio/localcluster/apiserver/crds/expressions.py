"""The CEL rules of a definition: they are well formed, compile, and say what they may (apiextensions)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from volcanoio.engine.admission.fielderrors import FieldError, invalid, required, unsupported
from volcanoio.localcluster.apiserver.cel.types import Type
from volcanoio.localcluster.apiserver.crds.costs import Costs, occurrences
from volcanoio.localcluster.apiserver.schema.expressions import compile_rule
from volcanoio.localcluster.apiserver.schema.fieldpaths import FieldPathError, normalized
from volcanoio.model.base import Manifest

_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


def rule_text_errors(schema: Manifest, path: str) -> Iterator[FieldError]:
    """What is wrong with the words of rules, whatever they mean."""
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


def rule_errors(
    schema: Manifest, path: str, type_: Type, uncorrelated: str, times: int | None, costs: Costs
) -> Iterator[FieldError]:
    """What does not compile, costs too much, or uses an oldSelf that there is not.

    `uncorrelated` is the list that keeps it away, `times` how often values may occur where that is bounded.
    """
    often = occurrences(times, type_.least)
    for at, rule in enumerate(schema["x-kubernetes-validations"]):
        where = f"{path}.x-kubernetes-validations[{at}]"
        compiled = compile_rule(rule, type_, schema)
        if compiled.program is not None:
            yield from costs.judge(f"{where}.rule", compiled.program.most * often, "estimated rule cost")
        if compiled.error:
            yield invalid(f"{where}.rule", _shown(rule), compiled.error)
        if compiled.message_error:
            yield invalid(f"{where}.messageExpression", _shown(rule), compiled.message_error)
        elif compiled.message is not None:
            what = "estimated messageExpression cost"
            yield from costs.judge(f"{where}.messageExpression", compiled.message.most, what)
        if compiled.uses_old:
            if uncorrelated:
                text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
                yield invalid(f"{where}.rule", _text(rule, "rule"), text)
        elif rule.get("optionalOldSelf") is not None:
            text = "may not be set if oldSelf is not used in rule"
            yield invalid(f"{where}.optionalOldSelf", rule["optionalOldSelf"], text)


def _text(rule: Manifest, word: str) -> str:
    return str(rule.get(word) or "")


def _has_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _shown(rule: Manifest) -> dict[str, Any]:
    """A rule as it stands in messages."""
    return {
        "Rule": _text(rule, "rule"),
        "Message": _text(rule, "message"),
        "MessageExpression": _text(rule, "messageExpression"),
        "Reason": rule.get("reason"),
        "FieldPath": _text(rule, "fieldPath"),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
