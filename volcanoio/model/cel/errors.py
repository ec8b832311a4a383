"""Errors of expressions, at compilation and at evaluation."""

from __future__ import annotations

from typing import NamedTuple


class Issue(NamedTuple):
    """One error in an expression; `offset` counts characters from its start."""

    offset: int
    text: str


class CompileError(ValueError):
    """The expression is not valid CEL, or its types do not match.

    The text shows each place, as cel-go does.
    """

    def __init__(self, source: str, issues: list[Issue]) -> None:
        self.issues = sorted(dict.fromkeys(issues))
        super().__init__("\n".join(_shown(source, one) for one in self.issues))


class ResultError(CompileError):
    """The value has another type than it must have."""

    def __init__(self, found: object) -> None:
        super().__init__(str(found), [])
        self.args = (f"the value is a {found}",)


class InstantiationError(CompileError):
    """The expression is valid, but a conversion of a constant in it always fails."""

    def __init__(self, why: str) -> None:
        super().__init__(why, [])
        self.args = (why,)


class EvaluationError(Exception):
    """An evaluation failed: a missing key, a division by zero, an overload that does not exist."""


class CostExceeded(EvaluationError):  # noqa: N818 - named for what happened
    """The evaluation was stopped at its cost limit."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class NoSuchOverload(EvaluationError):  # noqa: N818 - named as in the specification
    """The function has no overload for these types."""

    def __init__(self) -> None:
        super().__init__("no such overload")


def _shown(source: str, issue: Issue) -> str:
    before = source[: issue.offset]
    line = before.count("\n")
    column = issue.offset - (before.rfind("\n") + 1)
    lines = source.split("\n")
    text = lines[line].replace("\t", " ") if line < len(lines) else ""
    return f"ERROR: <input>:{line + 1}:{column + 1}: {issue.text}\n | {text}\n | {'.' * column}^"
