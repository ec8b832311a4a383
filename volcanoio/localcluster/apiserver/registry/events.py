"""`/apis/events.k8s.io/v1`, translated to core v1's Events and back.

The differences are names of top-level fields (Kubernetes: `pkg/apis/events/v1/conversion.go`), so that an object, a
merge patch and an applied configuration are translated alike. Additional rules of this version:
`pkg/apis/core/validation/events.go`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from volcanoio.kube.transport import ContentType
from volcanoio.localcluster.apiserver.apimachinery.errors import ApiError, bad_request, invalid_object
from volcanoio.localcluster.apiserver.apimachinery.objects import decode, encode
from volcanoio.localcluster.apiserver.apimachinery.paths import Target, parse
from volcanoio.localcluster.apiserver.apimachinery.request import REQUEST, ApiRequest, ApiResponse, ApiStream
from volcanoio.localcluster.apiserver.apimachinery.selectors import SelectorError, field_selector
from volcanoio.localcluster.apiserver.apimachinery.served_resources import Registry
from volcanoio.localcluster.apiserver.apply.configuration import options
from volcanoio.localcluster.apiserver.registry import bodies, metadata
from volcanoio.localcluster.apiserver.registry.kinds.events import event_errors
from volcanoio.localcluster.apiserver.registry.options import field_validation, write_options
from volcanoio.localcluster.apiserver.registry.patcher import apply_patch, patch_function
from volcanoio.model.base import Manifest
from volcanoio.model.validation.field_errors import FieldError, invalid, required

GROUP_VERSION: Final = "events.k8s.io/v1"
TO_CORE: Final[Mapping[str, str]] = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
FROM_CORE: Final[Mapping[str, str]] = {core: name for name, core in TO_CORE.items()}
SELECTABLE: Final = {
    **{f"regarding.{key}": f"involvedObject.{key}" for key in ("kind", "namespace", "name", "uid", "apiVersion")},
    **{f"regarding.{key}": f"involvedObject.{key}" for key in ("resourceVersion", "fieldPath")},
    "reportingController": "reportingComponent",
    **{key: key for key in ("reason", "type", "metadata.name", "metadata.namespace")},
}
"""Selectable fields, and their names in core v1."""


def to_core(value: Manifest) -> Manifest:
    """Translate an event, or a part of one, to core v1's names."""
    found = {TO_CORE.get(key, key): one for key, one in value.items()}
    if found.get("apiVersion") == GROUP_VERSION:
        found["apiVersion"] = "v1"
    return found


def from_core(event: Manifest) -> Manifest:
    """Translate an event to the names of events.k8s.io/v1."""
    return {FROM_CORE.get(key, key): one for key, one in event.items()} | {"apiVersion": GROUP_VERSION}


def pointer_to_core(pointer: Any) -> Any:
    """Translate a JSON pointer to core v1's names; other values are left for validation."""
    if not isinstance(pointer, str):
        return pointer
    parts = pointer.split("/")
    if len(parts) > 1:
        parts[1] = TO_CORE.get(parts[1], parts[1])
    return "/".join(parts)


_TYPES: Final = ("Normal", "Warning")
_UNSET: Final = ("firstTimestamp", "lastTimestamp", "count", "source")
_FIXED: Final = (
    *("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type", "eventTime"),
    *("action", "related", "reportingComponent", "reportingInstance"),
)
"""Fields that only core v1 may change; here only a series may grow."""


_CONTROLLER = FROM_CORE["reportingComponent"]
"""The only field that is shown under its newer name."""


def create_errors(event: Manifest, namespace: str) -> list[FieldError]:
    """Return validation errors of a new event, under core v1's names."""
    found = event_errors(event, namespace, FROM_CORE["reportingComponent"])
    if not event.get("eventTime"):
        found.append(required("eventTime"))
    if event.get("type") not in _TYPES:
        found.append(invalid("type", "", f"has invalid value: {event.get('type') or ''}"))
    return found + [invalid(name, "", "needs to be unset") for name in _UNSET if event.get(name)]


