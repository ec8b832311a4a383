"""Compiles a checked tree to closures over bindings; loops count their cost against the limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from volcanoio.model.cel.check import TYPE_NAMES
from volcanoio.model.cel.errors import CostExceeded, EvaluationError, NoSuchOverload
from volcanoio.model.cel.functions.lists import EMPTY_SUMS, sort_by
from volcanoio.model.cel.library import library
from volcanoio.model.cel.macros import qualified_name
from volcanoio.model.cel.nodes import (
    Bind,
    Call,
    Ident,
    ListNode,
    Literal,
    Loop,
    MapNode,
    Node,
    Select,
    Struct,
)
from volcanoio.model.cel.types import Type, unwrapped
from volcanoio.model.cel.values import NOTHING, DefaultMap, Optional, TypeValue

Bindings: TypeAlias = dict[str, Any]
Step: TypeAlias = Callable[[Bindings], Any]

COST: Final = "#cost"
"""Name of a binding: a list with the remaining budget, in evaluated nodes."""
_TRAVERSING: Final = frozenset(
    {
        "_+_", "_==_", "_!=_", "@in", "contains", "startsWith", "endsWith", "matches", "find", "findAll", "indexOf",
        "lastIndexOf", "replace", "split", "join", "lowerAscii", "upperAscii", "substring", "trim", "sum", "max", "min",
        "isSorted", "sort", "distinct", "flatten", "reverse", "slice", "sets.contains", "sets.equivalent",
        "sets.intersects", "format", "lists.range",
    }
)  # fmt: skip
"""Functions whose cost grows with their arguments: a tenth of each argument's length (as in cel-go)."""


def compile_node(node: Node) -> Step:
    """Return the closure of a node."""
    match node:
        case Literal(value=value):
            return lambda _: value
        case Ident():
            return _ident(node)
        case Select():
            return _select(node)
        case Call():
            return _call(node)
        case ListNode():
            return _list(node)
        case MapNode():
            return _map(node)
        case Loop():
            return _loop(node)
        case Bind():
            return _bind(node)
        case Struct():
            raise AssertionError("the checker refuses messages")


def _spend(env: Bindings, cost: int) -> None:
    left = env[COST]
    left[0] -= cost
    if left[0] < 0:
        raise CostExceeded


def _ident(node: Ident) -> Step:
    slot = node.slot
    if not slot:
        value = TypeValue(_type_name(TYPE_NAMES[node.name]))
        return lambda _: value

    def ident(env: Bindings) -> Any:
        try:
            return env[slot]
        except KeyError:
            raise EvaluationError(f"no such attribute(s): {slot}") from None

    return ident


def _type_name(one: Type) -> str:
    names = {"null": "null_type", "timestamp": "google.protobuf.Timestamp", "duration": "google.protobuf.Duration"}
    return names.get(one.kind, one.name)


def _select(node: Select) -> Step:
    if node.type.kind == "type" and not node.key:
        value = TypeValue(_type_name(TYPE_NAMES[qualified_name(node)]))
        return lambda _: value
    operand, key = compile_node(node.operand), node.key
    # in objects with known fields a null is a field that is not set
    nulls = unwrapped(node.operand.type).kind != "object"
    if node.test:
        return _has_field(operand, key, nulls=nulls)
    if node.optional:
        return lambda env: _maybe(operand(env), key, nulls=nulls)

    def select(env: Bindings) -> Any:
        found = operand(env)
        if type(found) is dict:
            value = found.get(key)
            if value is not None or (nulls and key in found):
                return value
        elif type(found) is Optional:
            return _maybe(found, key, nulls=nulls)
        elif type(found) is DefaultMap:
            return found.get(key, found.default)
        raise EvaluationError(f"no such key: {key}")

    return select


def _has_field(operand: Step, key: str, *, nulls: bool) -> Step:
    """Compile the macro `has`."""

    def test(env: Bindings) -> bool:
        found = operand(env)
        if type(found) is Optional:
            if not found.present:
                return False
            found = found.value
        if isinstance(found, dict):
            return key in found if nulls else found.get(key) is not None
        raise NoSuchOverload

    return test


