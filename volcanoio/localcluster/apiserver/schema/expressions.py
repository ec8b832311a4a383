"""`x-kubernetes-validations`: CEL rules of a schema, compiled once and evaluated on each write.

Semantics and texts: Kubernetes docs "Validation rules", apiextensions `schema/cel/validation.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from volcanoio.localcluster.apiserver.schema.declarations import (
    Convert,
    compile_conversion,
    declare,
    escaped,
    with_type_meta,
)
from volcanoio.localcluster.apiserver.schema.equality import UNCORRELATED, identical, old_field, old_items
from volcanoio.localcluster.apiserver.schema.fieldpaths import FieldPathError, normalized
from volcanoio.model.cel import (
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
from volcanoio.model.cel.types import Type, optional_of
from volcanoio.model.cel.values import NOTHING, Optional
from volcanoio.model.validation.field_errors import FieldError, duplicate, forbidden, invalid, required

BUDGET: Final = 10_000_000
"""Cost limit of all rules of one object (Kubernetes' RuntimeCELCostBudget)."""
_LONGEST_MESSAGE: Final = 5 * 1024


@dataclass(slots=True)
class Evaluation:
    """State of one evaluation of all rules: errors, warnings and the remaining cost budget."""

    errors: list[FieldError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    budget: list[int] = field(default_factory=lambda: [BUDGET])


Pair: TypeAlias = tuple[Any, Any] | None
"""The nearest enclosing value with an old counterpart, and the latter."""
Evaluate: TypeAlias = Callable[[Any, Any, str, Pair, Evaluation], bool]
"""Evaluate rules for a value, its old value, path and pair; False when the budget is exhausted."""


class Rule(NamedTuple):
    """One compiled rule; `error` and `message_error` are set where it does not compile."""

    source: dict[str, Any]
    program: Program | None = None
    error: str = ""
    message: Program | None = None
    message_error: str = ""
    path: str = ""

    @property
    def has_optional_old(self) -> bool:
        """Whether oldSelf is an optional, so that the rule also applies without an old value."""
        return bool(self.source.get("optionalOldSelf"))

    @property
    def uses_old(self) -> bool:
        """Whether the rule compares with an old value."""
        return self.program is not None and "oldSelf" in self.program.uses


def compile_rule(rule: dict[str, Any], type_: Type, schema: dict[str, Any]) -> Rule:
    """Compile one entry of `x-kubernetes-validations` for values of the type and schema."""
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
    message, message_error = _compile_message(rule, variables)
    try:
        path = normalized(str(rule.get("fieldPath") or ""), schema)
    except FieldPathError:
        path = ""
    return Rule(rule, program, "", message, message_error, path)


def _compile_message(rule: dict[str, Any], variables: dict[str, Type]) -> tuple[Program | None, str]:
    """Return the program of the messageExpression, and the reason why it does not compile."""
    if not rule.get("messageExpression"):
        return None, ""
    try:
        return compile_expression(str(rule["messageExpression"]), variables, STRING), ""
    except ResultError:
        return None, "messageExpression must evaluate to a string"
    except InstantiationError as error:
        return None, f"messageExpression instantiation failed: {error}"
    except CompileError as error:
        return None, f"messageExpression compilation failed: {error}"


def compile_rules(schema: dict[str, Any], *, root: bool = False) -> Evaluate | None:
    """Compile the rules of a schema; None where it has none."""
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


def _compile(rules: dict[str, Any], node: dict[str, Any], type_: Type | None, *, root: bool) -> Evaluate | None:
    """Compile the rules of one schema (a part of an allOf, or the node itself) for values of a node."""
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
    evaluate_fields = _fields_evaluator(fields, each, frozenset(node.get("properties") or ()), root=root)
    evaluate_items = None if item is None else _items_evaluator(item, old_items(node))

    def evaluate(value: Any, old: Any, path: str, pair: Pair, evaluation: Evaluation) -> bool:
        if value is None:
            return True
        if own is not None and not own(value, old, path, pair, evaluation):
            return False
        for one in parts:
            if not one(value, old, path, None, evaluation):
                return False
        if type(value) is dict:
            return evaluate_fields(value, old, path, pair, evaluation)
        if type(value) is list and evaluate_items is not None:
            return evaluate_items(value, old, path, pair, evaluation)
        return True

    return evaluate


def _fields_evaluator(
    fields: dict[str, Evaluate], each: Evaluate | None, known: frozenset[str], *, root: bool
) -> Evaluate:
    """Evaluate the rules of the fields of an object.

    `each` evaluates those that are not `known`.
    """
    unratcheted = frozenset({"apiVersion", "kind"}) if root else frozenset[str]()

    def evaluate(value: Any, old: Any, path: str, pair: Pair, evaluation: Evaluation) -> bool:
        for name, inner in value.items():
            sub = fields.get(name)
            if sub is None and each is not None and name not in known:
                sub, below = each, f"{path}[{name}]"
            else:
                below = f"{path}.{name}" if path else name
            if sub is not None:
                before = old_field(old, name)
                has_old = pair is not None and before is not UNCORRELATED and name not in unratcheted
                if not sub(inner, before, below, (inner, before) if has_old else pair, evaluation):
                    return False
        return True

    return evaluate


def _items_evaluator(item: Evaluate, correlate: Callable[[Any], Callable[[Any], Any]]) -> Evaluate:
    """Evaluate the rules of the items of a list, each with its old counterpart."""

    def evaluate(value: Any, old: Any, path: str, pair: Pair, evaluation: Evaluation) -> bool:
        find = correlate(old)
        for at, inner in enumerate(value):
            before = find(inner)
            ratchet = (inner, before) if pair is not None and before is not UNCORRELATED else pair
            if not item(inner, before, f"{path}[{at}]", ratchet, evaluation):
                return False
        return True

    return evaluate


def _fields(
    rules: dict[str, Any], node: dict[str, Any], type_: Type | None
) -> tuple[dict[str, Evaluate], Evaluate | None]:
    """Return the compiled rules of properties and of additional properties."""
    found: dict[str, Evaluate] = {}
    specified: dict[str, Any] = node.get("properties") or {}
    for name, sub in (rules.get("properties") or {}).items():
        if name not in specified:
            continue
        known = escaped(name)
        declared = (type_.fields or {}).get(known) if type_ is not None and known is not None else None
        embedded = bool(specified[name].get("x-kubernetes-embedded-resource"))
        if known is not None:
            inner = declared.type if declared is not None else None
        else:  # a field that expressions cannot name may still have rules
            inner = declare(specified[name], root=embedded)
        if inner is not None and (evaluate := _compile(sub, specified[name], inner, root=embedded)) is not None:
            found[name] = evaluate
    others, specified_others = rules.get("additionalProperties"), node.get("additionalProperties")
    if not isinstance(others, dict) or not isinstance(specified_others, dict):
        return found, None
    inner = type_.params[1] if type_ is not None and type_.kind == "map" else None
    embedded = bool(specified_others.get("x-kubernetes-embedded-resource"))
    return found, _compile(others, specified_others, inner, root=embedded)


def _own(schema: dict[str, Any], node: dict[str, Any], type_: Type | None, *, root: bool) -> Evaluate | None:
    """Compile the rules of the node itself."""
    sources: list[dict[str, Any]] = schema.get("x-kubernetes-validations") or []
    if not sources or type_ is None:
        return None
    rules = [compile_rule(one, type_, node) for one in sources]
    lift = compile_conversion(with_type_meta(node) if root else node)
    kind = str(node.get("type") or "")
    shows = kind not in {"object", "array"}

    def evaluate(value: Any, old: Any, path: str, pair: Pair, evaluation: Evaluation) -> bool:
        if evaluation.budget[0] <= 0:
            text = "validation failed due to running out of cost budget, no further validation rules will be run"
            evaluation.errors.append(invalid(path or "<nil>", kind, text))
            return False
        plain, optional = _bindings(lift, value, None if old is UNCORRELATED else old)
        for rule in rules:
            if rule.program is not None and rule.uses_old and "oldSelf" not in plain and not rule.has_optional_old:
                continue
            try:
                holds = _holds(rule, optional if rule.has_optional_old else plain, evaluation)
            except CostExceeded as error:
                text = f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: "
                evaluation.errors.append(invalid(path or "<nil>", kind, text + _shown(rule)))
                evaluation.budget[0] = -1
                return False
            except EvaluationError as error:
                evaluation.errors.append(invalid(path or "<nil>", kind, str(error)))
                continue
            if not holds:
                broken = _broken(rule, path, value if shows else _HIDDEN, plain, evaluation)
                is_ratcheted = pair is not None and not rule.uses_old and identical(*pair)
                if is_ratcheted:
                    evaluation.warnings.append(str(broken))
                else:
                    evaluation.errors.append(broken)
        return True

    return evaluate


def _holds(rule: Rule, bindings: dict[str, Any], evaluation: Evaluation) -> bool:
    """Return whether a rule holds.

    Raises EvaluationError with the text to show, and CostExceeded.
    """
    if rule.error:
        raise EvaluationError(f"rule compile error: {rule.error}")
    if rule.program is None:
        return True
    try:
        return rule.program.evaluate(bindings, evaluation.budget) is True
    except CostExceeded:
        raise
    except EvaluationError as error:
        raise EvaluationError(_failure(error, rule)) from None


def _bindings(lift: Convert | None, value: Any, old: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the variables of rules, and those of rules with an optional oldSelf."""
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


_HIDDEN: Final = object()
"""Stands for objects and lists, which errors do not show."""


def _broken(rule: Rule, path: str, value: Any, bindings: dict[str, Any], evaluation: Evaluation) -> FieldError:
    """Return the error of a rule that does not hold; `value` may be _HIDDEN."""
    shows = value is not _HIDDEN
    text = _message(rule, bindings, evaluation)
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


def _message(rule: Rule, bindings: dict[str, Any], evaluation: Evaluation) -> str:
    """Return the value of messageExpression; empty when it fails or cannot be shown."""
    if rule.message is None:
        return ""
    try:
        text = str(rule.message.evaluate(bindings, evaluation.budget)).strip()
    except EvaluationError:
        return ""
    return text if "\n" not in text and len(text.encode()) <= _LONGEST_MESSAGE else ""