def update_errors(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return errors of forbidden changes, and validation errors after them."""
    found = event_errors(new, str(old["metadata"].get("namespace", "")), FROM_CORE["reportingComponent"])
    return found + [
        invalid(_CONTROLLER if name == "reportingComponent" else name, new.get(name), "field is immutable")
        for name in _FIXED
        if (new.get(name) or None) != (old.get(name) or None)
    ]


_PREFIX: Final = "/apis/events.k8s.io/v1/"
_CORE: Final = "/api/v1/"
_STATUS_NAME: Final = 'events "'


class EventsRoute:
    """The route. `handle` carries out the translated request; `new_suffix` ends generated names."""

    def __init__(
        self,
        registry: Registry,
        handle: Callable[[ApiRequest], Awaitable[ApiResponse | ApiStream]],
        new_suffix: Callable[[], str],
    ) -> None:
        self._new_suffix = new_suffix
        self._registry = registry
        self._core = registry.builtin("events")
        self._handle = handle

    async def __call__(self, request: ApiRequest) -> ApiResponse | ApiStream | None:
        """Answer a request for events.k8s.io/v1; None for any other. Raises ApiError."""
        if not request.path.startswith(_PREFIX):
            return None
        target = parse(request.path, self._registry)
        query = dict(request.query)
        if request.first("fieldSelector"):
            query["fieldSelector"] = [_fields(request.first("fieldSelector") or "")]
        path = _CORE + request.path.removeprefix(_PREFIX)
        body, headers = request.body, request.headers
        warnings: tuple[str, ...] = ()
        if request.method in {"POST", "PUT"}:
            token = REQUEST.set(request)
            try:
                body, warnings = await self._object(target, request)
            finally:
                REQUEST.reset(token)
            headers = {**headers, "content-type": "application/json"}
        elif request.method == "PATCH":
            body = await self._patch(target, request)
        try:
            answer = await self._handle(ApiRequest(request.method, path, query, headers, body, request.user))
        except ApiError as error:
            error.warnings = warnings + error.warnings
            raise
        if isinstance(answer, ApiStream):
            return msgspec.structs.replace(answer, batches=_translated(answer.batches))
        return msgspec.structs.replace(answer, body=_answer(answer.body), warnings=(*warnings, *answer.warnings))

    async def _object(self, target: Target, request: ApiRequest) -> tuple[bytes, tuple[str, ...]]:
        """Return the object to store, and warnings."""
        event, body = bodies.read_object(request, target.resource)
        warnings = bodies.check_fields(event, body, target.resource, field_validation(request))
        core = to_core(event)
        old = {} if request.method == "POST" else await self._stored(request.path)
        meta = core["metadata"]
        stale = request.method == "PUT" and _is_stale(meta, old.get("metadata") or {})
        prefix = meta.get("generateName")
        if request.method == "POST" and not meta.get("name") and isinstance(prefix, str) and prefix:
            meta["name"] = f"{prefix[:58]}{self._new_suffix()}"
        named = request.method == "POST" or meta.get("name") == target.name
        if named and meta.get("namespace") in {None, "", target.namespace} and not stale:
            found = update_errors(core, old) if old else create_errors(core, target.namespace)
            self._refuse(core, found and found + metadata.errors(target.resource, meta), warnings)
        return encode(core), warnings

    async def _patch(self, target: Target, request: ApiRequest) -> bytes:
        """Return the translated patch."""
        if bodies.content_type(request) == ContentType.APPLY_PATCH:
            options(request)
            write_options(request)
            applied = bodies.read(msgspec.structs.replace(request, headers={"content-type": "application/yaml"}))
            if not isinstance(applied, dict):
                return request.body
            core = to_core(applied)
            meta = {"name": target.name, **(core.get("metadata") or {})}
            here = meta.get("name") == target.name and meta.get("namespace") in {None, "", target.namespace}
            if request.first("fieldManager") and here:
                old = await self._stored(request.path)
                found = update_errors({**old, **core}, old) if old else create_errors(core, target.namespace)
                self._refuse({**core, "metadata": meta}, found and found + metadata.errors(target.resource, meta))
            return encode(core)
        apply = patch_function(request, target.resource)
        old = await self._stored(request.path)
        if not old:  # only this error is reported
            return request.body
        patch = bodies.parse_json(request.body)
        if isinstance(patch, list):
            patch = [_operation(one) for one in patch]
        elif isinstance(patch, dict):
            patch = to_core(patch)
        new = apply_patch(apply, decode(encode(old)), decode(encode(patch)))
        self._refuse(new, update_errors(new, old))
        return encode(patch)

    async def _stored(self, path: str) -> Manifest:
        """Return the stored event; empty when there is none."""
        answer = await self._handle(ApiRequest("GET", _CORE + path.removeprefix(_PREFIX)))
        if isinstance(answer, ApiStream) or answer.status != 200:
            return {}
        stored: Manifest = decode(answer.body)
        return stored

    def _refuse(self, event: Manifest, found: list[FieldError], warnings: tuple[str, ...] = ()) -> None:
        if found:
            error = invalid_object(self._core, str(event["metadata"].get("name", "")), found)
            error.warnings = warnings
            raise error


def _fields(text: str) -> str:
    """Translate a field selector to core v1's names; raises ApiError 400."""
    try:
        terms = field_selector(text)
    except SelectorError as error:
        raise bad_request(str(error)) from None
    for path, _, _ in terms:
        if path not in SELECTABLE:
            raise bad_request(f"field label not supported: {path}")
    return ",".join(f"{SELECTABLE[path]}{'=' if equal else '!='}{value}" for path, equal, value in terms)


def _is_stale(stated: Manifest, known: Manifest) -> bool:
    """Return whether an update is of another object or version; that error is reported first."""
    return any(
        stated.get(key) not in {None, "", known.get(key)} for key in ("uid", "resourceVersion")[: 1 + bool(known)]
    )


def _operation(one: Any) -> Any:
    if not isinstance(one, dict):
        return one
    return {key: pointer_to_core(value) if key in {"path", "from"} else value for key, value in one.items()}


def _answer(body: bytes) -> bytes:
    """Translate an answer: an event, a list of them, or a Status about one."""
    obj = decode(body)
    match obj.get("kind"):
        case "Event":
            return encode(from_core(obj))
        case "EventList":
            items = [from_core(one) for one in obj["items"]]
            return encode(obj | {"apiVersion": "events.k8s.io/v1", "items": items})
        case "Status" if obj.get("reason") == "Invalid":
            return body.replace(b"reportingComponent", b"reportingController")
        case "Status" if (obj.get("details") or {}).get("kind") == "events":
            if str(obj.get("message", "")).startswith(_STATUS_NAME):
                obj["message"] = "events.events.k8s.io" + obj["message"].removeprefix("events")
            return encode(obj | {"details": {**obj["details"], "group": "events.k8s.io"}})
    return body


async def _translated(batches: AsyncIterator[list[bytes]]) -> AsyncIterator[list[bytes]]:
    """Translate the lines of a watch."""
    try:
        async for lines in batches:
            yield [_line(line) for line in lines]
    finally:
        close = getattr(batches, "aclose", None)
        if close is not None:
            await close()


def _line(line: bytes) -> bytes:
    change = decode(line)
    if change["object"].get("kind") != "Event":
        return line
    return encode({"type": change["type"], "object": from_core(change["object"])})
