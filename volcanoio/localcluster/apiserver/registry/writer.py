"""Create, update and patch: from a client's object to a stored one.

Order (apiserver `endpoints/handlers`, `registry/generic/registry/store.go`): unknown fields, mutating webhooks, fields
that the server sets, defaults of the kind and of in-process admission, validation, in-process admission, validation
again where it changed the object, validating webhooks, store.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from volcanoio.localcluster.apiserver.admission.chain import CHECKS
from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref, Stored, encode
from volcanoio.localcluster.apiserver.apimachinery.paths import Target
from volcanoio.localcluster.apiserver.apply import tracking
from volcanoio.localcluster.apiserver.apply.managers import manager_of_creation
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry import bodies, metadata
from volcanoio.localcluster.apiserver.registry.canonical import canonicalise_write
from volcanoio.localcluster.apiserver.registry.kinds.strategy import FIRST_GENERATION_ONLY, PLAIN
from volcanoio.localcluster.apiserver.registry.kinds.table import STRATEGIES
from volcanoio.localcluster.apiserver.registry.options import WriteOptions
from volcanoio.localcluster.apiserver.registry.preconditions import content, is_finished, uid_errors, unchanged
from volcanoio.localcluster.apiserver.registry.write_stages import (
    Write,
    check_namespace,
    choose_name,
    complete,
    defaulted,
    keep_other_part,
    mutated,
    reviewed,
    rule_errors,
    set_defaults_of_new,
    to_storage,
    validated,
)
from volcanoio.model.base import Manifest
from volcanoio.model.validation.field_errors import FieldError

_KEEPS_STATUS: Final = frozenset({"nodes"})
"""Built-in kinds that may be created with a status, as kubelets do, despite a status subresource."""


class Written(NamedTuple):
    """The JSON of a written object, and the warnings for the client."""

    data: bytes
    warnings: tuple[str, ...] = ()


class Raced(Exception):  # noqa: N818 - named for what happened
    """The stored object changed while admission reviewed its successor."""


@contextmanager
def _warnings_on_error(warnings: list[str]) -> Iterator[None]:
    """Attach the warnings collected so far to an ApiError."""
    try:
        yield
    except errors.ApiError as error:
        error.warnings = error.warnings or tuple(warnings)
        raise


class Writer:
    """Writer that creates and updates objects."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def create(self, target: Target, obj: Manifest, body: bytes, options: WriteOptions) -> Written:
        """Store a new object; raises ApiError."""
        creation = _Creation(Write(self._core, target, None, options.dry_run), options)
        with _warnings_on_error(creation.warnings):
            return Written(await creation.run(obj, body), tuple(creation.warnings))

    async def update(
        self, target: Target, current: Stored, new: Manifest, body: bytes, options: WriteOptions
    ) -> Written:
        """Replace the object, or its status.

        Raises ApiError, and Raced when the update must be computed again.

        The caller has compared uid and resourceVersion, and has called the webhooks where the request is for another
        object than the stored one, such as a Scale. An update that changes nothing stores nothing.
        """
        update = _Update(Write(self._core, target, current.decode(), options.dry_run), options, current)
        with _warnings_on_error(update.warnings):
            return Written(await update.run(new, body), tuple(update.warnings))


class _Run:
    """Shared state of creations and updates: the write, its options and the warnings so far."""

    def __init__(self, write: Write, options: WriteOptions) -> None:
        self._write = write
        self._options = options
        self._core = write.core
        self._target = write.target
        self._resource = write.target.resource
        self._strategy = STRATEGIES.get(write.target.resource.name, PLAIN)
        self.warnings: list[str] = []

    def _store(self, ref: Ref, obj: Manifest, body: bytes, *, has_quota: bool, is_last: bool = False) -> bytes:
        """Store the object, or remove it when this is the last update before its deletion.

        Returns its JSON.
        """
        core = self._core
        to_storage(core, self._resource, obj, body)
        if self._options.dry_run:
            return encode(obj)
        if len(body) > errors.MAX_OBJECT_BYTES:
            raise errors.too_large_to_store()
        core.check_writable()
        if is_last:
            core.store.remove(ref)  # watchers see the last stored state, with the finalizer that held it
            return encode(obj)
        stored = core.store.put(ref, obj)
        if has_quota:
            core.quotas.write_statuses(ref.namespace)
        return stored.data


