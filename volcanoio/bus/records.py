"""Records of a journal, one per line, and their encoding as JSON.

Works for every subclass of Event, whatever its fields: what holds an ApiObject is marked in place with its kind, so
that it is decoded to its Struct; the rest is converted by the field's annotation.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any, TypeAlias, get_origin, get_type_hints

import msgspec

import volcanoio.framework.scheduling_events  # noqa: F401 - so that the scheduler's events are known, too
from volcanoio.bus.redaction import SECRETS, redact, redact_secret
from volcanoio.framework.effects import Create, EffectBase, Patch
from volcanoio.framework.events import Change, Event, Observed
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.core import Secret
from volcanoio.model.kinds import Kind

FORMAT = 1
"""Version of the journal's form; a reader refuses others."""


class RecordBase(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="record"):
    """Base of all records."""


class Opened(RecordBase, frozen=True, kw_only=True):
    """A segment begins. `process` names who wrote it, `version` the volcanoio it was; `at` is epoch seconds.

    `starts`: the process started here, and its events count from 1; else the segment goes on where the last one ended.
    """

    process: str
    version: str
    at: float
    starts: bool = False
    format: int = FORMAT


class Snapshot(RecordBase, frozen=True, kw_only=True):
    """The start of a segment, whose first event has the seq `before`.

    `state` is part of the format for plain values, lists and dicts that may hold ApiObjects; None is written.
    """

    before: int
    state: Any = None


class EventRecord(RecordBase, frozen=True, kw_only=True, tag="Told"):
    """An event, as the engine saw it."""

    event: Event


class Decided(RecordBase, frozen=True, kw_only=True):
    """What `actor` (a controller or the scheduler) decided for `key` about the event `cause`.

    `effects` are the effects as plain values, without secrets: written to be compared.
    """

    actor: str
    key: str
    cause: int
    effects: Any


class Configured(RecordBase, frozen=True, kw_only=True):
    """A configuration is in force: the text of the file `name`."""

    name: str
    text: str


class PluginSource(RecordBase, frozen=True, kw_only=True):
    """A plugin, policy or action is in use; `origin` is its distribution and version, or file and sha256."""

    group: str
    name: str
    origin: str


Record: TypeAlias = Opened | Snapshot | EventRecord | Decided | Configured | PluginSource


_KIND, _OBJECT = "$kind", "$object"
_MARK = b'"$kind"'
_OBSERVED = f'{{"record":"{EventRecord.__struct_config__.tag}","event":{{"type":"Observed",'.encode()


class _Marked(msgspec.Struct, rename={"kind": _KIND, "object": _OBJECT}):
    kind: str
    object: msgspec.Raw


class _Observation(msgspec.Struct):
    """The fields of Observed."""

    seq: int
    at: float
    cause: int
    resource: str
    change: Change
    object: msgspec.Raw
    previous: msgspec.Raw = msgspec.Raw(b"null")


class _ObservedLine(msgspec.Struct):
    event: _Observation


_MARKED = msgspec.json.Decoder(_Marked)


class CodecError(ValueError):
    """A line that is no record, or names an event or kind we do not know."""


