"""Sums of amounts by resource, without zero entries."""

from collections.abc import Mapping


def add_amounts(into: dict[str, int], other: Mapping[str, int], times: int) -> None:
    """Add `times` * `other` in place (-1 subtracts); names that reach zero are dropped."""
    get = into.get
    for name, amount in other.items():
        if value := get(name, 0) + times * amount:
            into[name] = value
        else:
            into.pop(name, None)


def add_to_each(amounts_of: Mapping[str, int], times: int, *into: dict[str, int]) -> None:
    """Add `times` * `amounts_of` to several sums in place."""
    for name, amount in amounts_of.items():
        change = times * amount
        for each in into:
            if value := each.get(name, 0) + change:
                each[name] = value
            else:
                each.pop(name, None)
