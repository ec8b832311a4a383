"""Carries out PATCH requests of the type apply-patch: creates, merges, or refuses."""

from __future__ import annotations

from typing import Final, NamedTuple

from volcanoio.localcluster.apiserver import errors
from volcanoio.localcluster.apiserver.api import ApiRequest
from volcanoio.localcluster.apiserver.apply import configuration, owners
from volcanoio.localcluster.apiserver.apply.applying import Asked, applied
from volcanoio.localcluster.apiserver.apply.configuration import Options
from volcanoio.localcluster.apiserver.apply.nulls import null_errors
from volcanoio.localcluster.apiserver.apply.presence import as_go_writes
from volcanoio.localcluster.apiserver.apply.terms import terms, type_of_resource
from volcanoio.localcluster.apiserver.comparison import check_versions
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.objects import Stored, decode, encode
from volcanoio.localcluster.apiserver.options import FieldValidation, write_options
from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.localcluster.apiserver.writer import Raced, Writer, Written
from volcanoio.model.base import Manifest

ATTEMPTS: Final = 5
"""How often an apply is computed anew when another write came between."""


class Outcome(NamedTuple):
    """What was written, and whether it is new."""

    written: Written
    created: bool


class Applier:
    """Applies configurations through the writer."""

    def __init__(self, core: Core, writer: Writer) -> None:
        self._core = core
        self._writer = writer

    async def apply(self, target: Target, request: ApiRequest) -> Outcome:
        """Apply to an object or its status; a missing object is created. Raises ApiError."""
        options = configuration.options(request)
        validation, trial = write_options(request)
        config, warnings = configuration.read(request, validation)
        for _ in range(ATTEMPTS):
            current = self._core.store.get(target.ref)
            if current is None and target.subresource:
                raise errors.not_found(target.resource, target.name)
            try:
                outcome = await self._once(target, current, config, options, validation, dry_run=trial)
            except Raced:
                continue
            if warnings:
                written = outcome.written
                return Outcome(Written(written.data, written.warnings + warnings), outcome.created)
            return outcome
        raise errors.modified(target.resource, target.name)

    async def _once(
        self,
        target: Target,
        current: Stored | None,
        config: Manifest,
        options: Options,
        validation: FieldValidation,
        *,
        dry_run: bool,
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
            config,
            owners.decode(entries),
            Asked(options, subresource, self._core.now()),
        )
        merged = stored if merged is None else as_go_writes(type_of_resource(resource), merged)
        _check_place(target, current, merged)
        if resource.custom is not None:
            found_nulls = null_errors(resource.custom.schema, merged, target.subresource)
            if found_nulls:
                raise errors.invalid(resource, target.name, found_nulls)
        managed, body = owners.encode(found), encode(merged)
        obj = decode(body)  # the writer changes it in place, and what is merged shares parts with the configuration
        if current is None:
            written = await self._writer.create(target, obj, body, validation, dry_run=dry_run, managed=managed)
            return Outcome(written, created=True)
        check_versions(target, current, obj["metadata"], patching=True)
        written = await self._writer.update(target, current, obj, body, validation, dry_run=dry_run, managed=managed)
        return Outcome(written, created=False)


def _empty(target: Target) -> Manifest:
    resource = target.resource
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}}


def _check_place(target: Target, current: Stored | None, merged: Manifest) -> None:
    """The object is the one the URL names; raises ApiError 400 and 409."""
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
