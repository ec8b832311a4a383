"""CEL's types, as far as Kubernetes uses them, and assignability (cel-spec, "Type checking")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple


class Field(NamedTuple):
    """Field of an object type.

    Its key in the data, which may need escaping to be an identifier, and its type.
    """

    key: str
    type: Type


@dataclass(frozen=True, slots=True)
class Type:
    """A type. `kind` determines the meaning of `params` and `fields`.

    Lists, maps, types and opaque types have parameters. Objects have fields and are equal by name; a `param` stands for
    any type within one function signature.
    """

    kind: str
    name: str
    params: tuple[Type, ...] = ()
    fields: Mapping[str, Field] | None = field(default=None, compare=False, repr=False)
    most: int | None = field(default=None, compare=False, repr=False)
    """Maximal number of items or characters of a value, where it is known."""
    least: int = field(default=1, compare=False, repr=False)
    """Minimal number of bytes of a value as JSON."""

    def __str__(self) -> str:
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(str(one) for one in self.params)})"


def _simple(name: str) -> Type:
    return Type(name, name)


DYN: Final = _simple("dyn")
ERROR: Final = Type("error", "!error!")
NULL: Final = _simple("null")
BOOL: Final = _simple("bool")
INT: Final = _simple("int")
UINT: Final = _simple("uint")
DOUBLE: Final = _simple("double")
STRING: Final = _simple("string")
BYTES: Final = _simple("bytes")
TIMESTAMP: Final = _simple("timestamp")
DURATION: Final = _simple("duration")
TYPE: Final = _simple("type")

SIMPLE: Final = {
    one.name: one for one in (DYN, NULL, BOOL, INT, UINT, DOUBLE, STRING, BYTES, TIMESTAMP, DURATION, TYPE)
}
_NULLABLE: Final = frozenset({"opaque", "object", "timestamp", "duration", "null"})


def list_of(item: Type) -> Type:
    """Return the type `list(item)`."""
    return Type("list", "list", (item,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type `map(key, value)`."""
    return Type("map", "map", (key, value))


def type_of(inner: Type) -> Type:
    """Return the type of a type."""
    return Type("type", "type", (inner,))


def opaque(name: str, *params: Type) -> Type:
    """Return a type that only functions can read."""
    return Type("opaque", name, params)


def optional_of(inner: Type) -> Type:
    """Return the type `optional_type(inner)`."""
    return opaque("optional_type", inner)


def object_of(name: str, fields: Mapping[str, Field]) -> Type:
    """Return an object with known fields, by their (escaped) names."""
    return Type("object", name, (), fields)


def is_optional(one: Type) -> bool:
    """Return whether the type is `optional_type(...)`."""
    return one.kind == "opaque" and one.name == "optional_type"


def unwrapped(one: Type) -> Type:
    """Return the type inside an optional; other types are returned unchanged."""
    return one.params[0] if is_optional(one) else one


class Unifier:
    """Bindings of type parameters found so far."""

    def __init__(self) -> None:
        self._bound: dict[Type, Type] = {}
        self._fresh = 0

    def variable(self) -> Type:
        """Return a fresh unbound parameter."""
        self._fresh += 1
        return Type("param", f"_var{self._fresh - 1}")

    def instance(self, params: tuple[Type, ...]) -> tuple[Type, ...]:
        """Return the same signature with fresh parameters."""
        fresh: dict[Type, Type] = {}
        return tuple(self._renamed(one, fresh) for one in params)

    def _renamed(self, one: Type, fresh: dict[Type, Type]) -> Type:
        if one.kind == "param":
            if one not in fresh:
                fresh[one] = self.variable()
            return fresh[one]
        if not one.params:
            return one
        return Type(one.kind, one.name, tuple(self._renamed(inner, fresh) for inner in one.params), one.fields)

    def substitute(self, one: Type, *, to_dyn: bool = False) -> Type:
        """Return the type with bound parameters replaced; unbound ones become dyn on request."""
        if one in self._bound:
            return self.substitute(self._bound[one], to_dyn=to_dyn)
        if one.kind == "param":
            return DYN if to_dyn else one
        if not one.params:
            return one
        inner = tuple(self.substitute(param, to_dyn=to_dyn) for param in one.params)
        return Type(one.kind, one.name, inner, one.fields, one.most, one.least)

    def assignable(self, first: Type, second: Type) -> bool:
        """Return whether the second type is assignable to the first; binds parameters only then."""
        return self.all_assignable((first,), (second,))

    def all_assignable(self, first: tuple[Type, ...], second: tuple[Type, ...]) -> bool:
        """Return whether all types are assignable, pair by pair."""
        if len(first) != len(second):
            return False
        before = dict(self._bound)
        if all(self._fits(one, other) for one, other in zip(first, second, strict=True)):
            return True
        self._bound = before
        return False

    def _fits(self, one: Type, other: Type) -> bool:
        if other.kind == "param":
            fits, known = self._binds(one, other)
            if fits or known:
                return fits
        if one.kind == "param":
            return self._binds(other, one)[0]
        if {one.kind, other.kind} & {"dyn", "error"}:
            return True
        if one.kind == "null":
            return other.kind in _NULLABLE
        if other.kind == "null":
            return one.kind in _NULLABLE
        if one.kind == "type":
            return other.kind == "type"
        if one.kind in {"opaque", "list", "map"}:
            same = one.kind == other.kind and one.name == other.name and len(one.params) == len(other.params)
            return same and all(self._fits(a, b) for a, b in zip(one.params, other.params, strict=True))
        return one == other

    def _binds(self, one: Type, param: Type) -> tuple[bool, bool]:
        """Return whether `one` can be bound to the parameter, and whether it was bound before."""
        if one == param:
            return True, True
        known = self._bound.get(param)
        if known is not None:
            if one == known:
                return True, True
            if self._fits(one, known):
                general = most_general(one, known)
                if not self._occurs(param, general):
                    self._bound[param] = general
                return True, True
            return False, True
        if self._occurs(param, one):
            return False, False
        self._bound[param] = one
        return True, False

    def _occurs(self, param: Type, within: Type) -> bool:
        if param == within:
            return True
        if within in self._bound:
            return self._occurs(param, self._bound[within])
        return any(self._occurs(param, one) for one in within.params)


def most_general(one: Type, other: Type) -> Type:
    """Return the more general of two types that fit each other."""
    return one if _less_specific(one, other) else other


def _less_specific(one: Type, other: Type) -> bool:
    if one.kind in {"dyn", "param"}:
        return True
    if other.kind in {"dyn", "param"} or one.kind != other.kind:
        return False
    if one.kind in {"opaque", "list", "map"}:
        same = one.name == other.name and len(one.params) == len(other.params)
        return same and all(_less_specific(a, b) for a, b in zip(one.params, other.params, strict=True))
    return one.kind == "type" or one == other
