"""Constants that would fail at each evaluation are refused beforehand (cel-go's AST validators).

Durations, timestamps, patterns, lists and maps of one type, and what `format` is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from volcanoio.localcluster.apiserver.cel.errors import EvaluationError, Issue
from volcanoio.localcluster.apiserver.cel.functions.formatting import CLAUSE, clause_fault
from volcanoio.localcluster.apiserver.cel.functions.times import parse_duration, parse_timestamp
from volcanoio.localcluster.apiserver.cel.library import library
from volcanoio.localcluster.apiserver.cel.nodes import Bind, Call, ListNode, Literal, Loop, MapNode, Node, Select
from volcanoio.localcluster.apiserver.cel.types import Type, unwrapped
from volcanoio.localcluster.apiserver.schema.patterns import PatternError, compile_pattern

Resolve = Callable[[Type], Type]
"""From the type a node was given to the one it has."""

_PARSED: Final[dict[str, Callable[[str], object]]] = {
    "duration": parse_duration,
    "timestamp": parse_timestamp,
    "matches": compile_pattern,
}
_FOLDED: Final = frozenset({"bool", "bytes", "double", "int", "string", "uint"})


def literal_issues(node: Node, resolve: Resolve) -> list[Issue]:
    """What is wrong with the constants of a tree."""
    return list(_issues(node, resolve, mixed=False))


def fold_error(node: Node) -> str:
    """Why a conversion of a constant fails; nothing when all succeed."""
    for call in _calls(node):
        if call.function in {"find", "findAll"} and call.args and isinstance(call.args[0], Literal):
            try:
                compile_pattern(str(call.args[0].value))
            except PatternError as error:
                return str(error)
        argument = call.args[0] if len(call.args) == 1 and call.target is None else None
        if call.function in _FOLDED and isinstance(argument, Literal | Call):
            value = _constant(argument)
            try:
                if value is not _UNKNOWN:
                    library()[call.function].call(value)
            except EvaluationError as error:
                return str(error)
    return ""


_UNKNOWN: Final = object()


def _constant(node: Node) -> Any:
    """The value of a constant, or of a negated one."""
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, Call) and node.function == "-_" and isinstance(node.args[0], Literal):
        return -node.args[0].value
    return _UNKNOWN


def _issues(node: Node, resolve: Resolve, *, mixed: bool) -> Iterator[Issue]:
    match node:
        case Call(function="format", target=target, args=[ListNode() as values]):
            if isinstance(target, Literal) and isinstance(target.value, str):
                yield from _format_issues(node.at, target.value, values, resolve)
            mixed = True
        case Call(function=name, args=[*_, Literal(value=str(text)) as argument]) if name in _PARSED:
            try:
                _PARSED[name](text)
            except ValueError:
                yield Issue(argument.at, f"invalid {name} argument")
        case ListNode() if not mixed:
            yield from _mixed(node.items, node.optional, resolve)
        case MapNode() if not mixed:
            yield from _mixed([key for key, _ in node.entries], set(), resolve)
            yield from _mixed([value for _, value in node.entries], node.optional, resolve)
    for one in _children(node):
        yield from _issues(one, resolve, mixed=mixed)


def _mixed(items: list[Node], optional: set[int], resolve: Resolve) -> Iterator[Issue]:
    """The first item of another type than the first."""
    wanted: Type | None = None
    for at, one in enumerate(items):
        found = resolve(one.type)
        found = unwrapped(found) if at in optional else found
        if wanted is None:
            wanted = found
        elif found != wanted:
            yield Issue(one.at, f"expected type '{wanted}' but found '{found}'")
            return


def _format_issues(call: int, template: str, values: ListNode, resolve: Resolve) -> Iterator[Issue]:
    """Clauses without a value, or with one of a type they cannot print."""
    used = 0
    for match in CLAUSE.finditer(template):
        if match.group() == "%%":
            continue
        if used >= len(values.items):
            yield Issue(call, f"index {used} out of range")
            return
        value = values.items[used]
        used += 1
        fault = clause_fault(match[2], resolve(value.type))
        if fault:
            yield Issue(call if fault.startswith("could not parse") else value.at, fault)
            return


def _calls(node: Node) -> Iterator[Call]:
    if isinstance(node, Call):
        yield node
    for one in _children(node):
        yield from _calls(one)


def _children(node: Node) -> list[Node]:
    match node:
        case Select(operand=operand):
            return [operand]
        case Call(target=target, args=args):
            return [*([target] if target is not None else []), *args]
        case ListNode(items=items):
            return items
        case MapNode(entries=entries):
            return [one for pair in entries for one in pair]
        case Loop(range=range_, body=body):
            return [range_, *body]
        case Bind(value=value, body=body):
            return [value, body]
    return []
