"""Forms in which a client requests objects: whole, metadata only, or as a Table."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, Protocol

from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.objects import Stored, View, decode, encode
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.storage.paging import Page
from volcanoio.model.base import Manifest

_WHOLE: Final = frozenset({"", "application/json", "*/*", "application/*"})
_PARTIALS: Final = "PartialObjectMetadataList"
_INCLUDES: Final = ("None", "Metadata", "Object")


class TableView(Protocol):
    """Printer of objects as a `meta.k8s.io/v1` Table."""

    def __call__(
        self, resource: Resource, objects: list[Manifest], *, include_object: str, with_columns: bool
    ) -> Manifest:
        """Return the Table.

        `include_object` is None, Metadata or Object as in the query parameter includeObject.
        """
        ...


class Rendering:
    """Encoder of objects and lists in one form. `key` is equal for equal forms of a resource."""

    def __init__(
        self, resource: Resource, form: str, table: TableView | None, include: str, stored_version: str
    ) -> None:
        self._resource = resource
        self._form = form
        self._table = table
        self._include = include
        self._convert = resource.api_version != stored_version
        self.key: Hashable = (resource.version, form, include)
        kind, api_version = encode(resource.kind), encode(resource.api_version)
        self._beginnings = (
            b'{"apiVersion":' + api_version + b',"kind":' + kind + b",",
            b'{"kind":' + kind + b',"apiVersion":' + api_version + b",",
        )
        self.view: View | None = self.one if form or self._convert else None
        """The form of objects in a watch; None for stored JSON."""

    def accepted(self, *, listed: bool) -> Rendering:
        """Check that the form suits an object or a list; raises ApiError 406.

        PartialObjectMetadata is for objects and PartialObjectMetadataList for lists; other forms suit both, as do
        watches either.
        """
        if self._form and self._form != "Table" and listed != (self._form == _PARTIALS):
            if self._resource.custom is not None and not listed:
                raise errors.unclassified("content is not a list")
            package = self._resource.group.partition(".")[0] or "core"
            if self._resource.custom is not None:
                kind = "*unstructured.Unstructured"
            else:
                kind = f"*{'core' if package == 'events' else package}.{self._resource.kind}"
            found = f"a list ({kind}List)" if listed else f"not a list ({kind})"
            text = f"you requested {self._form}, but the requested object is {found}"
            raise errors.ApiError(406, "NotAcceptable", text)
        return self

    def one(self, stored: Stored) -> bytes:
        """Encode a single object."""
        if self.view is None:
            return stored.data
        obj = self._decode(stored)
        if self._form == "Table":
            table = self._tabulate([obj])
            table["metadata"] = {"resourceVersion": str(stored.revision)}
            return encode(table)
        return encode(_metadata_only(obj) if self._form else obj)

    def page(self, page: Page) -> bytes:
        """Encode a list; raises ApiError 406 for the metadata form of a single object."""
        self.accepted(listed=True)
        metadata: Manifest = {"resourceVersion": str(page.revision)}
        if page.token:
            metadata["continue"] = page.token
        if page.remaining:
            metadata["remainingItemCount"] = page.remaining
        if self._form == "Table":
            table = self._tabulate([self._decode(one) for one in page.items])
            return encode(table | {"metadata": metadata})
        kind, api_version = self._resource.list_kind, self._resource.api_version
        if self._form:
            kind, api_version = _PARTIALS, "meta.k8s.io/v1"
        head = encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})
        return head[:-1] + b',"items":[' + b",".join(self._items(page.items)) + b"]}"

    def bookmark(self, revision: int, *, initial_end: bool = False) -> bytes:
        """Encode the object of a BOOKMARK: the watched kind with a version only."""
        metadata: Manifest = {"resourceVersion": str(revision)}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        if self._form == "Table":
            obj = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
            rows = [{"cells": [], "object": obj}]
            table = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": str(revision)}}
            return encode({**table, "columnDefinitions": [], "rows": rows})
        kind, api_version = self._resource.kind, self._resource.api_version
        if self._form:
            kind, api_version = "PartialObjectMetadata", "meta.k8s.io/v1"
        return encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})

    def _items(self, items: Sequence[Stored]) -> list[bytes]:
        if self.view is not None:
            return [self.one(one) for one in items]
        if self._resource.custom is not None:
            return [one.data for one in items]
        return [self._untyped(one.data) for one in items]

    def _untyped(self, data: bytes) -> bytes:
        """Return a list item without apiVersion and kind.

        The list of a built-in kind states them once.
        """
        for beginning in self._beginnings:
            if data.startswith(beginning):
                return b"{" + data[len(beginning) :]
        return encode({key: value for key, value in decode(data).items() if key not in {"kind", "apiVersion"}})

    def _decode(self, stored: Stored) -> Manifest:
        obj = stored.decode()
        custom, api_version = self._resource.custom, self._resource.api_version
        if custom is not None:
            return custom.seen(obj, api_version)
        obj["apiVersion"] = api_version
        return obj

    def _tabulate(self, objects: list[Manifest]) -> Manifest:
        if self._table is None:
            raise errors.internal("no table view is installed")
        return self._table(self._resource, objects, include_object=self._include, with_columns=True)


def is_stored_form(request: ApiRequest, resource: Resource, stored_version: str) -> bool:
    """Return whether a client gets objects in their stored form.

    Most clients in this process do.
    """
    return request.headers.get("accept", "") in _WHOLE and resource.api_version == stored_version


def rendering(request: ApiRequest, resource: Resource, table: TableView | None, stored_version: str) -> Rendering:
    """Return the first supported form in the Accept header; raises ApiError 400 and 406."""
    form = _form(request.headers.get("accept", ""), table is not None)
    include = (request.first("includeObject") or "Metadata") if form == "Table" else ""
    if include and include not in _INCLUDES:
        raise errors.bad_request(
            f'includeObject: Unsupported value: "{include}": supported values: {", ".join(_INCLUDES)}'
        )
    return Rendering(resource, form, table, include, stored_version)


def _form(accept: str, has_table: bool) -> str:
    """Return `Table`, `PartialObjectMetadata` or its list, or "" for the whole object."""
    if accept in _WHOLE:
        return ""
    for item in accept.split(","):
        media, *parameters = [part.strip() for part in item.split(";")]
        if media not in _WHOLE:
            continue
        named = dict(one.split("=", 1) for one in parameters if "=" in one)
        match named.get("as"):
            case None:
                return ""
            case "Table" if has_table and named.get("v", "v1") in {"v1", "v1beta1"}:
                return "Table"
            case "PartialObjectMetadata" | "PartialObjectMetadataList" as form:
                return form
    text = "only the following media types are accepted: application/json"
    raise errors.ApiError(406, "NotAcceptable", text)


def _metadata_only(obj: Manifest) -> Manifest:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
