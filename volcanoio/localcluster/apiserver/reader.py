"""Get, list and watch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace

from volcanoio.localcluster.apiserver import errors
from volcanoio.localcluster.apiserver.api import ApiRequest, ApiResponse, ApiStream
from volcanoio.localcluster.apiserver.collection import Watcher
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.fieldpaths import METADATA, READERS, SELECTABLE, WITHOUT_NAMESPACE, reader
from volcanoio.localcluster.apiserver.kinds.definitions import NAME as DEFINITIONS
from volcanoio.localcluster.apiserver.objects import Event, Ref, encode, frame
from volcanoio.localcluster.apiserver.options import check_list_options, number, version
from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.localcluster.apiserver.selection import Selection
from volcanoio.localcluster.apiserver.selectors import SelectorError, field_selector, label_selector
from volcanoio.localcluster.apiserver.views import Rendering, TableView, is_stored_form, rendering
from volcanoio.localcluster.apiserver.watching import WatchStream
from volcanoio.model.base import Manifest


class Reader:
    """Answers reads. `table` prints Tables once it is installed."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.table: TableView | None = None
        self._streams: dict[WatchStream, str] = {}
        core.store.observers.append(self._end_unserved)

    def rendering(self, request: ApiRequest, resource: Resource) -> Rendering:
        """How this client wants to see objects of the resource."""
        stored = self._core.registry.named(resource.name) or resource
        return rendering(request, resource, self.table, stored.api_version)

    def shows_stored(self, request: ApiRequest, resource: Resource) -> bool:
        """Whether this client sees objects of the resource as they are stored."""
        return is_stored_form(request, resource, (self._core.registry.named(resource.name) or resource).api_version)

    def get(self, target: Target, request: ApiRequest) -> ApiResponse:
        """One object; raises ApiError 404."""
        stored = self._core.store.get(target.ref)
        self._reached(self._revision(request, listing=False))
        if stored is None:
            raise errors.not_found(target.resource, target.name)
        return ApiResponse(200, self.rendering(request, target.resource).accepted(listed=False).one(stored))

    def list(self, target: Target, request: ApiRequest) -> ApiResponse:
        """A list, or a page of one."""
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
            limit = 0  # any version will do: the real server answers from its cache, which knows no pages
        collection = store.collection(target.resource.name)
        selection = self.selection(target, request)
        found = collection.select(selection)
        selective = bool(request.first("labelSelector") or request.first("fieldSelector"))
        several = selective and limit > 0 and bool(found) and not selection.name
        followed = several and collection.followed(found[-1], target.namespace)
        page = self._core.snapshots.first(found, store.revision, limit, followed=followed)
        if page.remaining and selective:
            page = replace(page, remaining=0)  # who has to look at each object cannot count the rest
        return ApiResponse(200, shown.page(page))

    def watch(self, target: Target, request: ApiRequest) -> ApiStream:
        """A stream of changes; only an ERROR 410 when it would start before the window, 504 after the present."""
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
        elif asked == 0:  # expressly without them
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
        """What the namespace, selectors and name ask for; raises ApiError 400."""
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
        """Nobody watches a resource whose definition is gone: the client lists again and learns of it."""
        if ref.resource == DEFINITIONS and event.type == "DELETED":
            for stream in [one for one, resource in self._streams.items() if resource == ref.name]:
                stream.end()

    def close_all(self) -> None:
        """End all watches: the server stops."""
        for stream in list(self._streams):
            stream.end()


def _refusal(error: errors.ApiError) -> ApiStream:
    """A watch that only says why it is none: by then the real server has already answered 200."""

    async def lines() -> AsyncIterator[list[bytes]]:
        yield [frame("ERROR", encode(error.status()))]

    return ApiStream(lines())


def _general(resource: Resource) -> frozenset[str]:
    """What a kind can be selected by as others can."""
    bare = not resource.namespaced if resource.custom is not None else resource.name in WITHOUT_NAMESPACE
    return METADATA - {"metadata.namespace"} if bare else METADATA


def _unselectable(resource: Resource, path: str, supported: Iterable[str]) -> errors.ApiError:
    """A refusal in the words of the kind's registration, and what would do."""
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