class _Creation(_Run):
    """Creation of one object."""

    async def run(self, obj: Manifest, body: bytes) -> bytes:
        """Store the object and return its JSON; raises ApiError."""
        core, target = self._core, self._target
        self._accept(obj, body)
        managed_fields = self._managed_fields(obj)
        if core.webhooks.configured:
            obj, more = await mutated(self._write, obj)
            self.warnings += more
            check_namespace(core, target, obj)
        ref = choose_name(core, target, obj["metadata"])
        requested_version = obj["metadata"].get("resourceVersion")
        self._prepare(obj, managed_fields)
        obj = self._validate(ref, obj)
        obj = await self._admit(ref, obj)
        has_quota = target.namespace in core.quotas.namespaces
        if has_quota:
            core.quotas.check(self._resource, target.namespace, obj)
        if requested_version and requested_version != "0" and not self._options.dry_run:
            raise errors.unclassified("resourceVersion should not be set on objects to be created")
        if (existing := core.store.get(ref)) is not None:
            raise errors.already_exists(self._resource, ref.name, deleting=existing.deleting)
        return self._store(ref, obj, body, has_quota=has_quota)

    def _accept(self, obj: Manifest, body: bytes) -> None:
        """Check fields and namespace, and drop what a creation cannot set."""
        resource = self._resource
        self.warnings += bodies.check_fields(obj, body, resource, self._options.validation)
        check_namespace(self._core, self._target, obj)
        if resource.custom is not None and resource.custom.terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise errors.forbidden(resource, str(obj["metadata"].get("name") or ""), why)
        if "status" in resource.subresources and resource.name not in _KEEPS_STATUS:
            obj.pop("status", None)
        canonicalise_write(self._target, obj)

    def _managed_fields(self, obj: Manifest) -> list[Manifest] | None:
        """Return the managed fields of the new object; None when they are not tracked."""
        managed_fields = self._options.managed_fields
        if managed_fields is None and (manager := manager_of_creation()) is not None:
            complete(self._core, self._resource, obj)
            managed_fields = tracking.created(self._core, self._resource, obj, manager)
        return managed_fields

    def _prepare(self, obj: Manifest, managed_fields: list[Manifest] | None) -> None:
        """Set what the server sets, and the defaults."""
        metadata.prepare_create(self._core, self._resource, self._target.namespace, obj["metadata"])
        set_defaults_of_new(self._core, self._target, obj)
        self._strategy.create(obj, self._core)
        if managed_fields:
            obj["metadata"]["managedFields"] = managed_fields

    def _validate(self, ref: Ref, obj: Manifest) -> Manifest:
        """Return the object with the defaults of in-process admission, once it is valid."""
        if self._core.admission:
            obj = defaulted(self._write, ref, obj)
        if found := rule_errors(self._write, obj, warnings=self.warnings):
            raise errors.invalid_object(self._resource, ref.name, found)
        if self._strategy.warn is not None:
            self.warnings += self._strategy.warn(obj, None)
        if self._strategy.warning:
            self.warnings.append(self._strategy.warning)
        return obj

    async def _admit(self, ref: Ref, obj: Manifest) -> Manifest:
        """Return the object after in-process admission and the validating webhooks."""
        core, target = self._core, self._target
        if core.admission:
            changed, more = await reviewed(self._write, ref, obj)
            self.warnings += more
            if changed is not None:
                obj = changed
                self._strategy.create(obj, core)  # the first status follows from the spec as admission left it
            check_namespace(core, target, obj)
        if self._resource.name in CHECKS:
            CHECKS[self._resource.name](obj, None, target.namespace, core)
        if core.webhooks.configured:
            self.warnings += await validated(self._write, obj)
            check_namespace(core, target, obj)
        return obj


