"""Parts of schemas that were found without fault before, in this process, and need not be judged once more.

Definitions of one project hold the same parts (a pod template is 200 KB in each of ours), and a process may serve many
clusters. A part is known by its text, whatever definition it is in. Only parts are left out whose faults cannot depend
on what is around them: objects without expressions, below nothing that has a default of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final

import msgspec

from volcanoio.model.base import Manifest

WORTH: Final = 4096
"""Bytes of a part from which on remembering it is cheaper than judging it."""
_MOST: Final = 10_000
_STAND_IN: Final = {"type": "object"}
_ELSEWHERE: Final = ("default", "nullable", "x-kubernetes-embedded-resource", "allOf", "anyOf", "oneOf", "not")
"""What a schema says that is judged together with what is around it, or below it."""
_META: Final = frozenset({"metadata", "kind", "apiVersion"})
"""Where other rules may hold for what is below."""
_known: set[bytes] = set()


def without_known(schema: Manifest) -> Manifest:
    """The schema with a plain object in place of each part that is known to be sound; itself when there is none."""
    return _stripped(schema) if _known and b'"x-kubernetes-validations"' not in _text(schema) else schema


def remember(schema: Manifest) -> None:
    """Take note of the parts of a schema in which no fault was found."""
    if len(_known) > _MOST:
        _known.clear()
    if b'"x-kubernetes-validations"' not in _text(schema):
        _known.update(_digests(schema))


def _stripped(schema: Manifest) -> Manifest:
    if any(word in schema for word in _ELSEWHERE):
        return schema
    changed: dict[str, Any] = {}
    properties = schema.get("properties")
    if isinstance(properties, dict):
        below = {name: one if name in _META else _part(one) for name, one in properties.items()}
        if any(below[name] is not one for name, one in properties.items()):
            changed["properties"] = below
    items = schema.get("items")
    if isinstance(items, dict) and (stripped := _stripped(items)) is not items:
        changed["items"] = stripped
    return {**schema, **changed} if changed else schema


def _part(schema: Any) -> Any:
    """What stands for a property's schema."""
    if not isinstance(schema, dict) or not ("properties" in schema or "items" in schema):
        return schema
    text = _text(schema)
    if len(text) < WORTH:
        return schema
    return _STAND_IN if _digest(text) in _known else _stripped(schema)


def _digests(schema: Manifest) -> Iterator[bytes]:
    """Of the parts of a sound schema that may stand by themselves."""
    if any(word in schema for word in _ELSEWHERE):
        return
    for one in (schema.get("properties") or {}).values():
        text = _text(one)
        if len(text) >= WORTH:
            if one.get("type") == "object" and not any(word in one for word in _ELSEWHERE):
                yield _digest(text)
            yield from _digests(one)
    if isinstance(schema.get("items"), dict):
        yield from _digests(schema["items"])


def _text(schema: Manifest) -> bytes:
    return msgspec.json.encode(schema)


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()
