"""PATCH requests of the type apply-patch: create or merge an object.

Nulls that an apply leaves in a custom resource are refused; Kubernetes drops those of other writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.objects import Stored, decode, encode
from volcanoio.localcluster.apiserver.apimachinery.paths import Target
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest
from volcanoio.localcluster.apiserver.apply import configuration, managed_fields
from volcanoio.localcluster.apiserver.apply.application import ApplyRequest, applied
from volcanoio.localcluster.apiserver.apply.configuration import Options
from volcanoio.localcluster.apiserver.apply.tracking import terms, type_of_resource
from volcanoio.localcluster.apiserver.apply.typed_values import as_go_writes
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.options import WriteOptions, write_options
from volcanoio.localcluster.apiserver.registry.preconditions import check_versions
from volcanoio.localcluster.apiserver.registry.writer import Raced, Writer, Written
from volcanoio.model.base import Manifest
from volcanoio.model.validation.field_errors import FieldError, wrong_type


def null_errors(schema: Manifest, obj: Manifest, subresource: str) -> list[FieldError]:
    """Return errors of nulls that the schema neither allows nor replaces by a default."""
    fields: Manifest = schema.get("properties") or {}
    found: list[FieldError] = []
    for name, value in obj.items():
        if name in fields and (name == "status") == (subresource == "status"):
            for path, type_ in _nulls(fields[name], value, name):
                shown = path[len(name) + 1 :] if subresource else path  # a status is validated against its own schema
                found.append(wrong_type(path, "null", f'{shown} in body must be of type {type_}: "null"'))
    return found


def _nulls(schema: Any, value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the paths of nulls that are neither allowed nor defaulted, with the expected type."""
    if not isinstance(schema, dict):
        return
    if value is None:
        type_ = schema.get("type")
        if type_ and not schema.get("nullable") and "default" not in schema:
            yield path, type_
    elif isinstance(value, dict):
        fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, inner in value.items():
            yield from _nulls(fields.get(name, others), inner, f"{path}.{name}")
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _nulls(schema.get("items"), inner, f"{path}[{at}]")


ATTEMPTS: Final = 5
"""How often an apply is tried when other writes interfere."""


class Outcome(NamedTuple):
    """The written object, and whether it was created."""

    written: Written
    created: bool


class Applier:
    """Applier of configurations through the writer."""

    def __init__(self, core: Core, writer: Writer) -> None:
        self._core = core
        self._writer = writer

    async def apply(self, target: Target, request: ApiRequest) -> Outcome:
        """Apply to an object or its status; a missing object is created. Raises ApiError."""
        options = configuration.options(request)
        write = write_options(request)
        config, warnings = configuration.read(request, write.validation)
        for _ in range(ATTEMPTS):
            current = self._core.store.get(target.ref)
            if current is None and target.subresource:
                raise errors.not_found(target.resource, target.name)
            try:
                outcome = await self._once(target, current, config, options, write)
            except Raced:
                continue
            if warnings:
                written = outcome.written
                return Outcome(Written(written.data, written.warnings + warnings), outcome.created)
            return outcome
        raise errors.modified(target.resource, target.name)

    async def _once(
        self, target: Target, current: Stored | None, config: Manifest, options: Options, write: WriteOptions
    ) -> Outcome:
        resource = target.resource
        configuration.check_kind(config, resource.api_version, resource.kind)
        stored = _empty(target) if current is None else current.decode()
        entries = stored["metadata"].pop("managedFields", None)
        stored["apiVersion"] = resource.api_version
        live = as_go_writes(type_of_resource(resource), stored)
        registry, subresource = self._core.registry, target.subresource
        merged, found = applied(
            terms(registry, resource, subresource, written=True),
            terms(registry, resource, subresource),
            live,
            managed_fields.decode(entries),
            ApplyRequest(config, options, subresource, self._core.now()),
        )
        merged = stored if merged is None else as_go_writes(type_of_resource(resource), merged)
        _check_place(target, current, merged)
        if resource.custom is not None:
            found_nulls = null_errors(resource.custom.schema, merged, target.subresource)
            if found_nulls:
                raise errors.invalid_object(resource, target.name, found_nulls)
        write, body = write._replace(managed_fields=managed_fields.encode(found)), encode(merged)
        obj = decode(body)  # a copy: the writer changes it in place, and `merged` shares parts with others
        if current is None:
            written = await self._writer.create(target, obj, body, write)
            return Outcome(written, created=True)
        check_versions(target, current, obj["metadata"], patching=True)
        written = await self._writer.update(target, current, obj, body, write)
        return Outcome(written, created=False)


def _empty(target: Target) -> Manifest:
    resource = target.resource
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}}


def _check_place(target: Target, current: Stored | None, merged: Manifest) -> None:
    """Check that the merged object is the one the URL names; raises ApiError 400 and 409."""
    metadata = merged.get("metadata") or {}
    uid = metadata.get("uid")
    if current is None and uid:
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise errors.conflict(target.resource, target.name, why)
    namespace = metadata.get("namespace")
    if namespace and target.resource.namespaced and namespace != target.namespace:
        text = "the namespace of the provided object does not match the namespace sent on the request"
        raise errors.bad_request(text)
    name = metadata.get("name")
    if not name:
        text = f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        raise errors.bad_request(text)
    if name != target.name:
        text = f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        raise errors.bad_request(text)
