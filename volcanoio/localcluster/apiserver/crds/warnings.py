"""What whoever writes a definition is warned of: formats that mean nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from volcanoio.localcluster.apiserver.crds.document import schemas
from volcanoio.localcluster.apiserver.schema.formats import known_format
from volcanoio.model.base import Manifest


def format_warnings(new: Manifest, old: Manifest | None) -> list[str]:
    """Formats that are not judged; on an update only those that were not there before."""
    known = set(_formats(old)) if old is not None else set()
    return [f'unrecognized format "{one}"' for one in _formats(new) if one not in known]


def _formats(definition: Manifest) -> list[str]:
    return [one for part in schemas(definition["spec"]) for one in _unknown_in(msgspec.json.encode(part.value))]


@lru_cache(maxsize=64)
def _unknown_in(schema: bytes) -> tuple[str, ...]:
    """Of a schema as JSON, remembered: a process may serve many clusters."""
    return tuple(_unknown(msgspec.json.decode(schema)))


def _unknown(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for one in schema:
            yield from _unknown(one)
        return
    if not isinstance(schema, dict):
        return
    if schema.get("format") and not known_format(schema):
        yield schema["format"]
    for word in ("items", "allOf", "anyOf", "oneOf", "not", "additionalProperties"):
        if word in schema:
            yield from _unknown(schema[word])
    for one in (schema.get("properties") or {}).values():
        yield from _unknown(one)
