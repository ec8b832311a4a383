"""The scale subresource (autoscaling/v1 Scale): replicas of a kind without knowing the kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from volcanoio.engine.admission.fielderrors import invalid
from volcanoio.kube.transport import ContentType
from volcanoio.localcluster.apiserver import bodies, errors
from volcanoio.localcluster.apiserver.api import ApiRequest
from volcanoio.localcluster.apiserver.apply import configuration
from volcanoio.localcluster.apiserver.apply import scale as managed_scale
from volcanoio.localcluster.apiserver.apply.applying import Asked, applied
from volcanoio.localcluster.apiserver.apply.fieldset import Path
from volcanoio.localcluster.apiserver.apply.managers import current_manager
from volcanoio.localcluster.apiserver.apply.owners import Owners
from volcanoio.localcluster.apiserver.apply.owners import decode as decode_owners
from volcanoio.localcluster.apiserver.builtin_types import check_part
from volcanoio.localcluster.apiserver.comparison import check_address, check_versions, uid_errors
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.objects import Stored, decode, encode
from volcanoio.localcluster.apiserver.options import FieldValidation, dry_run, field_validation, write_options
from volcanoio.localcluster.apiserver.patcher import apply_patch, decoded_patch, patch_function, patch_options
from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.localcluster.apiserver.schema.compiled import ScalePaths
from volcanoio.localcluster.apiserver.webhooks.subresources import reviewed_update
from volcanoio.localcluster.apiserver.writer import Raced, Writer
from volcanoio.model.base import Manifest

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
    """`autoscaling/v1 Scale`, as far as it is read."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)


def _converted(scale: Any, *, patching: bool) -> _Scale:
    """The Scale that was sent, or that a patch resulted in; raises ApiError 400 and 422."""
    try:
        return msgspec.convert(scale, _Scale)
    except msgspec.ValidationError as error:
        if patching and isinstance(scale, dict):
            raise errors.unfit_patch(scale, str(error)) from None
        raise errors.UndecodableError(_SCALE, str(error)) from None


def _read(target: Target, request: ApiRequest, validation: FieldValidation) -> tuple[Manifest, _Scale, tuple[str, ...]]:
    """The Scale of a PUT, and what is told of its fields; raises ApiError 400.

    The server of custom resources does not know a Scale by its type, and says no more of one that it cannot read.
    """
    try:
        put, body = bodies.read_object(request, _SCALE)
        repeated = bodies.repeated_fields(body, put, validation)
        told = _check_fields(put, validation, repeated)
        return put, _converted(put, patching=False), told
    except errors.ApiError as error:
        if target.resource.custom is None or error.code != 400:
            raise
        text = 'no kind is registered for the type v1.Scale in scheme "pkg/runtime/scheme.go:111"'
        raise errors.bad_request(text) from None


def _check_fields(
    scale: Manifest, validation: FieldValidation, repeated: Sequence[str] = (), *, patching: bool = False
) -> tuple[str, ...]:
    """What is told of fields that are there twice, or that a Scale does not have; raises ApiError under Strict."""
    if validation == "Ignore":
        return ()
    found = [*repeated, *(f'unknown field "{path}"' for path in check_part(scale, "V1Scale", "")[0])]
    if found and validation == "Strict":
        why = f"strict decoding error: {', '.join(found)}"
        raise errors.unfit_patch(scale, why) if patching else errors.UndecodableError(_SCALE, why)
    return tuple(found)


