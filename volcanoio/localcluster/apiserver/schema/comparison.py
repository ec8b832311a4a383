"""JSON values compared and written as Go does: `true`, `1` and `1.0` differ, and a whole float is written as an int."""

from __future__ import annotations

import re
from typing import Any, Final

_MAYBE_WHOLE: Final = re.compile(rb"[\s:,\[]-?\d+(?:\.0+(?![0-9])|\.?\d*[eE])")
"""What a number that is written as a whole float looks like; a text may, too, but not one of hexadecimal digits."""
_MOST: Final = 1e21
"""From here on Go writes floats with an exponent."""


def identical(one: Any, other: Any) -> bool:
    """Whether two values are the same, types included."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is dict:
        return len(one) == len(other) and all(
            key in other and identical(value, other[key]) for key, value in one.items()
        )
    if kind is list:
        return len(one) == len(other) and all(identical(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


def write_whole_floats(obj: dict[str, Any], body: bytes) -> None:
    """Replace `1.0` by `1` in place, if the body that was decoded may hold such."""
    if _MAYBE_WHOLE.search(body) is not None:
        _walk(obj)


def _walk(value: Any) -> Any:
    if type(value) is float:
        return int(value) if value.is_integer() and abs(value) < _MOST else value
    if type(value) is dict:
        for key, one in value.items():
            if type(one) in {float, dict, list}:
                value[key] = _walk(one)
    elif type(value) is list:
        value[:] = [_walk(one) for one in value]
    return value
