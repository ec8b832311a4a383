"""Macros: calls that the parser turns into nodes of their own (cel-spec "Macros", and cel-go's extensions)."""

from __future__ import annotations

from typing import Final

from volcanoio.model.cel.errors import Issue
from volcanoio.model.cel.nodes import Bind, Call, Ident, Loop, Node, Select

# Macros over a range: how many names, and how many expressions after them.
_LOOPS: Final[dict[tuple[str, int], int]] = {
    ("all", 2): 1,
    ("exists", 2): 1,
    ("exists_one", 2): 1,
    ("map", 2): 1,
    ("map", 3): 1,
    ("filter", 2): 1,
    ("sortBy", 2): 1,
    ("all", 3): 2,
    ("exists", 3): 2,
    ("exists_one", 3): 2,
    ("existsOne", 3): 2,
    ("transformList", 3): 2,
    ("transformList", 4): 2,
    ("transformMap", 3): 2,
    ("transformMap", 4): 2,
    ("transformMapEntry", 3): 2,
    ("transformMapEntry", 4): 2,
}
_SAME: Final = {"existsOne": "exists_one"}
_BINDS: Final = frozenset({"optMap", "optFlatMap"})


def expand(call: Call, issues: list[Issue], *, binds: bool = False) -> Node:
    """Expand a call that is a macro; other calls are returned unchanged. `binds`: `cel.bind` is one."""
    if binds and call.function == "bind" and len(call.args) == 3 and qualified_name(call.target) == "cel":
        return _bind(call, call.args, issues)
    if call.target is None:
        return _has(call, issues) if call.function == "has" and len(call.args) == 1 else call
    args = call.args
    if call.function in _BINDS and len(args) == 2:
        if not isinstance(args[0], Ident):
            text = f"{call.function}() variable name must be a simple identifier"
            issues.append(Issue(args[0].at, text))
            return call
        return Bind(call.at, call.function, args[0].name, call.target, args[1])
    names = _LOOPS.get((call.function, len(args)))
    return call if names is None else _loop(call, call.target, names, issues)


def _bind(call: Call, args: list[Node], issues: list[Issue]) -> Node:
    name, value, body = args
    if not isinstance(name, Ident):
        issues.append(Issue(name.at, "cel.bind() variable names must be simple identifiers"))
        return call
    return Bind(call.at, "bind", name.name, value, body)


def _loop(call: Call, target: Node, count: int, issues: list[Issue]) -> Node:
    found = []
    for one in call.args[:count]:
        if not isinstance(one, Ident):
            issues.append(Issue(one.at, "argument must be a simple name"))
            return call
        found.append(one.name)
    if len(set(found)) < count:
        issues.append(Issue(call.args[1].at, f"duplicate variable name: {found[1]}"))
    return Loop(call.at, _SAME.get(call.function, call.function), target, found, call.args[count:])


def _has(call: Call, issues: list[Issue]) -> Node:
    inner = call.args[0]
    if not isinstance(inner, Select) or inner.optional:
        issues.append(Issue(inner.at, "invalid argument to has() macro"))
        return call
    return Select(call.at, inner.operand, inner.field, test=True)


def qualified_name(node: Node | None) -> str:
    """Return `a.b.c` for selections from a variable; empty for other nodes."""
    match node:
        case Ident(name=name):
            return name
        case Select(operand=operand, field=name, test=False, optional=False):
            inner = qualified_name(operand)
            return f"{inner}.{name}" if inner else ""
    return ""
