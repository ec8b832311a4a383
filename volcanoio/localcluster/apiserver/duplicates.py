"""Keys that a JSON object has twice, which a decoder takes silently.

Looked for only under `fieldValidation=Strict`, as kubectl asks for: it takes several times as long as decoding.
"""

from __future__ import annotations

import json
from typing import Any


class _Object:
    """An object as it was written: its pairs in their order."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def duplicate_fields(body: bytes) -> list[str]:
    """`duplicate field "PATH"` for each key that comes again in its object; nothing for what is no JSON."""
    try:
        whole = json.loads(body, object_pairs_hook=_Object)
    except ValueError:
        return []
    found: list[str] = []
    _visit(whole, "", found)
    return [f'duplicate field "{path}"' for path in dict.fromkeys(found)]


def _visit(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Object):
        seen: set[str] = set()
        for key, inner in value.pairs:
            where = f"{path}.{key}" if path else key
            if key in seen:
                found.append(where)
            seen.add(key)
            _visit(inner, where, found)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            _visit(inner, f"{path}[{at}]", found)
