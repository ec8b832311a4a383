"""Numbers that a manifest gives as a count or a percentage."""

from __future__ import annotations

from typing import Any


def scaled(amount: Any, total: int, *, up: bool) -> int:
    """A count, or a percentage of the total rounded up or down; 0 for what is neither."""
    if isinstance(amount, str):
        digits = amount.removesuffix("%")
        if not digits.isdigit():
            return 0
        share = int(digits) * total if amount.endswith("%") else int(digits) * 100
        return -(-share // 100) if up else share // 100
    return int(amount or 0)


def count(value: Any, default: int = 0) -> int:
    """A number of a manifest that may be absent."""
    return default if value is None else int(value)
