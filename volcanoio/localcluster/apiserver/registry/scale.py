"""The scale subresource (autoscaling/v1 Scale): replicas of any kind.

The manager of an object's replicas also manages those of its Scale, and the reverse (apimachinery `managedfields`,
ScaleHandler).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from volcanoio.kube.transport import ContentType
from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.objects import Stored, decode, encode
from volcanoio.localcluster.apiserver.apimachinery.paths import Target
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.apply import configuration, field_sets, managed_fields, ownership
from volcanoio.localcluster.apiserver.apply.application import ApplyRequest, applied
from volcanoio.localcluster.apiserver.apply.field_sets import Path
from volcanoio.localcluster.apiserver.apply.managed_fields import Owned, Owners
from volcanoio.localcluster.apiserver.apply.managed_fields import decode as decode_owners
from volcanoio.localcluster.apiserver.apply.managers import current_manager
from volcanoio.localcluster.apiserver.apply.ownership import Terms
from volcanoio.localcluster.apiserver.apply.resource_types import named_type
from volcanoio.localcluster.apiserver.apply.types import Type
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry import bodies
from volcanoio.localcluster.apiserver.registry.options import (
    FieldValidation,
    WriteOptions,
    dry_run,
    field_validation,
    write_options,
)
from volcanoio.localcluster.apiserver.registry.patcher import apply_patch, decoded_patch, patch_function, patch_options
from volcanoio.localcluster.apiserver.registry.preconditions import check_address, check_versions, uid_errors
from volcanoio.localcluster.apiserver.registry.subresource_reviews import reviewed_update
from volcanoio.localcluster.apiserver.registry.writer import Raced, Writer
from volcanoio.localcluster.apiserver.schema.builtin_types import check_part
from volcanoio.localcluster.apiserver.schema.compiled import ScalePaths
from volcanoio.model.base import Manifest
from volcanoio.model.validation.field_errors import invalid

API_VERSION: Final = "autoscaling/v1"
KIND: Final = "Scale"
SUBRESOURCE: Final = "scale"
_REPLICAS: Final = field_sets.of(("f:spec", "f:replicas"))

ReplicasOf: TypeAlias = Callable[[str], Path | None]
"""Path of the replicas in an apiVersion; empty without a scale, None for an unserved version."""


def scale_terms(*, written: bool = False) -> Terms:
    """Return the terms of a write to a Scale."""

    def type_of(version: str) -> Type | None:
        return named_type("V1Scale", written=written) if version == API_VERSION else None

    return Terms(API_VERSION, type_of, {})


def steps(json_path: str) -> Path:
    """Convert a path such as `.spec.replicas` to steps."""
    return tuple(f"f:{name}" for name in json_path.lstrip(".").split("."))


def to_scale(parents: Owners, replicas_of: ReplicasOf) -> Owners:
    """Return the owners of a Scale, derived from those of its object."""
    found: Owners = {}
    for owner, owned in parents.items():
        path = replicas_of(owned.version)
        if path and field_sets.contains(owned.fields, path):
            version = API_VERSION if owner.operation == "Update" else ""
            found[owner._replace(version=version)] = Owned(_REPLICAS, API_VERSION, owned.time)
    return found


def updated(live: Manifest, new: Manifest, known: Owners, manager: str, now: str) -> Owners:
    """Return the owners of a Scale after an update; empty when it is not tracked."""
    if not known:
        return {}
    author = managed_fields.Author(managed_fields.updater(manager, API_VERSION, SUBRESOURCE), now)
    return ownership.update(scale_terms(), live, new, known, author)


def to_parent(parents: Owners, scales: Owners, replicas_of: ReplicasOf, version: str) -> list[Manifest]:
    """Return metadata.managedFields of an object in `version`.

    They derive from the object's owners before and from the current owners of its Scale.

    An updater that keeps the replicas has two entries afterwards, as in Kubernetes, which distinguishes them by the
    version of the Scale meanwhile.
    """
    left, pairs = dict(scales), []
    for owner, owned in parents.items():
        path = replicas_of(owned.version)
        if path is None:
            continue
        if not path or not field_sets.contains(owned.fields, path) or owner in left:
            pairs.append((owner, owned))
            if path:
                left.pop(owner, None)
        elif fields := field_sets.difference(owned.fields, field_sets.of(path)):
            pairs.append((owner, owned._replace(fields=fields)))
    own_path = replicas_of(version)
    for owner, owned in left.items():
        if own_path and field_sets.contains(owned.fields, ("f:spec", "f:replicas")):
            known = parents.get(owner)
            time = known.time if known else ""
            pairs.append((owner, Owned(field_sets.of(own_path), version, time)))
    return managed_fields.encode_pairs(pairs)


_SCALE: Final = Resource("autoscaling", "v1", "Scale", "scales")
_BUILTIN: Final = ScalePaths(".spec.replicas", ".status.replicas", ".status.selector")


class _Meta(msgspec.Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class _Spec(msgspec.Struct):
    replicas: int = 0


class _Scale(msgspec.Struct):
    """The parts of `autoscaling/v1 Scale` that are read."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)


