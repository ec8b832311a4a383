"""Sums of amounts by resource, in which what comes to nothing is left out."""

from __future__ import annotations

from collections.abc import Mapping


def add_amounts(into: dict[str, int], other: Mapping[str, int], times: int) -> None:
    """Add `other` so many times (1; -1 takes it away); names that reach zero are dropped."""
    get = into.get
    for name, amount in other.items():
        value = get(name, 0) + times * amount
        if value:
            into[name] = value
        else:
            into.pop(name, None)


def add_to_each(amounts_of: Mapping[str, int], times: int, *into: dict[str, int]) -> None:
    """`add_amounts` to several at once."""
    for name, amount in amounts_of.items():
        change = times * amount
        for each in into:
            value = each.get(name, 0) + change
            if value:
                each[name] = value
            else:
                each.pop(name, None)
