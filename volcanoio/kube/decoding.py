"""Decoding of API objects from bytes into their Structs, with a second, lenient attempt for unusual objects.

A server may return an object that our narrow Structs refuse, mostly a null where Kubernetes' own types have a zero
value (a bookmark's `spec.containers: null`, or what a user wrote). Null means absent in Kubernetes' API, so the lenient
attempt drops nulls. An object that still fails is skipped and reported: one such object must not stop an informer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from volcanoio.kube.transport import SharedLine, SharedObject
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind

Object = TypeVar("Object")


class UndecodableError(ValueError):
    """An object that does not fit its Struct; the message names kind and field."""


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """`metadata` of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[Object], frozen=True):
    """One page of a list."""

    metadata: ListMeta = ListMeta()
    items: tuple[Object, ...] = ()


class WatchLine(msgspec.Struct, Generic[Object], frozen=True):
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR (whose object is a Status)."""

    type: str
    object: Object


class ObjectDecoder:
    """Decoders of one kind; building them is slow, so keep the instance.

    `made` is called once for each newly decoded object of a page or watch line, not for shared objects decoded earlier.
    """

    def __init__(self, kind: Kind, made: Callable[[ApiObject], object] | None = None) -> None:
        self._kind = kind
        self._made = made or _ignore_object
        self._one: msgspec.json.Decoder[ApiObject] = msgspec.json.Decoder(kind.type)
        self._page: msgspec.json.Decoder[Page[ApiObject]] = msgspec.json.Decoder(Page[kind.type])  # type: ignore[name-defined]  # the type argument is a value here
        self._line: msgspec.json.Decoder[WatchLine[ApiObject]] = msgspec.json.Decoder(WatchLine[kind.type])  # type: ignore[name-defined]  # as above
        self._raw_page = msgspec.json.Decoder(Page[msgspec.Raw])
        self._raw_line = msgspec.json.Decoder(WatchLine[msgspec.Raw])

    def one(self, data: bytes | msgspec.Raw) -> ApiObject:
        """Decode one object; raises UndecodableError."""
        if not isinstance(data, SharedObject):
            return self._one_alone(data)
        known = data.decoded.get(self._kind.type)
        if not isinstance(known, ApiObject):
            known = data.decoded[self._kind.type] = self._one_alone(data)
        return known

    def _one_alone(self, data: bytes | msgspec.Raw) -> ApiObject:
        try:
            return self._one.decode(data)
        except msgspec.ValidationError:
            return self.lenient(msgspec.json.decode(data))
        except msgspec.DecodeError as error:
            raise UndecodableError(f"{self._kind}: not JSON: {error}") from error
        except RecursionError:
            raise UndecodableError(f"{self._kind}: an object is nested too deeply to be read") from None

    def lenient(self, content: Any) -> ApiObject:
        """Convert one object from decoded JSON, with null as absent; raises UndecodableError."""
        try:
            return msgspec.convert(without_nulls(content), self._kind.type)
        except msgspec.ValidationError as error:
            meta = content.get("metadata") if isinstance(content, dict) else None
            meta = meta if isinstance(meta, dict) else {}
            msg = f"{self._kind} {meta.get('namespace', '')}/{meta.get('name', '')}: {error}"
            raise UndecodableError(msg) from error

    def page(self, data: bytes) -> tuple[ListMeta, list[ApiObject], list[UndecodableError]]:
        """Decode a page: its metadata, its objects, and the errors of objects that could not be decoded."""
        try:
            page = self._page.decode(data)
        except msgspec.ValidationError:
            result = self._odd_page(data)
        else:
            result = page.metadata, list(page.items), []
        for obj in result[1]:
            self._made(obj)
        return result

    def _odd_page(self, data: bytes) -> tuple[ListMeta, list[ApiObject], list[UndecodableError]]:
        if b'"items":null' in data[:4096]:
            return msgspec.json.decode(data, type=WithMeta).metadata, [], []
        page = self._raw_page.decode(data)
        objects, faults = list[ApiObject](), list[UndecodableError]()
        for item in page.items:
            try:
                objects.append(self.one(item))
            except UndecodableError as error:
                faults.append(error)
        return page.metadata, objects, faults

    def line(self, data: bytes) -> WatchLine[ApiObject] | WatchLine[msgspec.Raw]:
        """Decode a watch line: ADDED, MODIFIED and DELETED to objects, others stay raw; raises UndecodableError."""
        if isinstance(data, SharedLine):
            known = data.decoded.get(self._kind.type)
            if isinstance(known, ApiObject):
                return WatchLine(data.event, known)
        line = self._line_alone(data)
        if isinstance(line.object, ApiObject):
            self._made(line.object)
            if isinstance(data, SharedLine):
                data.decoded[self._kind.type] = line.object
        return line

    def _line_alone(self, data: bytes) -> WatchLine[ApiObject] | WatchLine[msgspec.Raw]:
        try:
            line = self._line.decode(data)
            if line.type in OBJECT_TYPES:
                return line
            return self._raw_line.decode(data)
        except msgspec.DecodeError:
            return self._odd_line(data)

    def _odd_line(self, data: bytes) -> WatchLine[ApiObject] | WatchLine[msgspec.Raw]:
        try:
            odd = self._raw_line.decode(data)
        except msgspec.DecodeError as error:
            raise UndecodableError(f"{self._kind}: not a watch line: {error}") from error
        return WatchLine(odd.type, self.one(odd.object)) if odd.type in OBJECT_TYPES else odd


def _ignore_object(_obj: ApiObject) -> None:
    """Ignore a decoded object (the default of `made`)."""


OBJECT_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED"})
"""Types of watch lines whose object is of the watched kind."""


class WithMeta(msgspec.Struct, frozen=True):
    """Part of an object with list metadata: a bookmark's object, or a list without its items."""

    metadata: ListMeta = ListMeta()


def without_nulls(content: Any) -> Any:
    """Return decoded JSON without object members that are null, at any depth."""
    if isinstance(content, dict):
        return {key: without_nulls(value) for key, value in content.items() if value is not None}
    if isinstance(content, list):
        return [without_nulls(value) for value in content]
    return content
