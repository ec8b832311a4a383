"""Maximal cost of an expression, from the sizes that its schema allows.

cel-go `checker/cost.go`, Kubernetes' `cel/library/cost.go`. One unit is about the cost of reading a field.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from volcanoio.model.cel.nodes import Bind, Call, Ident, ListNode, Literal, Loop, MapNode, Node, Select
from volcanoio.model.cel.types import Type, unwrapped

_TRAVERSAL: Final = 0.1
_REGEX: Final = 0.25
_LIST: Final = 10
_MAP: Final = 30
_SCALARS: Final = frozenset(
    {"bool", "int", "uint", "double", "timestamp", "duration", "null", "type", "opaque", "object"}
)
_COMPARED: Final = frozenset({"_==_", "_!=_"})
_ORDERED: Final = frozenset({"_<_", "_<=_", "_>_", "_>=_"})
_READ: Final = frozenset({"url", "cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"})
"""Functions that read their argument once."""
_SETS: Final = frozenset({"sets.contains", "sets.intersects", "sets.equivalent"})
_WALKED: Final = frozenset({"lowerAscii", "upperAscii", "substring", "trim"})
"""Functions that read their target once, and return as much."""
_KEPT: Final = _WALKED | {"reverse", "flatten", "distinct", "sort", "slice", "replace", "sortBy"}
"""Functions that return no more than their target has."""


def cost(node: Node) -> float:
    """Return the maximal cost of an evaluation; infinite where a size has no bound."""
    match node:
        case Literal():
            return 0
        case Ident():
            return 1
        case Select():
            if node.test:
                return cost(node.operand)
            inside = unwrapped(node.operand.type).kind in {"map", "object", "param"}
            return cost(node.operand) + inside
        case Call():
            return _call(node)
        case ListNode():
            return _LIST + sum(cost(one) for one in node.items)
        case MapNode():
            return _MAP + sum(cost(key) + cost(value) for key, value in node.entries)
        case Loop():
            return _loop(node)
        case Bind():
            return cost(node.value) + cost(node.body) + 4
    return 0


def size(node: Node) -> float:
    """Return the maximal number of items or characters of the value."""
    match node:
        case Literal(value=value):
            return len(value) if isinstance(value, str | bytes) else 1
        case ListNode():
            return len(node.items)
        case MapNode():
            return len(node.entries)
        case Loop():
            return 1 if node.macro in {"all", "exists", "exists_one"} else size(node.range)
        case Call():
            return _result(node)
    return _of_type(node.type)


def _of_type(type_: Type) -> float:
    if type_.most is not None:
        return type_.most
    return 1 if type_.kind in _SCALARS else math.inf


def _result(node: Call) -> float:
    """Return the maximal size of a call's result."""
    match node.function:
        case "_+_":
            one, other = node.args
            return size(one) + size(other) if node.type.kind in {"string", "bytes", "list", "dyn"} else 1
        case "_?_:_":
            return max(size(node.args[1]), size(node.args[2]))
        case "dyn" | "string" | "bytes":
            return size(node.args[0])
        case "split" if node.target is not None:
            limit = node.args[1] if len(node.args) > 1 else None
            return float(limit.value) if isinstance(limit, Literal) else size(node.target)
        case "find" | "findAll" if node.target is not None:
            return size(node.target)
        case name if name in _KEPT and node.target is not None:
            return size(node.target)
    return _of_type(node.type)


def _scaled(amount: float, factor: float) -> float:
    return math.ceil(amount * factor) if math.isfinite(amount) else amount


def _times(one: float, other: float) -> float:
    return 0 if 0 in {one, other} else one * other


def _call(node: Call) -> float:
    arguments = sum(cost(one) for one in node.args)
    if node.function == "_?_:_":
        condition, then, other = (cost(one) for one in node.args)
        return condition + max(then, other)
    if node.function in {"_&&_", "_||_"}:
        return arguments
    if node.function == "dyn":
        return arguments + 1
    target = cost(node.target) if node.target is not None else 0
    return target + arguments + _function(node)