def _converted(scale: Any, *, patching: bool) -> _Scale:
    """Convert a Scale from a client or a patch; raises ApiError 400 and 422."""
    try:
        return msgspec.convert(scale, _Scale)
    except msgspec.ValidationError as error:
        if patching and isinstance(scale, dict):
            raise errors.invalid_patch_result(scale, str(error)) from None
        raise errors.UndecodableError(_SCALE, str(error)) from None


def _read(target: Target, request: ApiRequest, validation: FieldValidation) -> tuple[Manifest, _Scale, tuple[str, ...]]:
    """Read the Scale of a PUT, and warnings of its fields; raises ApiError 400.

    The server of custom resources has no Go type for a Scale, and reports only that when it cannot decode one.
    """
    try:
        put, body = bodies.read_object(request, _SCALE)
        repeated = bodies.repeated_fields(body, put, validation)
        warnings = _check_fields(put, validation, repeated)
        return put, _converted(put, patching=False), warnings
    except errors.ApiError as error:
        if target.resource.custom is None or error.code != 400:
            raise
        text = 'no kind is registered for the type v1.Scale in scheme "pkg/runtime/scheme.go:111"'
        raise errors.bad_request(text) from None


def _check_fields(
    scale: Manifest, validation: FieldValidation, repeated: Sequence[str] = (), *, patching: bool = False
) -> tuple[str, ...]:
    """Return warnings of repeated and unknown fields; raises ApiError under Strict."""
    if validation == "Ignore":
        return ()
    found = [*repeated, *(f'unknown field "{path}"' for path in check_part(scale, "V1Scale", "")[0])]
    if found and validation == "Strict":
        why = f"strict decoding error: {', '.join(found)}"
        raise errors.invalid_patch_result(scale, why) if patching else errors.UndecodableError(_SCALE, why)
    return tuple(found)


