"""Messages of Kubernetes' built-in kinds: field numbers, JSON names and types, from data/protobuf.json.

The file is written by `python -m volcanoio.localcluster.apiserver.protobuf.generate`.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

TARGET: Final = Path(__file__).parent.parent / "data" / "protobuf.json"
INLINE: Final = "-"
"""Name of a field whose message is inlined into its parent."""
WHOLE: Final = "="
"""Name of the only field of a message that is a list in JSON."""


class Rule(Enum):
    """Rule for writing zero values in Go's JSON: pointers are kept, plain fields by their tag."""

    ALWAYS = "always"
    """A zero value is always written."""
    GIVEN = "given"
    """A zero value is written if it was sent."""
    NONZERO = "nonzero"
    """A zero value is omitted."""


class Field(NamedTuple):
    """One field.

    `type` is a scalar, a special type or a message, of the field itself, its items or its values.
    """

    name: str
    type: str
    rule: Rule
    is_list: bool = False
    is_map: bool = False


class Message(NamedTuple):
    """One message: its fields by number, those that are always written, and its form in JSON."""

    fields: dict[int, Field]
    always: tuple[Field, ...]
    is_list: bool


class _File(msgspec.Struct, frozen=True):
    source: str
    kinds: dict[str, str]
    messages: dict[str, dict[int, str]]


@cache
def _file() -> _File:
    return msgspec.json.decode(TARGET.read_bytes(), type=_File, strict=False)


def message_of(api_version: str, kind: str) -> str | None:
    """Return the message of a kind; None for a kind without one, such as a custom resource."""
    kinds = _file().kinds
    # Options come under the name of the group they are sent to.
    return kinds.get(f"{api_version} {kind}") or (kinds["v1 DeleteOptions"] if kind == "DeleteOptions" else None)


@cache
def message(name: str) -> Message:
    """Return the message of a name."""
    fields = {number: _field(text) for number, text in _file().messages[name].items()}
    always = tuple(field for field in fields.values() if field.rule is Rule.ALWAYS)
    return Message(fields, always, any(field.name == WHOLE for field in fields.values()))


def _field(text: str) -> Field:
    name, type_, rule = text.split(" ")
    if type_.startswith("[]"):
        return Field(name, type_[2:], Rule(rule), is_list=True)
    if type_.startswith("map["):
        return Field(name, type_[4:-1], Rule(rule), is_map=True)
    return Field(name, type_, Rule(rule))
