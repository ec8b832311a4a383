"""Text form of pod indexes: `0-3,7`, or a bitmap where that is shorter.

A text takes at most n/6 characters for n replicas.
"""

import base64
from collections.abc import Iterable

_BITMAP_PREFIX = "bits:"


_INDEX_LIMIT = 1_000_000
"""No task has so many pods: a text with a higher index is corrupt."""


def format_indexes(indexes: Iterable[int]) -> str:
    """Return indexes as ascending ranges, or as base64 of a bitmap (lowest bit first) if that is shorter."""
    if not (index_tuple := tuple(indexes)):
        return ""
    flags = bytearray(max(index_tuple) + 2)  # one more, so that every run ends
    for index in index_tuple:
        flags[index] = 1
    runs: list[str] = []
    first = flags.find(1)
    while first >= 0:
        end = flags.find(0, first)
        runs.append(str(first) if first == end - 1 else f"{first}-{end - 1}")
        first = flags.find(1, end)
    text = ",".join(runs)
    return text if len(text) <= len(_BITMAP_PREFIX) + 4 * (len(flags) // 24 + 1) else _format_bitmap(flags)


def parse_indexes(text: str) -> list[int]:
    """Return the indexes of a text, ascending; parts that are neither a range nor a bitmap are ignored."""
    if text.startswith(_BITMAP_PREFIX):
        return _parse_bitmap(text.removeprefix(_BITMAP_PREFIX))
    indexes: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if part.isascii() and first.isdigit() and (last or first).isdigit() and int(last or first) < _INDEX_LIMIT:
            indexes.extend(range(int(first), int(last or first) + 1))
    return indexes


def _format_bitmap(flags: bytearray) -> str:
    bitmap = bytearray(len(flags) // 8 + 1)
    for index, flag in enumerate(flags):
        if flag:
            bitmap[index >> 3] |= 1 << (index & 7)
    return _BITMAP_PREFIX + base64.b64encode(bitmap.rstrip(b"\0")).decode()


def _parse_bitmap(text: str) -> list[int]:
    try:
        bitmap = base64.b64decode(text, validate=True)
    except ValueError:
        return []
    return [place * 8 + bit for place, byte in enumerate(bitmap) if byte for bit in range(8) if byte >> bit & 1]