class Scaler:
    """Reader and writer of Scale objects."""

    def __init__(self, core: Core, writer: Writer) -> None:
        self._core = core
        self._writer = writer

    def get(self, target: Target) -> bytes:
        """Return the Scale of an object."""
        return encode(self._scale(target, self._stored(target).decode()))

    async def write(self, target: Target, request: ApiRequest) -> tuple[bytes, tuple[str, ...]]:
        """Apply a PUT or PATCH to the Scale; returns the new Scale and warnings. Raises ApiError."""
        patching = request.method == "PATCH"
        applying = bodies.content_type(request) == ContentType.APPLY_PATCH and patching
        put: Manifest = {}
        wanted = _Scale()
        warnings: tuple[str, ...] = ()
        if applying:
            validation = write_options(request).validation
        elif patching:
            patch_function(request, target.resource)
            validation = patch_options(request).validation
        else:
            validation = write_options(request).validation
            put, wanted, warnings = _read(target, request, validation)
            check_address(target, msgspec.to_builtins(wanted.metadata))
        current = self._stored(target)
        obj = current.decode()
        owners: Owners | None
        if applying:
            scale, owners = self._applied(target, request, obj)
        else:
            scale, owners = self._changed(target, request, obj, put)
        if patching:
            wanted = _converted(scale, patching=True)
            warnings = () if applying else _check_fields(scale, validation, patching=True)
        stated = msgspec.to_builtins(wanted.metadata)
        check_address(target, stated)
        check_versions(target, current, stated, patching=patching)
        if found := uid_errors(current, stated.get("uid")):
            raise errors.invalid_object(target.resource, target.name, found)
        if self._core.webhooks.configured:
            scale, old = {**self._scale(target, obj), "spec": scale.get("spec") or {}}, self._scale(target, obj)
            scale, more = await reviewed_update(self._core, target, scale, old, dry_run=dry_run(request))
            warnings += more
            wanted = msgspec.convert(scale, _Scale)
        replicas = wanted.spec.replicas
        if replicas < 0:
            rule = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
            raise errors.invalid_object(_SCALE, target.name, [rule])
        managed = None if owners is None else self._parent_fields(target, obj, owners)
        _set(obj, self._paths(target).spec_replicas, replicas)
        main = Target(target.resource, target.namespace, target.name)
        try:
            options = WriteOptions("Ignore", dry_run(request), managed_fields=managed, webhooks=False)
            written = await self._writer.update(main, current, obj, encode(obj), options)
        except Raced:
            raise errors.modified(target.resource, target.name) from None
        return encode(self._scale(target, decode(written.data))), warnings + written.warnings

    def _parent_fields(self, target: Target, obj: Manifest, owners: Owners) -> list[Manifest]:
        """Return the object's managed fields, given the owners of its Scale."""
        known = decode_owners(obj["metadata"].get("managedFields"))
        return to_parent(known, owners, self._replicas_of(target), target.resource.api_version)

    def _changed(self, target: Target, request: ApiRequest, obj: Manifest, put: Manifest) -> tuple[Any, Owners | None]:
        """Return the Scale of a PUT or a patch, and its owners if the object is tracked."""
        live, scale = self._scale(target, obj), put
        if request.method == "PATCH":
            apply = patch_function(request, target.resource)
            scale = apply_patch(apply, decode(encode(live)), decoded_patch(request.body, apply))
        entries = obj["metadata"].get("managedFields")
        if entries is None or not isinstance(scale, dict):
            return scale, None
        known = to_scale(decode_owners(entries), self._replicas_of(target))
        return scale, updated(live, scale, known, current_manager(), self._core.now())

    def _applied(self, target: Target, request: ApiRequest, obj: Manifest) -> tuple[Any, Owners]:
        """Return the Scale after an apply, and its owners."""
        options = configuration.options(request)
        config, _ = configuration.read(request, field_validation(request))
        configuration.check_kind(config, API_VERSION, KIND)
        live = self._scale(target, obj)
        known = to_scale(decode_owners(obj["metadata"].get("managedFields")), self._replicas_of(target))
        written, stored = scale_terms(written=True), scale_terms()
        applying = ApplyRequest(config, options, SUBRESOURCE, self._core.now())
        merged, owners = applied(written, stored, live, known, applying)
        return merged or live, owners

    def _replicas_of(self, target: Target) -> ReplicasOf:
        resource, registry = target.resource, self._core.registry

        def replicas_of(version: str) -> Path | None:
            group, _, name = version.rpartition("/")
            found = registry.find(group, name, resource.plural) if group == resource.group else None
            if found is None:
                return None
            if found.custom is None:
                return steps(_BUILTIN.spec_replicas)
            return steps(found.custom.scale.spec_replicas) if found.custom.scale else ()

        return replicas_of

    def _stored(self, target: Target) -> Stored:
        stored = self._core.store.get(target.ref)
        if stored is None:
            raise errors.not_found(target.resource, target.name)
        return stored

    def _paths(self, target: Target) -> ScalePaths:
        custom = target.resource.custom
        return custom.scale if custom is not None and custom.scale is not None else _BUILTIN

    def _scale(self, target: Target, obj: Manifest) -> Manifest:
        paths, meta = self._paths(target), obj["metadata"]
        keys = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        status: Manifest = {"replicas": _get(obj, paths.status_replicas) or 0}
        selector = _get(obj, paths.label_selector) if paths.label_selector else None
        if not selector and target.resource.custom is None:
            labels = ((obj.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
            selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        if selector:
            status["selector"] = selector
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {key: meta[key] for key in keys if key in meta},
            "spec": {"replicas": replicas} if (replicas := _get(obj, paths.spec_replicas)) else {},
            "status": status,
        }


def _get(obj: Manifest, path: str) -> Any:
    value: Any = obj
    for key in path.lstrip(".").split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _set(obj: Manifest, path: str, value: int) -> None:
    *parents, last = path.lstrip(".").split(".")
    for key in parents:
        obj = obj.setdefault(key, {})
    obj[last] = value
