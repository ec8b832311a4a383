"""Static checks of a tree: types, names, and constants that would fail at each evaluation.

Texts and places are cel-go's (`checker/checker.go`, `checker/errors.go`). Constants are checked as by cel-go's AST
validators: durations, timestamps, patterns, lists and maps of one type, and the arguments of `format`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from volcanoio.model.cel.errors import EvaluationError, Issue
from volcanoio.model.cel.functions.strings import CLAUSE, clause_fault
from volcanoio.model.cel.functions.times import parse_duration, parse_timestamp
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
from volcanoio.model.cel.signatures import Function
from volcanoio.model.cel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    NULL,
    SIMPLE,
    Type,
    Unifier,
    is_optional,
    list_of,
    map_of,
    most_general,
    optional_of,
    type_of,
    unwrapped,
)
from volcanoio.model.validation.patterns import PatternError, compile_pattern

Resolve = Callable[[Type], Type]
"""Return the type of a node with its parameters resolved."""

_PARSED: Final[dict[str, Callable[[str], object]]] = {
    "duration": parse_duration,
    "timestamp": parse_timestamp,
    "matches": compile_pattern,
}
_FOLDED: Final = frozenset({"bool", "bytes", "double", "int", "string", "uint"})


def literal_issues(node: Node, resolve: Resolve) -> list[Issue]:
    """Return issues of the constants in a tree."""
    return list(_issues(node, resolve, mixed=False))


def conversion_error(node: Node) -> str:
    """Return the error of a conversion of a constant that fails; empty when all succeed."""
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
    """Return the value of a constant, or of a negated one."""
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
    """Yield the first item of another type than the first."""
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
    """Yield issues of format clauses whose value is missing or of an unsupported type."""
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


_OPAQUE: Final = (
    "kubernetes.Quantity", "kubernetes.URL", "kubernetes.NamedFormat", "kubernetes.Semver", "net.IP", "net.CIDR",
)  # fmt: skip
TYPE_NAMES: Final[dict[str, Type]] = {
    **{name: one for name, one in SIMPLE.items() if name not in {"dyn", "null", "timestamp", "duration"}},
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "null_type": NULL,
    "google.protobuf.Timestamp": SIMPLE["timestamp"],
    "google.protobuf.Duration": SIMPLE["duration"],
    **{name: Type("opaque", name) for name in _OPAQUE},
    "optional_type": optional_of(DYN),
}  # fmt: skip
"""Names that stand for types."""


class Checker:
    """Checker of one tree against the types of its variables.

    Collects `issues` and `used` variables.
    """

    def __init__(self, variables: Mapping[str, Type]) -> None:
        self._variables = variables
        self._scopes: list[dict[str, tuple[str, Type]]] = []
        self._types = Unifier()
        self._functions = library()
        self._slots = 0
        self.issues: list[Issue] = []
        self.used: set[str] = set()

    def check(self, node: Node) -> Type:
        """Return the type of the tree with parameters resolved, and set `type` on each node."""
        found = self._check(node)
        return self.resolved(found)

    def resolved(self, found: Type) -> Type:
        """Return the final type of a node; unresolved parameters become dyn."""
        return self._types.substitute(found, to_dyn=True)

    def _check(self, node: Node) -> Type:
        match node:
            case Literal():
                pass
            case Ident():
                node.type = self._ident(node)
            case Select():
                node.type = self._types.substitute(self._select(node))
            case Call():
                node.type = self._call(node)
            case ListNode():
                node.type = self._list(node)
            case MapNode():
                node.type = self._map(node)
            case Struct():
                self._issue(node.at, f"undeclared reference to '{node.name}' (in container '')")
                node.type = ERROR
            case Loop():
                node.type = self._loop(node)
            case Bind():
                node.type = self._bind(node)
        return node.type

    def _issue(self, at: int, text: str) -> None:
        self.issues.append(Issue(at, text))

    def _mismatch(self, node: Node, expected: Type, found: Type) -> None:
        wanted, given = (self._types.substitute(one) for one in (expected, found))
        self._issue(node.at, f"expected type '{wanted}' but found '{given}'")

    def _lookup(self, name: str) -> tuple[str, Type] | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        if name in self._variables:
            self.used.add(name)
            return name, self._variables[name]
        return None

    def _ident(self, node: Ident) -> Type:
        found = self._lookup(node.name)
        if found is not None:
            node.slot = found[0]
            return found[1]
        if node.name in TYPE_NAMES:
            return type_of(TYPE_NAMES[node.name])
        self._issue(node.at, f"undeclared reference to '{node.name}' (in container '')")
        return ERROR

    def _select(self, node: Select) -> Type:
        if not node.test and not node.optional and (name := qualified_name(node)) in TYPE_NAMES:
            return type_of(TYPE_NAMES[name])
        operand = self._types.substitute(self._check(node.operand))
        target = unwrapped(operand)
        node.key = node.field
        result = DYN
        if target.kind == "map":
            result = target.params[1]
        elif target.kind == "object":
            known = (target.fields or {}).get(node.field)
            if known is None:
                self._issue(node.at, f"undefined field '{node.field}'")
                result = ERROR
            else:
                node.key, result = known.key, known.type
        elif target.kind == "param":
            self._types.assignable(DYN, target)
        elif target.kind not in {"dyn", "error"}:
            self._issue(node.at, f"type '{target}' does not support field selection")
        if node.test:
            return BOOL
        return optional_of(result) if is_optional(operand) or node.optional else result

    def _call(self, node: Call) -> Type:
        for one in node.args:
            self._check(one)
        if node.target is not None and (name := qualified_name(node.target)):
            function = self._functions.get(f"{name}.{node.function}")
            if function is not None:
                node.function, node.target = function.name, None
                return self._resolve(node, function)
        if node.target is not None:
            self._check(node.target)
        if node.target is None and node.function in _BUILT_IN:
            return self._logic(node)
        function = self._functions.get(node.function)
        if function is None:
            self._issue(node.at, f"undeclared reference to '{node.function}' (in container '')")
            return ERROR
        return self._resolve(node, function)

    def _logic(self, node: Call) -> Type:
        if node.function == "_?_:_":
            condition, then, other = (one.type for one in node.args)
            param = self._types.variable()
            if self._types.all_assignable((condition, then, other), (BOOL, param, param)):
                return self._types.substitute(param)
            self._no_overload(node, node.function)
            return ERROR
        fits = True
        for one in node.args:
            if not self._types.assignable(one.type, BOOL):
                self._mismatch(one, BOOL, one.type)
                fits = False
        return BOOL if fits else ERROR

    def _resolve(self, node: Call, function: Function) -> Type:
        given = tuple(one.type for one in ([node.target] if node.target is not None else []) + node.args)
        result: Type | None = None
        for overload in function.overloads:
            if overload.member != (node.target is not None):
                continue
            own, *params = self._types.instance((overload.result, *overload.params))
            if not self._types.all_assignable(given, tuple(params)):
                continue
            found = self._types.substitute(own)
            if result is None:
                result = found
            elif result.kind != "dyn" and found != result:
                result = DYN
        if result is not None:
            return result
        self._no_overload(node, function.name)
        return ERROR

    def _no_overload(self, node: Call, name: str) -> None:
        args = [str(self._types.substitute(one.type, to_dyn=True)) for one in node.args]
        shown = f"({', '.join(args)})"
        if node.target is not None:
            shown = f"{self._types.substitute(node.target.type, to_dyn=True)}.{shown}"
        self._issue(node.at, f"found no matching overload for '{name}' applied to '{shown}'")

    def _list(self, node: ListNode) -> Type:
        joined: Type | None = None
        for at, one in enumerate(node.items):
            joined = self._join(joined, self._entry(one, optional=at in node.optional))
        return list_of(joined if joined is not None else self._types.variable())

    def _map(self, node: MapNode) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for at, (key, value) in enumerate(node.entries):
            keys = self._join(keys, self._check(key))
            values = self._join(values, self._entry(value, optional=at in node.optional))
        if keys is None or values is None:
            return map_of(self._types.variable(), self._types.variable())
        return map_of(keys, values)

    def _entry(self, node: Node, *, optional: bool) -> Type:
        found = self._check(node)
        if not optional:
            return found
        if not is_optional(found) and found.kind != "dyn":
            self._mismatch(node, optional_of(found), found)
        return unwrapped(found)

    def _join(self, before: Type | None, found: Type) -> Type:
        if before is None:
            return found
        return most_general(before, found) if self._types.assignable(before, found) else DYN

    def _range(self, node: Loop) -> list[Type]:
        """Return the types of the macro's variables."""
        given = self._types.substitute(self._check(node.range))
        pair = len(node.names) == 2
        if given.kind == "list":
            return [INT, given.params[0]] if pair else [given.params[0]]
        if given.kind == "map":
            return [given.params[0], given.params[1]] if pair else [given.params[0]]
        if given.kind in {"dyn", "error", "param"}:
            self._types.assignable(DYN, given)
            return [DYN] * len(node.names)
        text = f"expression of type '{given}' cannot be range of a comprehension (must be list, map, or dynamic)"
        self._issue(node.range.at, text)
        return [ERROR] * len(node.names)

    def _enter(self, names: list[str], types: list[Type]) -> list[str]:
        scope: dict[str, tuple[str, Type]] = {}
        slots: list[str] = []
        for name, one in zip(names, types, strict=True):
            self._slots += 1
            slots.append(f"{name}#{self._slots}")
            scope[name] = (slots[-1], one)
        self._scopes.append(scope)
        return slots

    def _loop(self, node: Loop) -> Type:
        node.slots = self._enter(node.names, self._range(node))
        body = [self._check(one) for one in node.body]
        self._scopes.pop()
        if node.macro in {"all", "exists", "exists_one"}:
            self._condition(node, node.body[0], BOOL)
            return BOOL
        if len(body) == 2:
            self._condition(node, node.body[0], body[1])
        result = self._types.substitute(body[-1])
        match node.macro:
            case "filter":
                self._condition(node, node.body[0], BOOL)
                return list_of(self._own(node))
            case "sortBy":
                given = self._types.substitute(node.range.type)
                return given if given.kind == "list" else list_of(DYN)
            case "transformMap":
                given = self._types.substitute(node.range.type)
                return map_of(given.params[0] if given.kind == "map" else INT, result)
            case "transformMapEntry":
                return result if result.kind == "map" else map_of(DYN, DYN)
        return list_of(result)

    def _own(self, node: Loop) -> Type:
        given = self._types.substitute(node.range.type)
        return given.params[0] if given.kind in {"list", "map"} else DYN

    def _condition(self, node: Loop, body: Node, result: Type) -> None:
        if self._types.assignable(body.type, BOOL):
            return
        if node.macro in {"all", "exists"}:
            self._mismatch(body, BOOL, body.type)
            return
        kept = INT if node.macro == "exists_one" else list_of(self._own(node) if node.macro == "filter" else result)
        shown = f"({self._types.substitute(body.type, to_dyn=True)}, {kept}, {kept})"
        self._issue(node.at, f"found no matching overload for '_?_:_' applied to '{shown}'")

    def _bind(self, node: Bind) -> Type:
        value = self._types.substitute(self._check(node.value))
        if node.macro == "bind":
            (node.slot,) = self._enter([node.name], [value])
            result = self._types.substitute(self._check(node.body))
            self._scopes.pop()
            return result
        if not is_optional(value) and value.kind not in {"dyn", "error"}:
            self._issue(node.at, f"found no matching overload for 'hasValue' applied to '{value}.()'")
        (node.slot,) = self._enter([node.name], [unwrapped(value)])
        result = self._types.substitute(self._check(node.body))
        self._scopes.pop()
        return optional_of(result) if node.macro == "optMap" else result


_BUILT_IN: Final = frozenset({"_&&_", "_||_", "_?_:_"})
