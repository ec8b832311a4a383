"""Dispatch of requests on resources to operations, by method and path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from volcanoio.kube.transport import ContentType
from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.errors import ApiError
from volcanoio.localcluster.apiserver.apimachinery.objects import Stored, decode
from volcanoio.localcluster.apiserver.apimachinery.paths import Target, parse
from volcanoio.localcluster.apiserver.apimachinery.request import REQUEST, ApiRequest, ApiResponse, ApiStream
from volcanoio.localcluster.apiserver.apply.applier import Applier
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry import bodies
from volcanoio.localcluster.apiserver.registry.deleter import Deleter, status_of
from volcanoio.localcluster.apiserver.registry.kinds.strategy import (
    DELETION_RETURNS_OBJECT,
    DEPRECATED,
    JOB_DELETION,
    UPDATE_CREATES,
    UPDATE_NEEDS_VERSION,
)
from volcanoio.localcluster.apiserver.registry.options import delete_options, dry_run, number, write_options
from volcanoio.localcluster.apiserver.registry.patcher import Patcher
from volcanoio.localcluster.apiserver.registry.pod_writes import PODS, PodCreations
from volcanoio.localcluster.apiserver.registry.preconditions import check_address, check_no_uid, check_versions
from volcanoio.localcluster.apiserver.registry.reader import Reader
from volcanoio.localcluster.apiserver.registry.scale import Scaler
from volcanoio.localcluster.apiserver.registry.subresource_reviews import connecting, reviewed
from volcanoio.localcluster.apiserver.registry.subresources import Binder, Evictor, create_token, finalize_namespace
from volcanoio.localcluster.apiserver.registry.writer import Raced, Writer, Written
from volcanoio.localcluster.apiserver.storage.paging import Page
from volcanoio.localcluster.apiserver.streams import pod_connections as streams
from volcanoio.localcluster.apiserver.streams.remote import StreamSource

Operation: TypeAlias = Callable[[Target, ApiRequest], Awaitable[ApiResponse | ApiStream]]


class Dispatcher:
    """Dispatcher of requests about resources."""

    def __init__(self, core: Core, deleter: Deleter) -> None:
        self._core = core
        self._deleter = deleter
        self._writer = Writer(core)
        self._pods = PodCreations(core)
        self._patcher = Patcher(core, self._writer)
        self._applier = Applier(core, self._writer)
        self._binder = Binder(core)
        self._evictor = Evictor(core, deleter)
        self._scaler = Scaler(core, self._writer)
        self.reader = Reader(core)
        self.streams: StreamSource | None = None
        """Containers for exec and attach; None when all are simulated."""
        self._on_collection: dict[str, tuple[str, Operation]] = {
            "GET": ("list", self._list),
            "POST": ("create", self._create),
            "DELETE": ("deletecollection", self._delete_collection),
        }
        self._on_object: dict[str, tuple[str, Operation]] = {
            "GET": ("get", self._get),
            "PUT": ("update", self._update),
            "PATCH": ("patch", self._patch),
            "DELETE": ("delete", self._delete),
        }
        self._on_subresource: dict[tuple[str, str], Operation] = {
            ("status", "GET"): self._get,
            ("status", "PUT"): self._update,
            ("status", "PATCH"): self._patch,
            ("scale", "GET"): self._get_scale,
            ("scale", "PUT"): self._write_scale,
            ("scale", "PATCH"): self._write_scale,
            ("binding", "POST"): self._bind,
            ("eviction", "POST"): self._evict,
            ("token", "POST"): self._create_token,
            ("finalize", "PUT"): self._finalize,
            **{
                (name, method): self._connect
                for name in ("exec", "attach", "portforward")
                for method in ("GET", "POST")
            },
        }

    async def dispatch(self, request: ApiRequest) -> ApiResponse | ApiStream:
        """Carry out a request; raises ApiError."""
        if request.method == "GET":
            return await self._carry_out(request)
        token = REQUEST.set(request)
        try:
            return await self._carry_out(request)
        finally:
            REQUEST.reset(token)

    async def _carry_out(self, request: ApiRequest) -> ApiResponse | ApiStream:
        target = parse(request.path, self._core.registry)
        custom = target.resource.custom
        if custom is not None and custom.refusal:
            raise errors.internal(custom.refusal)
        deprecation = DEPRECATED.get(target.resource.name) if custom is None else custom.deprecation
        if (
            target.resource.name == "jobs.batch"
            and request.method == "DELETE"
            and delete_options(request).has_default_propagation
        ):
            deprecation = JOB_DELETION
        if not deprecation:
            return await self._operate(target, request)
        try:
            answer = await self._operate(target, request)
        except ApiError as error:
            refused = deprecation is JOB_DELETION and error.code == 400  # Jobs are not reconciled yet
            if custom is not None or not (refused or _is_unrouted(error, request)):
                error.warnings = (deprecation, *error.warnings)
            raise
        return msgspec.structs.replace(answer, warnings=(deprecation, *answer.warnings))

    async def _operate(self, target: Target, request: ApiRequest) -> ApiResponse | ApiStream:
        if target.subresource:
            operation = self._on_subresource.get((target.subresource, request.method))
            if operation is None:
                raise errors.method_not_allowed()
            return await operation(target, request)
        if not target.namespace and target.resource.namespaced and request.method != "GET":
            raise errors.NoPageError if target.resource.custom is not None else errors.method_not_allowed()
        if target.name and request.method == "POST" and target.resource.custom is not None:
            target = target._replace(name="")  # the real server ignores it
        table = self._on_object if target.name else self._on_collection
        verb, operation = table.get(request.method, ("", None))
        if operation is None or verb not in target.resource.verbs:
            if not target.name and request.method in {"PUT", "PATCH"} and target.resource.custom is not None:
                raise errors.bad_request("name must be provided")
            raise errors.method_not_allowed()
        return await operation(target, request)

    async def _get(self, target: Target, request: ApiRequest) -> ApiResponse | ApiStream:
        return self.reader.get(target, request)

    async def _list(self, target: Target, request: ApiRequest) -> ApiResponse | ApiStream:
        return self.reader.watch(target, request) if request.flag("watch") else self.reader.list(target, request)

    async def _create(self, target: Target, request: ApiRequest) -> ApiResponse:
        if target.resource.name == "bindings":
            return await self._bind(target, request)
        if target.resource.name == PODS and (data := self._pods.create(target, request)) is not None:
            return await self._answer(201, target, request, Written(data))
        bodies.check_type(request)
        options = write_options(request)
        obj, body = bodies.read_object(request, target.resource)
        written = await self._writer.create(target, obj, body, options)
        if target.resource.name == PODS:
            self._pods.cache_spec(target, request, written)
        return await self._answer(201, target, request, written)

    async def _update(self, target: Target, request: ApiRequest) -> ApiResponse:
        resource = target.resource
        options = write_options(request)
        new, body = bodies.read_object(request, resource)
        warnings = bodies.check_fields(new, body, resource, options.validation)
        options = options._replace(validation="Ignore")  # fields are checked
        meta = new["metadata"]
        try:
            check_address(target, meta)
            if resource.name in UPDATE_CREATES and not target.subresource and self._core.store.get(target.ref) is None:
                check_no_uid(target, meta)
                meta.pop("resourceVersion", None)
                made = await self._writer.create(target, new, body, options)
                return await self._answer(201, target, request, made._replace(warnings=warnings + made.warnings))
            current = self._stored(target)
            check_versions(
                target, current, meta, required=resource.custom is not None or resource.name in UPDATE_NEEDS_VERSION
            )
            written = await self._writer.update(target, current, new, body, options)
        except Raced:
            raise errors.modified(resource, target.name) from None
        except ApiError as error:
            error.warnings = error.warnings or warnings
            raise
        return await self._answer(200, target, request, written._replace(warnings=warnings + written.warnings))

    async def _patch(self, target: Target, request: ApiRequest) -> ApiResponse:
        if bodies.content_type(request) == ContentType.APPLY_PATCH:
            outcome = await self._applier.apply(target, request)
            return await self._answer(201 if outcome.created else 200, target, request, outcome.written)
        return await self._answer(200, target, request, await self._patcher.patch(target, request))

    async def _delete(self, target: Target, request: ApiRequest) -> ApiResponse:
        if request.body:
            bodies.check_type(request)
        deleted = await self._deleter.delete(target, delete_options(request))
        await self._core.durable()
        if deleted.gone and target.resource.name not in DELETION_RETURNS_OBJECT:
            return ApiResponse(200, status_of(target, deleted), warnings=deleted.warnings)
        return await self._answer(200, target, request, Written(deleted.data, deleted.warnings))

    async def _delete_collection(self, target: Target, request: ApiRequest) -> ApiResponse:
        """Delete all selected objects; those that disappear meanwhile are ignored."""
        number(request, "limit")
        selection = self.reader.selection(target, request)
        options = delete_options(request)
        found = self._core.store.collection(target.resource.name).select(selection)
        warnings: tuple[str, ...] = ()
        for stored in found:
            one = Target(target.resource, stored.namespace, stored.name)
            try:
                warnings += (await self._deleter.delete(one, options, collection=True)).warnings
            except ApiError as error:
                if error.code != 404:
                    raise
        await self._core.durable()
        listed = self.reader.rendering(request, target.resource).page(Page(found, self._core.store.revision))
        return ApiResponse(200, listed, warnings=tuple(dict.fromkeys(warnings)))

    async def _get_scale(self, target: Target, request: ApiRequest) -> ApiResponse:
        del request
        return ApiResponse(200, self._scaler.get(target))

    async def _write_scale(self, target: Target, request: ApiRequest) -> ApiResponse:
        body, warnings = await self._scaler.write(target, request)
        await self._core.durable()
        return ApiResponse(200, body, warnings=warnings)

    async def _bind(self, target: Target, request: ApiRequest) -> ApiResponse:
        request, warnings = await reviewed(self._core, target, request)
        body = self._binder.bind(target.namespace, target.name, request.body, dry_run=dry_run(request))
        await self._core.durable()
        return ApiResponse(201, body, warnings=warnings)

    async def _create_token(self, target: Target, request: ApiRequest) -> ApiResponse:
        request, warnings = await reviewed(self._core, target, request)
        return ApiResponse(201, create_token(self._core, target, request), warnings=warnings)

    async def _finalize(self, target: Target, request: ApiRequest) -> ApiResponse:
        body = finalize_namespace(self._core, target, request)
        await self._core.durable()
        return ApiResponse(200, body)

    async def _evict(self, target: Target, request: ApiRequest) -> ApiResponse:
        request, warnings = await reviewed(self._core, target, request)
        body = await self._evictor.evict(target, request)
        await self._core.durable()
        return ApiResponse(201, body, warnings=warnings)

    async def _connect(self, target: Target, request: ApiRequest) -> ApiResponse:
        pod = self._stored(target).decode()
        if self._core.webhooks.configured:
            await connecting(self._core, target, request)
        return streams.connect(self.streams, pod, target.subresource, request)

    def _stored(self, target: Target) -> Stored:
        stored = self._core.store.get(target.ref)
        if stored is None:
            raise errors.not_found(target.resource, target.name)
        return stored

    async def _answer(self, status: int, target: Target, request: ApiRequest, written: Written) -> ApiResponse:
        """Return the written object in the form that the client requests, once it is durable."""
        await self._core.durable()
        data = written.data
        if self.reader.wants_stored(request, target.resource):
            return ApiResponse(status, self._core.store.shared(data), warnings=written.warnings)
        shown = self.reader.rendering(request, target.resource).accepted(listed=False)
        if shown.view is not None:
            obj = decode(data)
            revision = int(obj["metadata"].get("resourceVersion") or 0)
            data = shown.one(Stored(target.namespace, obj["metadata"]["name"], revision, obj, data))
        return ApiResponse(status, data, warnings=written.warnings)


def _is_unrouted(error: ApiError, request: ApiRequest) -> bool:
    """Return whether the real server's router refuses it for a built-in kind, without warnings."""
    return error.code == 405 or (error.code == 415 and request.method == "PATCH")