class Codec:
    """Encodes and decodes records. `known` are the kinds objects may have; of others, metadata alone is decoded if
    `lenient`, else they are a CodecError.
    """

    def __init__(self, known: Iterable[Kind] = (*kinds.ALL, *kinds.LOCAL), *, lenient: bool = False) -> None:
        self._lenient = lenient
        self._by_type: dict[type[ApiObject], str] = {kind.type: f"{kind.api_version}/{kind.kind}" for kind in known}
        self._by_type[ApiObject] = "meta.k8s.io/v1/PartialObjectMetadata"  # kinds of which only metadata is decoded
        self._by_name = {name: type_ for type_, name in self._by_type.items()}
        self._decoder = msgspec.json.Decoder(dict[str, Any])
        self._observed = msgspec.json.Decoder(_ObservedLine)
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {}
        self._event_types: dict[str, type[Event]] = {}
        self._seen: dict[bytes, ApiObject] = {}
        """Objects by their text, until a `previous` or the next start: a `previous` is not decoded again."""

    def encode(self, record: Record) -> bytes:
        """Encode a record as one line without a newline."""
        content: dict[str, Any] = {"record": record.__struct_config__.tag}
        for name in record.__struct_fields__:
            content[name] = self.plain(getattr(record, name))
        return msgspec.json.encode(content)

    def decode(self, line: bytes) -> Record:
        """Decode one record; raises CodecError."""
        try:
            if line.startswith(_OBSERVED):
                return EventRecord(event=self._observation(line))
            content = self._decoder.decode(line)
            match content.get("record"):
                case EventRecord.__struct_config__.tag:
                    return EventRecord(event=self._event(content["event"], has_objects=_MARK in line))
                case "Snapshot":
                    return Snapshot(before=content["before"], state=self._restored(content["state"]))
                case _:
                    record: Record = msgspec.convert(content, Record)
                    if isinstance(record, Opened) and record.starts:
                        self._seen.clear()  # it observes everything again; lines hold whole objects
                    return record
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise CodecError(f"not a record: {type(error).__name__}: {error}") from error

    def _observation(self, line: bytes) -> Observed:
        """Decode an observation, nearly all of a journal, without plain values in between."""
        found = self._observed.decode(line).event
        obj, previous = bytes(found.object), bytes(found.previous)
        before = None if previous == b"null" else self._seen.pop(previous, None) or self._object(previous)
        now = before if obj == previous else self._object(obj)
        if now is not None and found.change is not Change.GONE:
            self._seen[obj] = now
        return Observed(
            seq=found.seq,
            at=found.at,
            cause=found.cause,
            resource=found.resource,
            change=found.change,
            object=now,
            previous=before,
        )

    def _object(self, text: bytes) -> ApiObject:
        marked = _MARKED.decode(text)
        if (decoder := self._decoders.get(marked.kind)) is None:
            struct = self._by_name.get(marked.kind, ApiObject) if self._lenient else self._by_name[marked.kind]
            decoder = self._decoders[marked.kind] = msgspec.json.Decoder(struct)
        obj: ApiObject = decoder.decode(marked.object)
        return obj

    def decided(self, actor: str, key: str, cause: int, effects: Any) -> Decided:
        """Return a decision in the form in which it is recorded and compared."""
        return Decided(actor=actor, key=key, cause=cause, effects=self.plain(effects))

    def plain(self, value: Any) -> Any:
        """Return a value as plain JSON, ApiObjects with their kind and without the data of Secrets."""
        return redact(value, self._leaf)

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, ApiObject):
            return self._marked(value)
        if isinstance(value, Event):
            fields = {name: self.plain(getattr(value, name)) for name in value.__struct_fields__}
            return {"type": type(value).__name__, **fields}
        if isinstance(value, EffectBase):
            return self._effect(value)
        return redact(msgspec.to_builtins(value)) if isinstance(value, msgspec.Struct) else value

    def _effect(self, effect: EffectBase) -> Any:
        content = msgspec.to_builtins(effect)
        if isinstance(effect, Create) and effect.resource == SECRETS:
            content["manifest"] = redact_secret(content["manifest"])
        elif isinstance(effect, Patch) and effect.resource == SECRETS:
            content["patch"] = redact_secret(content["patch"])
        return redact(content)

    def _marked(self, obj: ApiObject) -> dict[str, Any]:
        content = msgspec.to_builtins(obj)
        content = redact_secret(content) if isinstance(obj, Secret) else redact(content)
        return {_KIND: self._by_type[type(obj)], _OBJECT: content}

    def _restored(self, value: Any) -> Any:
        if isinstance(value, dict):
            if _KIND in value:
                name = value[_KIND]
                struct = self._by_name.get(name, ApiObject) if self._lenient else self._by_name[name]
                return msgspec.convert(value[_OBJECT], struct)
            return {key: self._restored(item) for key, item in value.items()}
        return [self._restored(item) for item in value] if isinstance(value, list) else value

    def _event(self, content: dict[str, Any], *, has_objects: bool) -> Event:
        if (cls := self._event_types.get(content["type"])) is None:
            self._event_types = _event_types()
            cls = self._event_types[content["type"]]
        if not has_objects:
            return msgspec.convert(content, cls)
        hints = _hints(cls)
        fields = {}
        for name, value in content.items():
            if name == "type":
                continue
            restored = self._restored(value)
            if not _holds_object(restored):
                fields[name] = msgspec.convert(restored, hints[name])
            else:
                fields[name] = tuple(restored) if get_origin(hints[name]) is tuple else restored
        return cls(**fields)


def _holds_object(value: Any) -> bool:
    if isinstance(value, list):
        return any(_holds_object(item) for item in value)
    if isinstance(value, dict):
        return any(_holds_object(item) for item in value.values())
    return isinstance(value, ApiObject)


def _event_types() -> dict[str, type[Event]]:
    """Return every imported event class by name."""
    found: dict[str, type[Event]] = {}
    rest: list[type[Event]] = [Event]
    while rest:
        for cls in rest.pop().__subclasses__():
            found[cls.__name__] = cls
            rest.append(cls)
    return found


@cache
def _hints(cls: type[Event]) -> dict[str, Any]:
    return get_type_hints(cls)
