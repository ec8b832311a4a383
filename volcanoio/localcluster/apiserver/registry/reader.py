"""Get, list and watch.

A `WatchStream` sends queued events in batches, bookmarks in between, and ends on expiry, overflow or shutdown.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from typing import Final

from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.errors import expired
from volcanoio.localcluster.apiserver.apimachinery.objects import Event, Ref, encode, frame
from volcanoio.localcluster.apiserver.apimachinery.paths import Target
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest, ApiResponse, ApiStream
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.apimachinery.selectors import (
    METADATA,
    READERS,
    SELECTABLE,
    WITHOUT_NAMESPACE,
    Selection,
    SelectorError,
    field_selector,
    label_selector,
    reader,
)
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.definitions import NAME as DEFINITIONS
from volcanoio.localcluster.apiserver.registry.options import check_list_options, number, version
from volcanoio.localcluster.apiserver.registry.views import Rendering, TableView, is_stored_form, rendering
from volcanoio.localcluster.apiserver.storage.store import Watcher
from volcanoio.model.base import Manifest

BOOKMARK_SECONDS: Final = 60.0
SHORT_WATCH_SECONDS: Final = 5
"""Watches up to this long are started for a bookmark: it is sent at once, by kube-apiserver 2 s before their end."""


class WatchStream:
    """An async iterator over batches of lines.

    `aclose` ends the subscription, also when nothing was read yet.

    Ends after `seconds` (0 for never) with a last bookmark, when `end` is called, and with an ERROR 410 line when
    the
    reader is too slow.
    """

    def __init__(
        self,
        watcher: Watcher,
        first: list[bytes],
        *,
        bookmark: Callable[[], bytes] | None,
        seconds: int,
        closed: Callable[[], None],
    ) -> None:
        self._watcher = watcher
        self._first = first
        self._bookmark = bookmark
        self._closed: Callable[[], None] | None = closed
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._deadline = now + seconds if seconds else None
        self._next_bookmark = now + (0.0 if 0 < seconds <= SHORT_WATCH_SECONDS else BOOKMARK_SECONDS)
        watcher.wake = self._wake

    def __aiter__(self) -> WatchStream:
        return self

    async def __anext__(self) -> list[bytes]:
        """Wait for the next lines."""
        if self._first:
            batch, self._first = self._first, []
            return batch
        while True:
            if self._watcher.pending:
                return self._watcher.take()
            if self._ended:
                break
            if self._watcher.overrun:
                self._ended = True
                status = expired("too old resource version: the watch fell behind; list again").status()
                return [frame("ERROR", encode(status))]
            now = self._loop.time()
            if self._deadline is not None and now >= self._deadline:
                self._ended = True
                if self._bookmark is not None:
                    return [self._bookmark()]
                break
            if self._bookmark is not None and now >= self._next_bookmark:
                self._next_bookmark = now + BOOKMARK_SECONDS
                return [self._bookmark()]
            await self._wait()
        await self.aclose()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the subscription."""
        self.end()
        closed, self._closed = self._closed, None
        if closed is not None:
            closed()

    def end(self) -> None:
        """End the iterator after the queued lines."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def _wait(self) -> None:
        """Wait until there is a line, or a bookmark or the end is due."""
        waiter = self._waiter = self._loop.create_future()
        due = self._next_bookmark if self._bookmark is not None else None
        if self._deadline is not None:
            due = self._deadline if due is None else min(due, self._deadline)
        timer = self._loop.call_at(due, self._wake) if due is not None else None
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()


class Reader:
    """Reader that answers GET, list and watch requests.

    `table` prints Tables once it is installed.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self.table: TableView | None = None
        self._streams: dict[WatchStream, str] = {}
        core.store.observers.append(self._end_unserved)

    def rendering(self, request: ApiRequest, resource: Resource) -> Rendering:
        """Return the form in which the client requests objects of the resource."""
        stored = self._core.registry.named(resource.name) or resource
        return rendering(request, resource, self.table, stored.api_version)

    def wants_stored(self, request: ApiRequest, resource: Resource) -> bool:
        """Return whether the client requests objects of the resource in their stored form."""
        return is_stored_form(request, resource, (self._core.registry.named(resource.name) or resource).api_version)

    def get(self, target: Target, request: ApiRequest) -> ApiResponse:
        """Return one object; raises ApiError 404."""
        stored = self._core.store.get(target.ref)
        self._reached(self._revision(request, listing=False))
        if stored is None:
            raise errors.not_found(target.resource, target.name)
        return ApiResponse(200, self.rendering(request, target.resource).accepted(listed=False).one(stored))

    def list(self, target: Target, request: ApiRequest) -> ApiResponse:
        """Return a list or a page of one."""
        check_list_options(request, watching=False)
        shown = self.rendering(request, target.resource)
        limit = number(request, "limit")
        token = request.first("continue")
        if token:
            if request.first("resourceVersion"):
                raise errors.bad_request("specifying resource version is not allowed when using continue")
            return ApiResponse(200, shown.page(self._core.snapshots.next(token, limit)))
        store = self._core.store
        asked = self._revision(request, listing=True)
        self._reached(asked)
        if request.first("resourceVersionMatch") == "Exact" and asked != store.revision:
            raise errors.expired("The resourceVersion for the provided list is too old.")
        if request.first("resourceVersion") == "0":
            limit = 0  # any version: the real server answers from its cache, which has no pages
        collection = store.collection(target.resource.name)
        selection = self.selection(target, request)
        found = collection.select(selection)
        selective = bool(request.first("labelSelector") or request.first("fieldSelector"))
        several = selective and limit > 0 and bool(found) and not selection.name
        has_next = several and collection.has_next(found[-1], target.namespace)
        page = self._core.snapshots.first(found, store.revision, limit, has_next=has_next)
        if page.remaining and selective:
            page = replace(page, remaining=0)  # with selectors the remaining items are not counted
        return ApiResponse(200, shown.page(page))

    def watch(self, target: Target, request: ApiRequest) -> ApiStream:
        """Return a stream of changes.

        A start before the window gives a stream with only an ERROR 410, a start in the future one with 504.
        """
        check_list_options(request, watching=True)
        store, resource = self._core.store, target.resource
        collection = store.collection(resource.name)
        shown = self.rendering(request, resource)
        selection = self.selection(target, request)
        watcher = Watcher(selection, shown.view, shown.key if shown.view is not None else None)
        asked, initial = self._revision(request, listing=False), request.flag("sendInitialEvents")
        first: list[bytes] = []
        bookmarks = request.flag("allowWatchBookmarks")
        if asked > store.revision:
            return _refusal(errors.future_version(asked, store.revision))
        if initial or (asked == 0 and request.first("sendInitialEvents") is None):
            first = [frame("ADDED", shown.one(one)) for one in collection.select(selection)]
            if initial and bookmarks:
                first.append(frame("BOOKMARK", shown.bookmark(store.revision, initial_end=True)))
            asked = store.revision
        elif asked == 0:  # explicitly without initial events
            asked = store.revision
        elif asked < collection.floor:
            return _refusal(errors.too_old(asked, collection.floor))
        stream = WatchStream(
            watcher,
            first,
            bookmark=(lambda: frame("BOOKMARK", shown.bookmark(store.revision))) if bookmarks else None,
            seconds=number(request, "timeoutSeconds"),
            closed=lambda: self._close(target, watcher, stream),
        )
        collection.subscribe(watcher, asked)
        self._streams[stream] = resource.name
        return ApiStream(stream)

    def selection(self, target: Target, request: ApiRequest) -> Selection:
        """Parse the namespace, selectors and name of a request; raises ApiError 400."""
        labels, fields = request.first("labelSelector") or "", request.first("fieldSelector") or ""
        try:
            terms = field_selector(fields)
            labelled = label_selector(labels)
        except SelectorError as error:
            raise errors.bad_request(str(error)) from None
        known, read = _selectable(target.resource)
        supported = _general(target.resource).union(known)
        for path, _, _ in terms:
            if path not in supported:
                raise _unselectable(target.resource, path, supported)
        name = next((value for path, equal, value in terms if path == "metadata.name" and equal), "") or target.name
        rest = tuple(term for term in terms if term[0] != "metadata.name" or not term[1] or term[2] != name)
        return Selection(target.namespace, name, labelled, rest, read)

    def _reached(self, asked: int) -> None:
        current = self._core.store.revision
        if asked > current:
            raise errors.future_version(asked, current)

    def _revision(self, request: ApiRequest, *, listing: bool) -> int:
        text = request.first("resourceVersion")
        if not text:
            return 0
        try:
            return version(text)
        except ValueError as error:
            if listing:
                raise errors.bad_request(f"invalid resource version: {error}") from None
            raise errors.unclassified(str(error)) from None

    def _close(self, target: Target, watcher: Watcher, stream: WatchStream) -> None:
        self._core.store.collection(target.resource.name).unsubscribe(watcher)
        self._streams.pop(stream, None)

    def _end_unserved(self, ref: Ref, event: Event) -> None:
        """End watches of a resource that is no longer served: clients list again and get a 404."""
        if ref.resource == DEFINITIONS and event.type == "DELETED":
            for stream in [one for one, resource in self._streams.items() if resource == ref.name]:
                stream.end()

    def close_all(self) -> None:
        """End all watches on shutdown."""
        for stream in list(self._streams):
            stream.end()


