"""The Common Expression Language (github.com/google/cel-spec) as Kubernetes uses it.

Its own, since no library on PyPI checks expressions against a schema and evaluates them on plain JSON within a bound:
`compile_expression(text, variables)` gives a Program; `program.evaluate(bindings)` its value.

    program = compile_expression("object.metadata.name.startsWith('a')", {"object": DYN})
    program.evaluate({"object": {...}})  # True, or EvaluationError

Values are those of decoded JSON: dict, list, str, int, float, bool and None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from volcanoio.localcluster.apiserver.cel.check import Checker
from volcanoio.localcluster.apiserver.cel.cost import cost
from volcanoio.localcluster.apiserver.cel.errors import (
    CompileError,
    CostExceeded,
    EvaluationError,
    InstantiationError,
    Issue,
    ResultError,
)
from volcanoio.localcluster.apiserver.cel.evaluate import COST, Step, compile_node
from volcanoio.localcluster.apiserver.cel.literals import fold_error, literal_issues
from volcanoio.localcluster.apiserver.cel.parser import MAX_DEPTH, parse
from volcanoio.localcluster.apiserver.cel.types import BOOL, DYN, STRING, Type

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
"""What one evaluation may cost, in nodes evaluated (Kubernetes' PerCallLimit counts about the same)."""


class Program:
    """A compiled expression. `type` is that of its value, `uses` the variables it reads, `most` its cost at worst."""

    __slots__ = ("_step", "most", "source", "type", "uses")

    def __init__(self, source: str, type_: Type, uses: frozenset[str], step: Step, most: float) -> None:
        self.source = source
        self.type = type_
        self.uses = uses
        self.most = most
        self._step = step

    def evaluate(self, bindings: Mapping[str, Any], budget: list[int] | None = None) -> Any:
        """The value; raises EvaluationError, and CostExceeded when more than CALL_LIMIT or the budget would be spent.

        `budget` holds what may be spent by several evaluations together, and is lowered.
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


def compile_expression(source: str, variables: Mapping[str, Type], result: Type | None = None) -> Program:
    """Compile and check an expression over some variables, with the type its value must have if that is given.

    Raises CompileError, or the kinds of it for what is valid but no use: ResultError, InstantiationError.
    """
    try:
        return _compiled(source, variables, result)
    except RecursionError:
        text = f"expression recursion limit exceeded: {MAX_DEPTH}"
        raise CompileError(source, [Issue(0, text)]) from None


def _compiled(source: str, variables: Mapping[str, Type], result: Type | None) -> Program:
    node = parse(source)
    checker = Checker(variables)
    found = checker.check(node)
    issues = checker.issues or literal_issues(node, checker.resolved)
    if issues:
        raise CompileError(source, issues)
    if result is not None and found != result:
        raise ResultError(found)
    if why := fold_error(node):
        raise InstantiationError(why)
    return Program(source, found, frozenset(checker.used), compile_node(node), cost(node))
