"""Hashes that stand in names and labels: of templates and of snapshots."""

from __future__ import annotations

from typing import Any

import msgspec

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_PRIME, _BASIS = 16777619, 2166136261


def short_hash(content: Any, collisions: int | None = None) -> str:
    """32 bits (FNV-1a) of JSON with sorted keys, in letters that make no words; `collisions` gives another one."""
    data = msgspec.json.encode(content, order="deterministic")
    if collisions is not None:
        data += str(collisions).encode()
    value = _BASIS
    for byte in data:
        value = ((value ^ byte) * _PRIME) & 0xFFFFFFFF
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(value))