def _maybe(found: Any, key: str, *, nulls: bool) -> Optional:
    if type(found) is Optional:
        if not found.present:
            return NOTHING
        found = found.value
    if not isinstance(found, dict):
        raise NoSuchOverload
    value = found.get(key)
    return Optional(present=True, value=value) if value is not None or (nulls and key in found) else NOTHING


def _call(node: Call) -> Step:
    steps = [compile_node(one) for one in ([node.target] if node.target is not None else []) + node.args]
    if node.target is None:
        match node.function:
            case "_&&_":
                return _short(steps[0], steps[1], decides=False)
            case "_||_":
                return _short(steps[0], steps[1], decides=True)
            case "_?_:_":
                return _conditional(*steps)
    call = library()[node.function].call
    if node.function == "sum" and node.target is not None:
        call = _sum(call, node.target.type)
    if node.function in _TRAVERSING:
        return _traversing(call, steps)
    if node.function[0].isalpha():
        call = _named(node.function, call)
    match steps:
        case [one]:
            return lambda env: call(one(env))
        case [one, other]:
            return lambda env: call(one(env), other(env))
    return lambda env: call(*[step(env) for step in steps])


def _named(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the implementation, with the function's name in its errors."""

    def run(*values: Any) -> Any:
        try:
            return call(*values)
        except NoSuchOverload:
            raise EvaluationError(f"no such overload: {name}") from None

    return run


def _sum(call: Callable[..., Any], items: Type) -> Callable[..., Any]:
    empty = EMPTY_SUMS.get(items.params[0].kind, 0) if items.params else 0
    return lambda values: call(values) if values else empty


def _traversing(call: Callable[..., Any], steps: list[Step]) -> Step:
    def run(env: Bindings) -> Any:
        values = [step(env) for step in steps]
        size = 0
        for one in values:
            if isinstance(one, str | list | dict | bytes):
                size += len(one)
        if size > 100:
            _spend(env, size // 10)
        return call(*values)

    return run


def _short(left: Step, right: Step, *, decides: bool) -> Step:
    """Compile `&&` or `||`: an error on one side is ignored when the other side decides."""

    def run(env: Bindings) -> Any:
        try:
            value = left(env)
        except CostExceeded:
            raise
        except EvaluationError:
            if right(env) is decides:
                return decides
            raise
        if value is decides:
            return decides
        other = right(env)
        if other is decides:
            return decides
        if type(value) is not bool or type(other) is not bool:
            raise NoSuchOverload
        return not decides

    return run


def _conditional(condition: Step, then: Step, other: Step) -> Step:
    def run(env: Bindings) -> Any:
        value = condition(env)
        if value is True:
            return then(env)
        if value is False:
            return other(env)
        raise NoSuchOverload

    return run


def _list(node: ListNode) -> Step:
    steps, optional = [compile_node(one) for one in node.items], node.optional
    if not optional:
        return lambda env: [step(env) for step in steps]

    def run(env: Bindings) -> list[Any]:
        found = []
        for at, step in enumerate(steps):
            value = step(env)
            if at not in optional:
                found.append(value)
            elif value.present:
                found.append(value.value)
        return found

    return run


def _map(node: MapNode) -> Step:
    steps, optional = [(compile_node(key), compile_node(value)) for key, value in node.entries], node.optional

    def run(env: Bindings) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for at, (key_step, value_step) in enumerate(steps):
            key, value = key_step(env), value_step(env)
            if at not in optional:
                found[key] = value
            elif value.present:
                found[key] = value.value
        return found

    return run


def _size(node: Node) -> int:
    """Return the number of nodes of a tree."""
    match node:
        case Select(operand=operand):
            return 1 + _size(operand)
        case Call(target=target, args=args):
            return 1 + sum(_size(one) for one in ([target] if target is not None else []) + args)
        case ListNode(items=items):
            return 10 + sum(_size(one) for one in items)
        case MapNode(entries=entries):
            return 30 + sum(_size(key) + _size(value) for key, value in entries)
        case Bind(value=value, body=body):
            return 1 + _size(value) + _size(body)
        case Loop(range=range_):
            return 1 + _size(range_)
    return 1


def _bind(node: Bind) -> Step:
    value_step, body, slot, macro = compile_node(node.value), compile_node(node.body), node.slot, node.macro

    def bound(env: Bindings) -> Any:
        env[slot] = value_step(env)
        return body(env)

    def optional(env: Bindings) -> Any:
        value = value_step(env)
        if type(value) is not Optional:
            raise NoSuchOverload
        if not value.present:
            return NOTHING
        env[slot] = value.value
        result = body(env)
        return Optional(present=True, value=result) if macro == "optMap" else result

    return bound if macro == "bind" else optional


def _loop(node: Loop) -> Step:
    """Compile a macro that binds its variables for each item and counts the cost of each turn."""
    range_step, body = compile_node(node.range), [compile_node(one) for one in node.body]
    cost = 2 + sum(_size(one) for one in node.body)
    first, second = node.slots[0], node.slots[1] if len(node.slots) == 2 else ""

    def turns(env: Bindings) -> Iterable[Any]:
        """Bind the variables for each turn and yield the bindings."""
        values = range_step(env)
        if isinstance(values, list):
            pairs: Iterable[tuple[Any, Any]] = enumerate(values)
        elif isinstance(values, dict):
            pairs = values.items()
        else:
            raise NoSuchOverload
        by_key = bool(second) or isinstance(values, dict)
        left = env[COST]
        for key, value in pairs:
            left[0] -= cost
            if left[0] < 0:
                raise CostExceeded
            env[first] = one = key if by_key else value
            if second:
                env[second] = value
            yield one

    return _MACROS[node.macro](turns, body)


Turns: TypeAlias = Callable[[Bindings], Iterable[Any]]


def _quantifier(*, decides: bool) -> Callable[[Turns, list[Step]], Step]:
    """Compile `all` or `exists`: errors are ignored when another item decides."""

    def make(turns: Turns, body: list[Step]) -> Step:
        (condition,) = body

        def run(env: Bindings) -> Any:
            failed: EvaluationError | None = None
            for _ in turns(env):
                try:
                    value = condition(env)
                except CostExceeded:
                    raise
                except EvaluationError as error:
                    failed = error
                    continue
                if value is decides:
                    return decides
                if type(value) is not bool:
                    failed = NoSuchOverload()
            if failed is not None:
                raise failed
            return not decides

        return run

    return make


def _holds(value: Any) -> bool:
    if type(value) is not bool:
        raise NoSuchOverload
    return bool(value)


def _exists_one(turns: Turns, body: list[Step]) -> Step:
    (condition,) = body
    return lambda env: sum(_holds(condition(env)) for _ in turns(env)) == 1


def _filter(turns: Turns, body: list[Step]) -> Step:
    (condition,) = body
    return lambda env: [one for one in turns(env) if _holds(condition(env))]


def _transform(turns: Turns, body: list[Step]) -> Step:
    """Compile `map` or `transformList`, with or without a condition."""
    if len(body) == 1:
        (result,) = body
        return lambda env: [result(env) for _ in turns(env)]
    condition, result = body
    return lambda env: [result(env) for _ in turns(env) if _holds(condition(env))]


def _transform_map(turns: Turns, body: list[Step]) -> Step:
    *conditions, result = body
    return lambda env: {key: result(env) for key in turns(env) if all(_holds(one(env)) for one in conditions)}


def _transform_entries(turns: Turns, body: list[Step]) -> Step:
    *conditions, result = body

    def run(env: Bindings) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for _ in turns(env):
            if not all(_holds(one(env)) for one in conditions):
                continue
            for key, value in result(env).items():
                if key in found:
                    raise EvaluationError(f"insert failed: key {key} already exists")
                found[key] = value
        return found

    return run


def _sort_by(turns: Turns, body: list[Step]) -> Step:
    (key,) = body

    def run(env: Bindings) -> list[Any]:
        items: list[Any] = []
        keys: list[Any] = []
        for one in turns(env):
            items.append(one)
            keys.append(key(env))
        return sort_by(items, keys)

    return run


_MACROS: Final[dict[str, Callable[[Turns, list[Step]], Step]]] = {
    "all": _quantifier(decides=False),
    "exists": _quantifier(decides=True),
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _transform,
    "transformList": _transform,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_entries,
    "sortBy": _sort_by,
}