def _refusal(error: errors.ApiError) -> ApiStream:
    """Return a watch that only sends an error: the real server has by then answered 200."""

    async def lines() -> AsyncIterator[list[bytes]]:
        yield [frame("ERROR", encode(error.status()))]

    return ApiStream(lines())


def _general(resource: Resource) -> frozenset[str]:
    """Return the field selectors that all kinds of the resource's scope support."""
    bare = not resource.namespaced if resource.custom is not None else resource.name in WITHOUT_NAMESPACE
    return METADATA - {"metadata.namespace"} if bare else METADATA


def _unselectable(resource: Resource, path: str, supported: Iterable[str]) -> errors.ApiError:
    """Return the refusal of a field selector, in the words of the kind."""
    rest = f"; {resource.name} can be selected by {', '.join(sorted(supported))}"
    if resource.custom is None and resource.name not in SELECTABLE:
        names = ", ".join(f'"{one}"' for one in sorted(supported))
        return errors.bad_request(f'"{path}" is not a known field selector: only {names}')
    if resource.group == "batch":
        return errors.bad_request(f'field label "{path}" not supported for {resource.kind}{rest}')
    return errors.bad_request(f"field label not supported: {path}{rest}")


def _selectable(resource: Resource) -> tuple[tuple[str, ...], Callable[[Manifest], dict[str, str]] | None]:
    if resource.custom is not None:
        paths = resource.custom.selectable_fields
        return paths, reader(paths) if paths else None
    return SELECTABLE.get(resource.name, ()), READERS.get(resource.name)
