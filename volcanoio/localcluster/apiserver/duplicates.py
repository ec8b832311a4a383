"""Keys that a JSON object has twice, which a decoder takes silently.

Looked for only where there may be some: it takes several times as long as decoding.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from volcanoio.localcluster.apiserver.objects import encode


class _Object:
    """An object as it was written: its pairs in their order."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def may_repeat(body: bytes, decoded: Any) -> bool:
    """Whether JSON may have a key twice; certainly not where this says so, which takes less time than decoding did.

    Written again, what was decoded has as many keys as before unless some are lost.
    """
    return body.count(b'":') != encode(decoded).count(b'":')


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


def repeated_keys(body: bytes) -> list[str]:
    """The keys that come again in their mapping of a YAML, by their lines."""
    found: list[str] = []
    waiting: list[Any] = [yaml.compose(body, Loader=yaml.CSafeLoader)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.SequenceNode):
            waiting += reversed(node.value)
        elif isinstance(node, yaml.MappingNode):
            seen: dict[str, int] = {}
            for key, value in node.value:
                line = key.start_mark.line + 1
                if key.value in seen:
                    found.append(f'line {line}: key "{key.value}" already set in map')
                seen.setdefault(key.value, line)
                waiting.append(value)
    return found
