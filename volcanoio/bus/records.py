"""What stands in a journal, one record a line."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from volcanoio.framework.events import Event

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
    """The state before the event of seq `before`: plain values, lists and dicts that may hold ApiObjects.

    The first of a process holds what it began with, mostly None.
    """

    before: int
    state: Any = None


class Told(RecordBase, frozen=True, kw_only=True):
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


Record: TypeAlias = Opened | Snapshot | Told | Decided | Configured | PluginSource