class Scaler:
    """Reads and writes Scale objects."""

    def __init__(self, core: Core, writer: Writer) -> None:
        self._core = core
        self._writer = writer

    def get(self, target: Target) -> bytes:
        """The Scale of an object."""
        return encode(self._scale(target, self._stored(target).decode()))

    async def write(self, target: Target, request: ApiRequest) -> tuple[bytes, tuple[str, ...]]:
        """PUT or PATCH the Scale; returns the new one and warnings. Raises ApiError."""
        patching = request.method == "PATCH"
        applying = bodies.content_type(request) == ContentType.APPLY_PATCH and patching
        put: Manifest = {}
        wanted = _Scale()
        told: tuple[str, ...] = ()
        if applying:
            validation, _ = write_options(request)
        elif patching:
            patch_function(request, target.resource)
            validation, _ = patch_options(request)
        else:
            validation, _ = write_options(request)
            put, wanted, told = _read(target, request, validation)
            check_address(target, msgspec.to_builtins(wanted.metadata))
        current = self._stored(target)
        obj = current.decode()
        managed: list[Manifest] | None = None
        owners: Owners | None
        if applying:
            scale, owners = self._applied(target, request, obj)
        else:
            scale, owners = self._changed(target, request, obj, put)
        if patching:
            wanted = _converted(scale, patching=True)
            told = () if applying else _check_fields(scale, validation, patching=True)
        stated = msgspec.to_builtins(wanted.metadata)
        check_address(target, stated)
        check_versions(target, current, stated, patching=patching)
        if found := uid_errors(current, stated.get("uid")):
            raise errors.invalid(target.resource, target.name, found)
        if self._core.webhooks.configured:
            scale, old = {**self._scale(target, obj), "spec": scale.get("spec") or {}}, self._scale(target, obj)
            scale, more = await reviewed_update(self._core, target, scale, old, dry_run=dry_run(request))
            told += more
            wanted = msgspec.convert(scale, _Scale)
        replicas = wanted.spec.replicas
        if replicas < 0:
            rule = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
            raise errors.invalid(_SCALE, target.name, [rule])
        if owners is not None:
            known = decode_owners(obj["metadata"].get("managedFields"))
            version = target.resource.api_version
            managed = managed_scale.to_parent(known, owners, self._replicas_of(target), version)
        _set(obj, self._paths(target).spec_replicas, replicas)
        main = Target(target.resource, target.namespace, target.name)
        try:
            written = await self._writer.update(
                main, current, obj, encode(obj), "Ignore", dry_run=dry_run(request), webhooks=False, managed=managed
            )
        except Raced:
            raise errors.modified(target.resource, target.name) from None
        return encode(self._scale(target, decode(written.data))), told + written.warnings

    def _changed(self, target: Target, request: ApiRequest, obj: Manifest, put: Manifest) -> tuple[Any, Owners | None]:
        """The Scale of a PUT or a patch, and its owners where the object has any."""
        live, scale = self._scale(target, obj), put
        if request.method == "PATCH":
            apply = patch_function(request, target.resource)
            scale = apply_patch(apply, decode(encode(live)), decoded_patch(request.body, apply))
        entries = obj["metadata"].get("managedFields")
        if entries is None or not isinstance(scale, dict):
            return scale, None
        known = managed_scale.to_scale(decode_owners(entries), self._replicas_of(target))
        return scale, managed_scale.updated(live, scale, known, current_manager(), self._core.now())

    def _applied(self, target: Target, request: ApiRequest, obj: Manifest) -> tuple[Any, Owners]:
        """The Scale after an apply, and its owners."""
        options = configuration.options(request)
        config, _ = configuration.read(request, field_validation(request))
        configuration.check_kind(config, managed_scale.API_VERSION, managed_scale.KIND)
        live = self._scale(target, obj)
        known = managed_scale.to_scale(decode_owners(obj["metadata"].get("managedFields")), self._replicas_of(target))
        written, stored = managed_scale.scale_terms(written=True), managed_scale.scale_terms()
        asked = Asked(options, managed_scale.SUBRESOURCE, self._core.now())
        merged, owners = applied(written, stored, live, config, known, asked)
        return merged or live, owners

    def _replicas_of(self, target: Target) -> managed_scale.ReplicasOf:
        resource, registry = target.resource, self._core.registry

        def replicas_of(version: str) -> Path | None:
            group, _, name = version.rpartition("/")
            found = registry.find(group, name, resource.plural) if group == resource.group else None
            if found is None:
                return None
            if found.custom is None:
                return managed_scale.steps(_BUILTIN.spec_replicas)
            return managed_scale.steps(found.custom.scale.spec_replicas) if found.custom.scale else ()

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
