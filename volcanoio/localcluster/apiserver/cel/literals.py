"""Constants that would fail at each evaluation are refused beforehand (cel-go's AST validators)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from volcanoio.localcluster.apiserver.cel.errors import Issue
from volcanoio.localcluster.apiserver.cel.functions.times import parse_duration, parse_timestamp
from volcanoio.localcluster.apiserver.cel.nodes import Bind, Call, ListNode, Literal, Loop, MapNode, Node, Select
from volcanoio.localcluster.apiserver.schema.patterns import compile_pattern


def literal_issues(node: Node) -> list[Issue]:
    """Durations, timestamps and patterns that are constants and do not parse."""
    found = []
    for call in _calls(node):
        checked = _CHECKED.get(call.function)
        argument = call.args[-1] if call.args else None
        if checked is None or not isinstance(argument, Literal) or not isinstance(argument.value, str):
            continue
        name, parse = checked
        try:
            parse(argument.value)
        except ValueError:
            found.append(Issue(argument.at, f"invalid {name} argument"))
    return found


_CHECKED: Final[dict[str, tuple[str, Callable[[str], object]]]] = {
    "duration": ("duration", parse_duration),
    "timestamp": ("timestamp", parse_timestamp),
    "matches": ("matches", compile_pattern),
}


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
