"""Ownership types of values: by field, by item, or atomic.

Kubernetes: `x-kubernetes-list-type`, `x-kubernetes-map-type`.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

from volcanoio.localcluster.apiserver.apply import field_sets

Scalar: TypeAlias = Literal["", "numeric", "string", "boolean", "untyped"]
ListKind: TypeAlias = Literal["", "atomic", "set", "map"]
Shape: TypeAlias = Literal["map", "scalar", "list", "none"]


class Absent:
    """Marker for the value of a missing field."""


ABSENT: Final = Absent()


class Type(msgspec.Struct, eq=False):
    """The allowed values and their ownership.

    Several of `scalar`, `is_map` and `list_kind` may be possible.

    `fields` are the declared ones, `others` is the type of all others (None: not allowed). `present` are the
    values of
    unset fields that Go always writes; `omitted` are fields that Go leaves out when they are zero or empty. `keys`
    are
    the key fields of list items, `key_defaults` the values of missing ones.
    """

    scalar: Scalar = ""
    is_map: bool = False
    fields: dict[str, Type] = {}
    others: Type | None = None
    atomic_map: bool = False
    omitted: frozenset[str] = frozenset()
    present: dict[str, Any] = {}
    list_kind: ListKind = ""
    items: Type | None = None
    keys: tuple[str, ...] = ()
    key_defaults: dict[str, Any] = {}

    def field(self, name: str) -> Type:
        """Return the type of a field; undeclared fields have a deduced type."""
        return self.fields.get(name) or self.others or DEDUCED

    def shape(self, value: Any) -> Shape:
        """Return the shape of a value; the type's first shape for null and for other values."""
        if isinstance(value, dict):
            if self.is_map:
                return "map"
        elif isinstance(value, list):
            if self.list_kind:
                return "list"
        elif value is not None and self.scalar:
            return "scalar"
        if self.is_map:
            return "map"
        if self.scalar:
            return "scalar"
        return "list" if self.list_kind else "none"

    def step(self, value: Any) -> str:
        """Return the step to an item of a list of this type.

        Raises ValueError for an item without its keys.
        """
        if self.list_kind == "set":
            if isinstance(value, dict | list) or value is None:
                raise ValueError(_NO_MEMBER[type(value)])
            return field_sets.member(value)
        if not isinstance(value, dict):
            null = "associative list with keys may not have a null element"
            raise ValueError(null if value is None else "associative list with keys may not have non-map elements")
        if len(self.keys) == 1 and (name := value.get(self.keys[0])).__class__ is str:
            return field_sets.named_item(self.keys[0], name)
        found = {}
        for key in self.keys:
            if key in value:
                found[key] = value[key]
            elif (default := self.key_defaults.get(key)) is not None:
                found[key] = default
        if not found:
            names = "[" + " ".join(f'"{key}"' for key in self.keys) + "]"
            raise ValueError(
                f"associative list with keys has an element that omits all key fields {names} "
                "(and doesn't have default values for any key fields)"
            )
        return field_sets.item(found)

    def steps(self, values: list[Any]) -> list[str]:
        """Return the steps to the items of a list; raises ValueError."""
        return [self.step(value) for value in values]


_NO_MEMBER: Final[dict[type, str]] = {
    dict: "associative list without keys has an element that's a map type",
    list: "not supported: associative list with lists as elements",
    type(None): "associative list without keys has an element that's an explicit null",
}

UNTYPED: Final = Type(scalar="untyped", is_map=True, atomic_map=True, list_kind="atomic")
"""Any value, atomic."""
UNTYPED.others = UNTYPED
UNTYPED.items = UNTYPED

DEDUCED: Final = Type(scalar="untyped", is_map=True, list_kind="atomic", items=UNTYPED)
"""Any value: objects by field, lists atomic."""
DEDUCED.others = DEDUCED


def is_deduced_map(type_: Type) -> bool:
    """Return whether the object has no declared fields and accepts any."""
    return type_.others is DEDUCED and not type_.fields