def _function(node: Call) -> float:
    """Return the cost of the function itself."""
    name, args, target = node.function, node.args, node.target
    texts = bool(args) and args[0].type.kind in {"string", "bytes", "dyn"}
    if name in _COMPARED or (name in _ORDERED and texts):
        return _scaled(min(size(args[0]), size(args[1])), _TRAVERSAL)
    if name == "_+_" and node.type.kind in {"string", "bytes", "dyn"}:
        return _scaled(size(args[0]) + size(args[1]), _TRAVERSAL)
    if name == "@in":
        return size(args[1]) if args[1].type.kind == "list" else 1
    if name in _SETS and len(args) > 1:
        return _times(size(args[0]), size(args[1]))
    if name in _READ and args:
        return _scaled(size(args[0]), _TRAVERSAL)
    if target is not None:
        counted = _TARGETED.get(name)
        if counted is not None:
            return counted(target, args)
    return 1


def _matches(target: Node, args: list[Node]) -> float:
    return _times(_scaled(size(target) + 1, _TRAVERSAL), _scaled(size(args[0]), _REGEX))


def _contains(target: Node, args: list[Node]) -> float:
    return _times(_scaled(size(target), _TRAVERSAL), _scaled(size(args[0]), _TRAVERSAL))


def _starts(_: Node, args: list[Node]) -> float:
    return _scaled(size(args[0]), _TRAVERSAL)


def _walks(target: Node, _: list[Node]) -> float:
    return _scaled(size(target), _TRAVERSAL)


def _walks_twice(target: Node, _: list[Node]) -> float:
    return _scaled(size(target), 2 * _TRAVERSAL)


def _compares(target: Node, _: list[Node]) -> float:
    """Return the cost of comparing each item with the others."""
    if target.type.kind != "list":
        return _scaled(size(target), _TRAVERSAL)
    item = target.type.params[0]
    each = 1 + (_scaled(_of_type(item), _TRAVERSAL) if item.kind in {"string", "bytes"} else 0)
    return _times(size(target), each)


def _squared(target: Node, _: list[Node]) -> float:
    return _times(size(target), size(target))


def _validates(_: Node, args: list[Node]) -> float:
    """Return the cost of a named format: a pattern of up to 128 characters."""
    return _times(_scaled(size(args[0]), _TRAVERSAL), 128 * _REGEX)


def _joins(target: Node, args: list[Node]) -> float:
    item = _of_type(target.type.params[0]) if target.type.params else math.inf
    count = size(target)
    total = _times(count, item) + (_times(size(args[0]), max(count - 1, 0)) if args else 0)
    return _scaled(total, _TRAVERSAL)


_TARGETED: Final[dict[str, Callable[[Node, list[Node]], float]]] = {
    "matches": _matches,
    "find": _matches,
    "findAll": _matches,
    "contains": _contains,
    "startsWith": _starts,
    "endsWith": _starts,
    "format": _walks,
    "replace": _walks_twice,
    "split": _walks_twice,
    "join": _joins,
    "validate": _validates,
    **dict.fromkeys(("distinct", "sort", "@sortByAssociatedKeys"), _squared),
    **dict.fromkeys(_WALKED, _walks),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _compares),
}

_TURNS: Final[dict[str, tuple[float, float, float]]] = {
    "all": (0, 3, 1),
    "exists": (0, 4, 1),
    "exists_one": (0, 2, 2),
    "filter": (_LIST, 13, 1),
    "map": (_LIST, 12, 1),
    "transformList": (_LIST, 12, 1),
    "transformMap": (_MAP, 3, 1),
    "transformMapEntry": (_MAP, 3, 1),
    "sortBy": (_LIST, 13, 1),
}
"""Cost of a macro before the loop, in each turn besides its expressions, and after."""


def _loop(node: Loop) -> float:
    before, turn, after = _TURNS[node.macro]
    body = sum(cost(one) for one in node.body)
    count = size(node.range)
    sorting = _times(count, count) if node.macro == "sortBy" else 0
    return cost(node.range) + before + _times(count, turn + body) + after + sorting
