"""`x-kubernetes-validations`: CEL rules of a schema, compiled once and evaluated on each write.

Semantics and texts: Kubernetes docs "Validation rules", apiextensions `schema/cel/validation.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from volcanoio.engine.admission.fielderrors import FieldError, duplicate, forbidden, invalid, required
from volcanoio.localcluster.apiserver.cel import (
    BOOL,
    STRING,
    CompileError,
    CostExceeded,
    EvaluationError,
    InstantiationError,
    Program,
    ResultError,
    compile_expression,
)
from volcanoio.localcluster.apiserver.cel.types import Type, optional_of
from volcanoio.localcluster.apiserver.cel.values import NOTHING, Optional
from volcanoio.localcluster.apiserver.schema.comparison import identical
from volcanoio.localcluster.apiserver.schema.correlation import UNCORRELATED, old_field, old_items
from volcanoio.localcluster.apiserver.schema.declarations import (
    Lift,
    compile_lift,
    declare,
    escaped,
    with_type_meta,
)
from volcanoio.localcluster.apiserver.schema.fieldpaths import FieldPathError, normalized

BUDGET: Final = 10_000_000
"""What the rules of one object may cost together (Kubernetes' RuntimeCELCostBudget)."""
_LONGEST_MESSAGE: Final = 5 * 1024


@dataclass(slots=True)
class Judging:
    """One object under the rules: what was found, and what may still be spent."""

    errors: list[FieldError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    budget: list[int] = field(default_factory=lambda: [BUDGET])


Pair: TypeAlias = tuple[Any, Any] | None
"""The nearest value that has an old one, and that old one."""
Judge: TypeAlias = Callable[[Any, Any, str, Pair, Judging], bool]
"""Judges a value (then its old one, its path, what ratcheting compares); False when the budget is spent."""


class Rule(NamedTuple):
    """One compiled rule. `error` and `message_error` say why there is no program."""

    source: dict[str, Any]
    program: Program | None = None
    error: str = ""
    message: Program | None = None
    message_error: str = ""
    path: str = ""

    @property
    def uses_old(self) -> bool:
        """Whether it is about the change from an old value."""
        return self.program is not None and "oldSelf" in self.program.uses


def compile_rule(rule: dict[str, Any], type_: Type, schema: dict[str, Any]) -> Rule:
    """One entry of `x-kubernetes-validations`, over values of the type and schema."""
    source = str(rule.get("rule") or "")
    if not source.strip():
        return Rule(rule)
    variables = {"self": type_, "oldSelf": optional_of(type_) if rule.get("optionalOldSelf") else type_}
    try:
        program = compile_expression(source, variables, BOOL)
    except ResultError:
        return Rule(rule, error="cel expression must evaluate to a bool")
    except InstantiationError as error:
        return Rule(rule, error=f"program instantiation failed: {error}")
    except CompileError as error:
        return Rule(rule, error=f"compilation failed: {error}")
    message, message_error = None, ""
    if rule.get("messageExpression"):
        try:
            message = compile_expression(str(rule["messageExpression"]), variables, STRING)
        except ResultError:
            message_error = "messageExpression must evaluate to a string"
        except InstantiationError as error:
            message_error = f"messageExpression instantiation failed: {error}"
        except CompileError as error:
            message_error = f"messageExpression compilation failed: {error}"
    try:
        path = normalized(str(rule.get("fieldPath") or ""), schema)
    except FieldPathError:
        path = ""
    return Rule(rule, program, "", message, message_error, path)


def compile_judge(schema: dict[str, Any], *, root: bool = False) -> Judge | None:
    """The judge of a schema; None where it has no rules."""
    if not _has_rules(schema):
        return None
    return _compile(schema, schema, declare(schema, root=root), root=root)


def _has_rules(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    if schema.get("x-kubernetes-validations"):
        return True
    inner = [schema.get("items"), schema.get("additionalProperties"), *(schema.get("allOf") or ())]
    return any(_has_rules(one) for one in [*inner, *(schema.get("properties") or {}).values()])


def _compile(rules: dict[str, Any], node: dict[str, Any], type_: Type | None, *, root: bool) -> Judge | None:
    """The rules of one schema (an allOf's part, or the node itself) about values of a node."""
    if not _has_rules(rules):
        return None
    own = _own(rules, node, type_, root=root)
    every = [_compile(one, node, type_, root=root) for one in rules.get("allOf") or ()]
    parts = [one for one in every if one is not None]
    fields, each = _fields(rules, node, type_)
    items, specified = rules.get("items"), node.get("items")
    item = None
    if isinstance(items, dict) and isinstance(specified, dict):
        inner = type_.params[0] if type_ is not None and type_.kind == "list" else None
        item = _compile(items, specified, inner, root=bool(specified.get("x-kubernetes-embedded-resource")))
    correlate = old_items(node)
    known_fields = node.get("properties") or {}

    def judge(value: Any, old: Any, path: str, pair: Pair, judging: Judging) -> bool:
        if value is None:
            return True
        if own is not None and not own(value, old, path, pair, judging):
            return False
        for one in parts:
            if not one(value, old, path, None, judging):
                return False
        if type(value) is dict:
            for name, inner in value.items():
                sub = fields.get(name)
                if sub is None and each is not None and name not in known_fields:
                    sub, below = each, f"{path}[{name}]"
                else:
                    below = f"{path}.{name}" if path else name
                if sub is not None:
                    before = old_field(old, name)
                    ratchet = pair
                    if (
                        pair is not None
                        and before is not UNCORRELATED
                        and not (root and name in {"apiVersion", "kind"})
                    ):
                        ratchet = (inner, before)
                    if not sub(inner, before, below, ratchet, judging):
                        return False
        elif type(value) is list and item is not None:
            find = correlate(old)
            for at, inner in enumerate(value):
                before = find(inner)
                ratchet = (inner, before) if pair is not None and before is not UNCORRELATED else pair
                if not item(inner, before, f"{path}[{at}]", ratchet, judging):
                    return False
        return True

    return judge


def _fields(rules: dict[str, Any], node: dict[str, Any], type_: Type | None) -> tuple[dict[str, Judge], Judge | None]:
    """The judges of properties and of additional ones."""
    found: dict[str, Judge] = {}
    specified: dict[str, Any] = node.get("properties") or {}
    for name, sub in (rules.get("properties") or {}).items():
        if name not in specified:
            continue
        known = escaped(name)
        declared = (type_.fields or {}).get(known) if type_ is not None and known is not None else None
        embedded = bool(specified[name].get("x-kubernetes-embedded-resource"))
        if known is not None:
            inner = declared.type if declared is not None else None
        else:  # a field that no expression can name has rules of its own all the same
            inner = declare(specified[name], root=embedded)
        if inner is not None and (judge := _compile(sub, specified[name], inner, root=embedded)) is not None:
            found[name] = judge
    others, specified_others = rules.get("additionalProperties"), node.get("additionalProperties")
    if not isinstance(others, dict) or not isinstance(specified_others, dict):
        return found, None
    inner = type_.params[1] if type_ is not None and type_.kind == "map" else None
    embedded = bool(specified_others.get("x-kubernetes-embedded-resource"))
    return found, _compile(others, specified_others, inner, root=embedded)


def _own(schema: dict[str, Any], node: dict[str, Any], type_: Type | None, *, root: bool) -> Judge | None:
    """The rules of the node itself."""
    sources: list[dict[str, Any]] = schema.get("x-kubernetes-validations") or []
    if not sources or type_ is None:
        return None
    rules = [compile_rule(one, type_, node) for one in sources]
    lift = compile_lift(with_type_meta(node) if root else node)
    kind = str(node.get("type") or "")
    shows = kind not in {"object", "array"}

    def judge(value: Any, old: Any, path: str, pair: Pair, judging: Judging) -> bool:
        here = path or "<nil>"
        if judging.budget[0] <= 0:
            text = "validation failed due to running out of cost budget, no further validation rules will be run"
            judging.errors.append(invalid(here, kind, text))
            return False
        plain, optional = _bindings(lift, value, None if old is UNCORRELATED else old)
        for rule in rules:
            if rule.error:
                judging.errors.append(invalid(here, kind, f"rule compile error: {rule.error}"))
                continue
            if rule.program is None or (
                rule.uses_old and "oldSelf" not in plain and not rule.source.get("optionalOldSelf")
            ):
                continue
            try:
                holds = rule.program.evaluate(optional if rule.source.get("optionalOldSelf") else plain, judging.budget)
            except CostExceeded as error:
                text = f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: "
                judging.errors.append(invalid(here, kind, text + _shown(rule)))
                judging.budget[0] = -1
                return False
            except EvaluationError as error:
                judging.errors.append(invalid(here, kind, _failure(error, rule)))
                continue
            if holds is True:
                continue
            found = _broken(rule, path, value if shows else None, plain, judging, shows=shows)
            if pair is not None and not rule.uses_old and identical(*pair):
                judging.warnings.append(str(found))
            else:
                judging.errors.append(found)
        return True

    return judge


def _bindings(lift: Lift | None, value: Any, old: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The variables of rules, and those of rules whose oldSelf is optional."""
    value = lift(value) if lift is not None else value
    if old is None:
        return {"self": value}, {"self": value, "oldSelf": NOTHING}
    old = lift(old) if lift is not None else old
    return {"self": value, "oldSelf": old}, {"self": value, "oldSelf": Optional(present=True, value=old)}


def _shown(rule: Rule) -> str:
    return str(rule.source.get("message") or rule.source["rule"]).strip()


def _failure(error: EvaluationError, rule: Rule) -> str:
    if str(error).startswith("no such overload"):
        text = "call arguments did not match a supported operator, function or macro signature for rule: "
        return f"'{error}': {text}{_shown(rule)}"
    return f"{error} evaluating rule: {_shown(rule)}"


def _broken(
    rule: Rule, path: str, value: Any, bindings: dict[str, Any], judging: Judging, *, shows: bool
) -> FieldError:
    """The error of a rule that does not hold."""
    text = _message(rule, bindings, judging)
    if not text:
        message = str(rule.source.get("message") or "").strip()
        text = message or f"failed rule: {str(rule.source['rule']).strip()}"
    place = f"{path}.{rule.path}" if path and rule.path else rule.path or path or "<nil>"
    match rule.source.get("reason"):
        case "FieldValueForbidden":
            return forbidden(place, text)
        case "FieldValueRequired":
            return required(place, text)
        case "FieldValueDuplicate":
            return duplicate(place, value) if shows else FieldError(place, "FieldValueDuplicate", "Duplicate value")
    if shows:
        return invalid(place, value, text)
    return FieldError(place, "FieldValueInvalid", f"Invalid value: {text}")


def _message(rule: Rule, bindings: dict[str, Any], judging: Judging) -> str:
    """What the messageExpression says; nothing when it fails or says nothing fit to show."""
    if rule.message is None:
        return ""
    try:
        text = str(rule.message.evaluate(bindings, judging.budget)).strip()
    except EvaluationError:
        return ""
    return text if "\n" not in text and len(text.encode()) <= _LONGEST_MESSAGE else ""
