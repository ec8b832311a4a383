"""Lists in pages of one consistent snapshot."""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from volcanoio.localcluster.apiserver.errors import bad_request, expired
from volcanoio.localcluster.apiserver.objects import Stored

SNAPSHOTS = 128
"""Unfinished paged lists that are kept; the oldest one is dropped and its token expires."""


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list: its objects, the version of the whole, and how to go on."""

    items: Sequence[Stored]
    revision: int
    token: str = ""
    remaining: int = 0


class _Token(msgspec.Struct, frozen=True):
    """What is inside a continue token."""

    snapshot: int
    revision: int
    offset: int


class Snapshots:
    """The rest of each unfinished list. Objects are immutable, so a snapshot is a list of references."""

    def __init__(self, keep: int = SNAPSHOTS) -> None:
        self._keep = keep
        self._next = 0
        self._lists: OrderedDict[int, tuple[int, Sequence[Stored], bool]] = OrderedDict()

    def first(self, items: Sequence[Stored], revision: int, limit: int, *, followed: bool = False) -> Page:
        """The first page of a list; `limit` 0 or less means all of it.

        `followed` says that objects which are not selected come after the last one: whoever got a full page then has
        to ask once more to learn that there is nothing, as of a real server.
        """
        if limit <= 0 or len(items) + followed <= limit:
            return Page(items, revision)
        self._next += 1
        self._lists[self._next] = (revision, items, followed)
        if len(self._lists) > self._keep:
            self._lists.popitem(last=False)
        return self._page(self._next, 0, limit)

    def next(self, text: str, limit: int) -> Page:
        """The page a token asks for; raises ApiError 400 for a malformed token and 410 for one too old."""
        try:
            token = msgspec.json.decode(base64.urlsafe_b64decode(text.encode()), type=_Token)
        except (ValueError, binascii.Error, msgspec.MsgspecError):
            msg = "invalid continue token: continue key is not valid: it is not a token of this server; list without it"
            raise bad_request(msg) from None
        known = self._lists.get(token.snapshot)
        if known is None or known[0] != token.revision:
            msg = (
                "The provided continue parameter is too old to display a consistent list result. "
                "You can start a new list without the continue parameter."
            )
            raise expired(msg)
        return self._page(token.snapshot, token.offset, limit)

    def _page(self, snapshot: int, offset: int, limit: int) -> Page:
        revision, items, followed = self._lists[snapshot]
        end = offset + limit if limit > 0 else len(items)
        if end >= len(items) + (followed and limit > 0):
            return Page(items[offset:], revision)
        token = base64.urlsafe_b64encode(msgspec.json.encode(_Token(snapshot, revision, end))).decode()
        return Page(items[offset:end], revision, token, len(items) - end)
