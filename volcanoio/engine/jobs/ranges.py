"""Sets of pod indexes as short text: `0-3,7`, or a bitmap where that is shorter.

A task of n replicas comes to n/6 characters at most, whatever its pods do, so that what is stored on a Job is bounded.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable

_BITS = "bits:"
_HIGHEST = 1_000_000
"""No task has so many pods: a text that says so was garbled."""


def compact(indexes: Iterable[int]) -> str:
    """Indexes as ascending ranges, "" for none; as base64 of a bitmap (lowest bit first) where that is shorter."""
    wanted = tuple(indexes)
    if not wanted:
        return ""
    flags = bytearray(max(wanted) + 2)  # one more, so that every run ends
    for index in wanted:
        flags[index] = 1
    runs: list[str] = []
    first = flags.find(1)
    while first >= 0:
        end = flags.find(0, first)
        runs.append(str(first) if first == end - 1 else f"{first}-{end - 1}")
        first = flags.find(1, end)
    text = ",".join(runs)
    return text if len(text) <= len(_BITS) + 4 * (len(flags) // 24 + 1) else _as_bits(flags)


def expand(text: str) -> list[int]:
    """The indexes of such a text, ascending; what is neither a range nor a bitmap is left out."""
    if text.startswith(_BITS):
        return _from_bits(text.removeprefix(_BITS))
    indexes: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if part.isascii() and first.isdigit() and (last or first).isdigit() and int(last or first) < _HIGHEST:
            indexes.extend(range(int(first), int(last or first) + 1))
    return indexes


def _as_bits(flags: bytearray) -> str:
    bitmap = bytearray(len(flags) // 8 + 1)
    for index, flag in enumerate(flags):
        if flag:
            bitmap[index >> 3] |= 1 << (index & 7)
    return _BITS + base64.b64encode(bitmap.rstrip(b"\0")).decode()


def _from_bits(text: str) -> list[int]:
    try:
        bitmap = base64.b64decode(text, validate=True)
    except ValueError:
        return []
    return [place * 8 + bit for place, byte in enumerate(bitmap) if byte for bit in range(8) if byte >> bit & 1]
