"""Pages of lists, from one consistent snapshot."""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from volcanoio.localcluster.apiserver.apimachinery.errors import bad_request, expired
from volcanoio.localcluster.apiserver.apimachinery.objects import Stored

SNAPSHOTS = 128
"""Maximal number of unfinished paged lists; the oldest one is dropped and its token expires."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list: its objects, the version of the list, and the token of the next page."""

    items: Sequence[Stored]
    revision: int
    token: str = ""
    remaining: int = 0


class _Token(msgspec.Struct, frozen=True):
    """Content of a continue token."""

    snapshot: int
    revision: int
    offset: int


class Snapshots:
    """Remaining objects of unfinished lists.

    Objects are immutable, so a snapshot is a list of references.
    """

    def __init__(self, keep: int = SNAPSHOTS) -> None:
        self._keep = keep
        self._next = 0
        self._lists: OrderedDict[int, tuple[int, Sequence[Stored], bool]] = OrderedDict()

    def first(self, items: Sequence[Stored], revision: int, limit: int, *, has_next: bool = False) -> Page:
        """Return the first page of a list; `limit` 0 or less returns all of it.

        `has_next` is whether unselected objects follow the last one: then a full page has a token although the next
        page is empty, as from a real server.
        """
        if limit <= 0 or len(items) + has_next <= limit:
            return Page(items, revision)
        self._next += 1
        self._lists[self._next] = (revision, items, has_next)
        if len(self._lists) > self._keep:
            self._lists.popitem(last=False)
        return self._page(self._next, 0, limit)

    def next(self, text: str, limit: int) -> Page:
        """Return the page of a token.

        Raises ApiError 400 for a malformed token and 410 for an expired one.
        """
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
        revision, items, has_next = self._lists[snapshot]
        end = offset + limit if limit > 0 else len(items)
        if end >= len(items) + (has_next and limit > 0):
            return Page(items[offset:], revision)
        token = base64.urlsafe_b64encode(msgspec.json.encode(_Token(snapshot, revision, end))).decode()
        return Page(items[offset:end], revision, token, len(items) - end)
