"""The protobuf wire format: a message as its fields (Protocol Buffers documentation, "Encoding")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

VARINT: Final = 0
FIXED64: Final = 1
LENGTH_DELIMITED: Final = 2
FIXED32: Final = 5

Field: TypeAlias = tuple[int, int, int | bytes]
"""A field's number, its wire type, and its value: an unsigned number, or the bytes of what has a length."""


class WireError(ValueError):
    """The bytes are not a message."""


def fields(data: bytes) -> Iterator[Field]:
    """All fields of a message in order; raises WireError."""
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        at += 1
        if key >= _MORE:  # nearly all keys and sizes are one byte: those are read here
            key, at = varint(data, at - 1)
        number, type_ = key >> 3, key & 7
        if number == 0:
            raise WireError(f"field number 0 at byte {at}")
        if type_ == LENGTH_DELIMITED:
            size = data[at] if at < end else _MORE
            at += 1
            if size >= _MORE:
                size, at = varint(data, at - 1)
            if size > end - at:
                raise WireError(f"field {number} has {size} bytes, {end - at} are left")
            yield number, type_, data[at : at + size]
            at += size
        elif type_ == VARINT:
            value, at = varint(data, at)
            yield number, type_, value
        elif type_ in _FIXED:
            size = _FIXED[type_]
            if size > end - at:
                raise WireError(f"field {number} is cut off")
            yield number, type_, int.from_bytes(data[at : at + size], "little")
            at += size
        else:
            raise WireError(f"field {number} has the unknown wire type {type_}")


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The unsigned number at a position, and the position behind it; raises WireError."""
    value = shift = 0
    while True:
        if at >= len(data):
            raise WireError("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & ~_MORE) << shift
        if byte < _MORE:
            return value & _MASK, at
        shift += 7
        if shift > _LAST_SHIFT:
            raise WireError(f"a number of more than {_LAST_SHIFT // 7 + 1} bytes at byte {at}")


_MORE: Final = 0x80
_FIXED: Final = {FIXED64: 8, FIXED32: 4}
_MASK: Final = (1 << 64) - 1
_LAST_SHIFT: Final = 63
