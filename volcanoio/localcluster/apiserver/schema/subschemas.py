"""Compilation of the schemas directly within a schema: of its properties, other fields and items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Subschemas(NamedTuple, Generic[T]):
    """Compiled schemas within a schema; those that compile to None are left out."""

    fields: dict[str, T]
    others: T | None
    """For fields that are not among the properties."""
    items: T | None

    @property
    def is_empty(self) -> bool:
        """Whether no schema compiled to anything."""
        return not self.fields and self.others is None and self.items is None


def compile_subschemas(schema: dict[str, Any], compile_one: Callable[[dict[str, Any]], T | None]) -> Subschemas[T]:
    """Compile each schema within a schema."""
    properties, others, items = (schema.get(name) for name in ("properties", "additionalProperties", "items"))
    compiled = {name: compile_one(sub) for name, sub in (properties or {}).items()}
    return Subschemas(
        {name: one for name, one in compiled.items() if one is not None},
        compile_one(others) if isinstance(others, dict) else None,
        compile_one(items) if isinstance(items, dict) else None,
    )
