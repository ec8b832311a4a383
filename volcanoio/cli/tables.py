"""Columns of text, as vcctl prints them."""

from __future__ import annotations

from collections.abc import Sequence


def columns(widths: Sequence[int], header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Left-aligned columns of fixed width; longer cells push the rest to the right."""
    return "\n".join(
        "".join(f"{cell!s:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    )