class _Update(_Run):
    """Update of one object or its status."""

    def __init__(self, write: Write, options: WriteOptions, current: Stored) -> None:
        super().__init__(write, options)
        assert write.old is not None
        self._current = current
        self._old = write.old
        self._has_webhooks = options.webhooks and self._core.webhooks.configured

    async def run(self, new: Manifest, body: bytes) -> bytes:
        """Store the object and return its JSON; raises ApiError and Raced."""
        core, target, resource, old = self._core, self._target, self._resource, self._old
        self.warnings += bodies.check_fields(new, body, resource, self._options.validation)
        if not isinstance(new.get("metadata"), dict):
            raise errors.bad_request("metadata: expected an object")
        wrong_uid = uid_errors(self._current, new["metadata"].get("uid"))
        self._prepare(new)
        if self._has_webhooks:
            new, more = await mutated(self._write, new)
            self.warnings += more
            self._check_current()
        elif not wrong_uid and unchanged(resource, new, old):
            return self._current.data
        new, has_changes = await self._admit(new, wrong_uid)
        if self._has_webhooks:
            self.warnings += await validated(self._write, new)
            self._check_current()
            if unchanged(resource, new, old):
                return self._current.data
        has_quota = has_changes and target.namespace in core.quotas.namespaces
        if has_quota:
            core.quotas.check(resource, target.namespace, new, old)
        if has_changes and metadata.counts_generations(resource) and resource.name not in FIRST_GENERATION_ONLY:
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        is_last = self._current.deleting and is_finished(resource, new)
        return self._store(target.ref, new, body, has_quota=has_quota, is_last=is_last)

    def _prepare(self, new: Manifest) -> None:
        """Keep what the client cannot write, set defaults and track managed fields."""
        core, resource, subresource, old = self._core, self._resource, self._target.subresource, self._old
        known = old["metadata"].get("managedFields")
        sent = tracking.as_sent(new) if known is not None or "managedFields" in new["metadata"] else None
        canonicalise_write(self._target, new)
        keep_other_part(self._target, new, old)
        metadata.prepare_update(new, old)
        self._strategy.keep(new, old)
        if subresource != "status" or resource.custom is not None:
            complete(core, resource, new)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        managed_fields = self._options.managed_fields
        if sent is not None and managed_fields is None:
            managed_fields = tracking.updated(core, resource, subresource, (old, new), sent)
        if managed_fields is not None:
            tracking.write(new, old, managed_fields)

    async def _admit(self, new: Manifest, found: list[FieldError]) -> tuple[Manifest, bool]:
        """Return the valid object after in-process admission, and whether its content changed.

        Content is all but its metadata and status.
        """
        core, target, resource, old = self._core, self._target, self._resource, self._old
        has_changes = self._has_content_changes(new)
        found = found + metadata.update_errors(new["metadata"], self._current)
        found += rule_errors(self._write, new, content=has_changes, warnings=self.warnings)
        if found:
            raise errors.invalid_object(resource, target.name, found)
        if self._strategy.warn is not None:
            self.warnings += self._strategy.warn(new, old)
        if core.admission and not target.subresource:
            changed, more = await reviewed(self._write, target.ref, new)
            self.warnings += more
            if changed is not None:
                new, has_changes = changed, self._has_content_changes(changed)
            self._check_current()
        if has_changes and resource.name in CHECKS and not target.subresource:
            CHECKS[resource.name](new, old, target.namespace, core)
        return new, has_changes

    def _has_content_changes(self, new: Manifest) -> bool:
        return not unchanged(self._resource, content(self._resource, new), content(self._resource, self._old))

    def _check_current(self) -> None:
        if self._core.store.get(self._target.ref) is not self._current:
            raise Raced
