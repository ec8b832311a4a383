"""The syntax tree. `at` is the position for errors; the checker sets `type`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from volcanoio.model.cel.types import DYN, Type


@dataclass(slots=True)
class Literal:
    """A constant."""

    at: int
    value: Any
    type: Type


@dataclass(slots=True)
class Ident:
    """A variable; `slot` is its name in the bindings, unique also where a name shadows another."""

    at: int
    name: str
    slot: str = ""
    type: Type = DYN


@dataclass(slots=True)
class Select:
    """`operand.field`, `operand.?field`, or with `test` `has(operand.field)`.

    `key` is the field's name in the data.
    """

    at: int
    operand: Node
    field: str
    test: bool = False
    optional: bool = False
    key: str = ""
    type: Type = DYN


@dataclass(slots=True)
class Call:
    """`function(args)` or `target.function(args)`; operators have names such as `_+_`."""

    at: int
    function: str
    target: Node | None
    args: list[Node]
    type: Type = DYN


@dataclass(slots=True)
class ListNode:
    """`[a, ?b]`; `optional` has the positions of the optional items."""

    at: int
    items: list[Node]
    optional: set[int] = field(default_factory=set)
    type: Type = DYN


@dataclass(slots=True)
class MapNode:
    """`{k: v, ?k: v}`."""

    at: int
    entries: list[tuple[Node, Node]]
    optional: set[int] = field(default_factory=set)
    type: Type = DYN


@dataclass(slots=True)
class Struct:
    """`name{...}`: a message, of which Kubernetes declares none."""

    at: int
    name: str
    type: Type = DYN


@dataclass(slots=True)
class Loop:
    """A macro over a list or map: `range.macro(names..., body...)`."""

    at: int
    macro: str
    range: Node
    names: list[str]
    body: list[Node]
    slots: list[str] = field(default_factory=list)
    type: Type = DYN


@dataclass(slots=True)
class Bind:
    """`value.optMap(name, body)`, `value.optFlatMap(name, body)` or `cel.bind(name, value, body)`."""

    at: int
    macro: str
    name: str
    value: Node
    body: Node
    slot: str = ""
    type: Type = DYN


Node: TypeAlias = Literal | Ident | Select | Call | ListNode | MapNode | Struct | Loop | Bind
