"""Parts that many objects have alike are kept once: of 100,000 pods of a few jobs, half of the memory.

Objects are never written to after they are decoded; this is where it is made use of.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

import msgspec

from volcanoio.model.base import ApiObject
from volcanoio.model.core import Pod

MOST = 8192
"""Different parts known at once; then all are forgotten, and later ones are shared among themselves."""
Part = TypeVar("Part")


class Shared:
    """The parts of pods met so far."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}
        self._encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode

    def of(self, obj: ApiObject) -> ApiObject:
        """The same object, of parts that others have alike."""
        if isinstance(obj, Pod):
            meta, spec = obj.metadata, obj.spec
            put = msgspec.structs.force_setattr
            put(meta, "namespace", self._one(meta.namespace, meta.namespace))
            put(meta, "annotations", self._texts(meta.annotations))
            put(meta, "labels", self._texts(meta.labels))
            if meta.owner_references:
                put(meta, "owner_references", self._built(meta.owner_references))
            put(spec, "containers", self._built(spec.containers))
            put(spec, "node_selector", self._texts(spec.node_selector))
            if spec.tolerations:
                put(spec, "tolerations", self._built(spec.tolerations))
            if spec.node_name:
                put(spec, "node_name", self._one(spec.node_name, spec.node_name))
            if meta.creation_timestamp:
                put(meta, "creation_timestamp", self._one(meta.creation_timestamp, meta.creation_timestamp))
            if obj.status.phase in ("", "Pending"):
                put(obj, "status", self._built(obj.status))
        return obj

    def _built(self, part: Part) -> Part:
        return self._one(self._encode(part), part)

    def _texts(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        return self._one(tuple(texts.items()), texts)

    def _one(self, key: Hashable, part: Part) -> Part:
        known: Part | None = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST:
                self._known.clear()
            known = self._known[key] = part
        return known
