"""Stored objects and the events between their versions; both are immutable and encoded once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from volcanoio.kube.transport import SharedLine
from volcanoio.model.base import Manifest

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]
View: TypeAlias = Callable[["Stored"], bytes]
"""Encode an object in a form that a client requested (a Table row, metadata only)."""

encode = msgspec.json.encode
decode = msgspec.json.Decoder().decode

_NO_LABELS: dict[str, str] = {}


class _MetadataOnly(msgspec.Struct):
    metadata: Manifest


_read_metadata = msgspec.json.Decoder(_MetadataOnly).decode


class Ref(NamedTuple):
    """Key of an object.

    The resource's `plural.group`, the namespace (empty for cluster scope) and the name.
    """

    resource: str
    namespace: str
    name: str


class Stored:
    """One version of an object: its JSON, and the fields that indexes and selectors read."""

    __slots__ = ("data", "deleting", "fields", "finalizers", "labels", "name", "namespace", "owners", "revision", "uid")

    def __init__(self, namespace: str, name: str, revision: int, obj: Manifest, data: bytes | None = None) -> None:
        metadata = obj["metadata"]
        self.namespace = namespace
        self.name = name
        self.revision = revision
        self.uid: str = metadata.get("uid", "")
        self.labels: dict[str, str] = metadata.get("labels") or _NO_LABELS
        refs = metadata.get("ownerReferences")
        self.owners: tuple[str, ...] = tuple([ref["uid"] for ref in refs]) if refs else ()
        self.finalizers: tuple[str, ...] = tuple(metadata.get("finalizers") or ())
        self.deleting: bool = metadata.get("deletionTimestamp") is not None
        self.data = encode(obj) if data is None else data
        self.fields: dict[str, str] | None = None

    @classmethod
    def read(cls, namespace: str, name: str, revision: int, data: bytes) -> Stored:
        """Read a stored version; only its metadata is decoded."""
        return cls(namespace, name, revision, {"metadata": _read_metadata(data).metadata}, data)

    def next_version(self, revision: int, data: bytes, fields: dict[str, str] | None) -> Stored:
        """Return the next version, with new JSON and selector fields.

        Of the metadata only the version differs.
        """
        new = Stored.__new__(Stored)
        new.namespace, new.name, new.uid = self.namespace, self.name, self.uid
        new.labels, new.owners, new.finalizers, new.deleting = self.labels, self.owners, self.finalizers, self.deleting
        new.revision, new.data, new.fields = revision, data, fields
        return new

    def decode(self) -> Manifest:
        """Decode the whole object; the caller may change the result."""
        obj: Manifest = decode(self.data)
        return obj

    def at(self, revision: int) -> Stored:
        """Return the same object with another resourceVersion, for the event of a deletion."""
        obj = self.decode()
        obj["metadata"]["resourceVersion"] = str(revision)
        return Stored(self.namespace, self.name, revision, obj)


class Event:
    """One change.

    `old` is the state before, `new` the state after (for DELETED: the last state).
    """

    __slots__ = ("_frames", "_left", "decoded", "new", "old", "revision", "type")

    def __init__(self, type_: EventType, new: Stored, old: Stored | None) -> None:
        self.type: EventType = type_
        self.new = new
        self.old = old
        self.revision = new.revision
        self._frames: dict[tuple[EventType, Hashable], bytes] = {}
        self._left: Stored | None = None
        self.decoded: dict[type[object], object] = {}
        """Objects that readers in this process have decoded, shared until `sent` is called."""

    def frame(self, type_: EventType, view: View | None, view_key: Hashable) -> bytes:
        """Return the watch line of the event; cached per type and view until `sent` is called."""
        key = (type_, view_key)
        found = self._frames.get(key)
        if found is None:
            leaves = type_ == "DELETED" and self.type != "DELETED"
            stored = self._leaving() if leaves else self.new
            found = frame(type_, stored.data if view is None else view(stored))
            if view is None:
                found = SharedLine(found)
                found.event, found.decoded = type_, {} if leaves else self.decoded
            self._frames[key] = found
        return found

    def sent(self) -> None:
        """Drop the cached lines: all watchers have received them."""
        self._frames, self.decoded, self._left = {}, {}, None

    def _leaving(self) -> Stored:
        """Return the object of a DELETED event for a selector: the old state at the new version."""
        if self._left is None:
            self._left = (self.old or self.new).at(self.revision)
        return self._left


def frame(type_: str, data: bytes) -> bytes:
    """Return one line of a watch, without its newline."""
    return b'{"type":"%s","object":%s}' % (type_.encode(), data)
