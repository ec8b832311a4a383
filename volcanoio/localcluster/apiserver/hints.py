"""Texts about fields that do not exist, with what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from volcanoio.model.base import Manifest

_MEANT = {"priorityClass": "priorityClassName", "queueName": "queue"}
"""Names often written for another one, where likeness alone does not decide."""


def unknown_field(path: str, siblings: Iterable[str]) -> str:
    """`unknown field "spec.x"`, with the known field that was probably meant."""
    name = path.rpartition(".")[2]
    known = list(siblings)
    meant = _MEANT.get(name)
    if meant not in known:
        prefixed = [one for one in known if one.startswith(name)] if len(name) > 2 else []
        meant = next(iter(prefixed or get_close_matches(name, known, n=1, cutoff=0.75)), None)
    text = f'unknown field "{path}"'
    return f'{text}; did you mean "{meant}"?' if meant else text


def schema_siblings(schema: Manifest, path: str) -> list[str]:
    """The fields a structural schema knows beside the one at `path`."""
    node = schema
    for part in path.split(".")[:-1]:
        name = part.partition("[")[0]
        properties = node.get("properties") or {}
        node = properties.get(name) or node.get("additionalProperties") or {}
        for _ in range(part.count("[") if isinstance(node, dict) else 0):
            node = node.get("items") or {}
        if not isinstance(node, dict):
            return []
    return list(node.get("properties") or ())
