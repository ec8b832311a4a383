"""The Common Expression Language (github.com/google/cel-spec) as Kubernetes uses it.

Rules of CRDs, conditions of webhooks and selectors of devices are written in it. No library on PyPI checks expressions
against a schema and evaluates them on plain JSON with a cost limit.
`compile_expression(text, variables)` returns a Program; `program.evaluate(bindings)` returns its value, or raises
EvaluationError. Values are those of decoded JSON: dict, list, str, int, float, bool and None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from volcanoio.model.cel.check import Checker, conversion_error, literal_issues
from volcanoio.model.cel.cost import cost
from volcanoio.model.cel.errors import (
    CompileError,
    CostExceeded,
    EvaluationError,
    InstantiationError,
    Issue,
    ResultError,
)
from volcanoio.model.cel.evaluate import COST, Step, compile_node
from volcanoio.model.cel.parser import MAX_DEPTH, parse
from volcanoio.model.cel.types import BOOL, DYN, STRING, Type

__all__ = [
    "BOOL",
    "DYN",
    "STRING",
    "CompileError",
    "CostExceeded",
    "EvaluationError",
    "InstantiationError",
    "Program",
    "ResultError",
    "compile_expression",
]

CALL_LIMIT: Final = 1_000_000
"""Cost limit of one evaluation, in evaluated nodes (Kubernetes' PerCallLimit counts about the same)."""


class Program:
    """Compiled expression.

    The type of its value, the variables it uses, and its maximal cost (`most`).
    """

    __slots__ = ("_step", "most", "source", "type", "uses")

    def __init__(self, source: str, type_: Type, uses: frozenset[str], step: Step, most: float) -> None:
        self.source = source
        self.type = type_
        self.uses = uses
        self.most = most
        self._step = step

    def evaluate(self, bindings: Mapping[str, Any], budget: list[int] | None = None) -> Any:
        """Evaluate; raises EvaluationError, and CostExceeded above CALL_LIMIT or the budget.

        `budget` holds what several evaluations together may still cost, and is reduced.
        """
        limit = CALL_LIMIT if budget is None else min(CALL_LIMIT, budget[0])
        left = [limit]
        try:
            return self._step({**bindings, COST: left})
        except RecursionError:
            raise CostExceeded from None
        finally:
            if budget is not None:
                budget[0] -= limit - left[0] + 1


def compile_expression(
    source: str, variables: Mapping[str, Type], result: Type | None = None, *, binds: bool = False
) -> Program:
    """Compile an expression over some variables.

    `result` is the required type of its value, if any; `binds`: `cel.bind(name, value, body)` may be used.

    Raises CompileError, and its subclasses ResultError and InstantiationError for valid expressions that cannot be
    used.
    """
    try:
        return _compiled(source, variables, result, binds=binds)
    except RecursionError:
        text = f"expression recursion limit exceeded: {MAX_DEPTH}"
        raise CompileError(source, [Issue(0, text)]) from None


def _compiled(source: str, variables: Mapping[str, Type], result: Type | None, *, binds: bool) -> Program:
    node = parse(source, binds=binds)
    checker = Checker(variables)
    found = checker.check(node)
    issues = checker.issues or literal_issues(node, checker.resolved)
    if issues:
        raise CompileError(source, issues)
    if result is not None and found != result:
        raise ResultError(found)
    if why := conversion_error(node):
        raise InstantiationError(why)
    return Program(source, found, frozenset(checker.used), compile_node(node), cost(node))
