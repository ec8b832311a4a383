"""Records to lines of JSON and back. API objects carry their kind, so that they come back as their Structs.

Works for every subclass of Event, whatever its fields: what holds an ApiObject is marked in place, the rest is
converted by the field's annotation.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, get_origin, get_type_hints

import msgspec

import volcanoio.framework.scheduling_events  # noqa: F401 - so that the scheduler's events are known, too
from volcanoio.bus.records import Decided, Record, Snapshot, Told
from volcanoio.bus.redaction import SECRETS, redacted, redacted_secret
from volcanoio.framework.effects import Create, EffectBase, Patch
from volcanoio.framework.events import Event
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.core import Secret
from volcanoio.model.kinds import Kind

_KIND, _OBJECT = "$kind", "$object"


class CodecError(ValueError):
    """A line that is no record, or names an event or kind we do not know."""


class Codec:
    """Encodes and decodes records. `known` are the kinds objects may have; of others, metadata alone is decoded if
    `lenient`, else they are a CodecError.
    """

    def __init__(self, known: Iterable[Kind] = kinds.ALL, *, lenient: bool = False) -> None:
        self._lenient = lenient
        self._by_type: dict[type[ApiObject], str] = {kind.type: f"{kind.api_version}/{kind.kind}" for kind in known}
        self._by_type[ApiObject] = "meta.k8s.io/v1/PartialObjectMetadata"  # kinds of which only metadata is decoded
        self._by_name = {name: type_ for type_, name in self._by_type.items()}
        self._decoder = msgspec.json.Decoder(dict[str, Any])

    def encode(self, record: Record) -> bytes:
        """One line, without its newline."""
        content: dict[str, Any] = {"record": type(record).__name__}
        for name in record.__struct_fields__:
            content[name] = self.plain(getattr(record, name))
        return msgspec.json.encode(content)

    def decode(self, line: bytes) -> Record:
        """One record; raises CodecError."""
        try:
            content = self._decoder.decode(line)
            match content.get("record"):
                case "Told":
                    return Told(event=self._event(content["event"]))
                case "Snapshot":
                    return Snapshot(before=content["before"], state=self._restored(content["state"]))
                case _:
                    record: Record = msgspec.convert(content, Record)
                    return record
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            msg = f"not a record: {type(error).__name__}: {error}"
            raise CodecError(msg) from error

    def decided(self, actor: str, key: str, cause: int, effects: Any) -> Decided:
        """A decision in the form in which it is recorded and compared."""
        return Decided(actor=actor, key=key, cause=cause, effects=self.plain(effects))

    def plain(self, value: Any) -> Any:
        """A value as JSON has it: ApiObjects marked with their kind, secrets left out."""
        return redacted(value, self._leaf)

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, ApiObject):
            return self._marked(value)
        if isinstance(value, Event):
            fields = {name: self.plain(getattr(value, name)) for name in value.__struct_fields__}
            return {"type": type(value).__name__, **fields}
        if isinstance(value, EffectBase):
            return self._effect(value)
        return redacted(msgspec.to_builtins(value)) if isinstance(value, msgspec.Struct) else value

    def _effect(self, effect: EffectBase) -> Any:
        content = msgspec.to_builtins(effect)
        if isinstance(effect, Create) and effect.resource == SECRETS:
            content["manifest"] = redacted_secret(content["manifest"])
        elif isinstance(effect, Patch) and effect.resource == SECRETS:
            content["patch"] = redacted_secret(content["patch"])
        return redacted(content)

    def _marked(self, obj: ApiObject) -> dict[str, Any]:
        content = msgspec.to_builtins(obj)
        content = redacted_secret(content) if isinstance(obj, Secret) else redacted(content)
        return {_KIND: self._by_type[type(obj)], _OBJECT: content}

    def _restored(self, value: Any) -> Any:
        if isinstance(value, dict):
            if _KIND in value:
                name = value[_KIND]
                struct = self._by_name.get(name, ApiObject) if self._lenient else self._by_name[name]
                return msgspec.convert(value[_OBJECT], struct)
            return {key: self._restored(item) for key, item in value.items()}
        return [self._restored(item) for item in value] if isinstance(value, list) else value

    def _event(self, content: dict[str, Any]) -> Event:
        cls = _event_types()[content["type"]]
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
    """Every event class that is imported, by name."""
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
