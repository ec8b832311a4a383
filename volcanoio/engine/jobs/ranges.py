"""Sets of pod indexes as short text: `0-3,7`."""

from __future__ import annotations

from collections.abc import Iterable


def compact(indexes: Iterable[int]) -> str:
    """Indexes as ascending ranges, "" for none."""
    runs: list[list[int]] = []
    for index in sorted(set(indexes)):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def expand(text: str) -> list[int]:
    """The indexes of such a text, ascending; what is no range is left out."""
    indexes: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if part.isascii() and first.isdigit() and (last or first).isdigit():
            indexes.extend(range(int(first), int(last or first) + 1))
    return indexes
