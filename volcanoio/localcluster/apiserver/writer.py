"""Create, update and patch: from a client's object to a stored one.

Order (apiserver `endpoints/handlers`, `registry/generic/registry/store.go`): unknown fields, mutating webhooks, what
the server sets, defaults, rules, our own admission, rules again where it changed something, validating webhooks, store.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from volcanoio.localcluster.apiserver import bodies, errors, metadata
from volcanoio.localcluster.apiserver.apply import tracking
from volcanoio.localcluster.apiserver.apply.managers import newcomer
from volcanoio.localcluster.apiserver.canonical import canonicalise_write
from volcanoio.localcluster.apiserver.comparison import content, is_finished, uid_errors, unchanged
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.strategy import PLAIN
from volcanoio.localcluster.apiserver.kinds.table import STRATEGIES
from volcanoio.localcluster.apiserver.kinds.traits import FIRST_GENERATION_ONLY
from volcanoio.localcluster.apiserver.objects import Stored, encode
from volcanoio.localcluster.apiserver.options import FieldValidation
from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.localcluster.apiserver.plugins.chain import CHECKS
from volcanoio.localcluster.apiserver.writing.admitting import mutated, reviewed, validated
from volcanoio.localcluster.apiserver.writing.completion import complete, complete_new, rule_errors
from volcanoio.localcluster.apiserver.writing.isolation import isolate
from volcanoio.localcluster.apiserver.writing.placing import check_namespace, choose_name, to_storage
from volcanoio.model.base import Manifest

_KEEPS_STATUS: Final = frozenset({"nodes"})
"""Built-ins with a status subresource that may still be created with a status, as a kubelet does."""


class Written(NamedTuple):
    """What became of a write: the object's JSON, and what to tell whoever asked for it."""

    data: bytes
    warnings: tuple[str, ...] = ()


class Raced(Exception):  # noqa: N818 - named for what happened
    """The stored object changed while admission was looking at its successor."""


@contextmanager
def _telling(told: list[str]) -> Iterator[None]:
    """A refusal carries what the client has to be told besides."""
    try:
        yield
    except errors.ApiError as error:
        error.warnings = error.warnings or tuple(told)
        raise


class Writer:
    """Creates and updates objects."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def create(
        self,
        target: Target,
        obj: Manifest,
        body: bytes,
        validation: FieldValidation,
        *,
        dry_run: bool = False,
        managed: list[Manifest] | None = None,
    ) -> Written:
        """Store a new object; `managed` are its managed fields where the caller knows. Raises ApiError."""
        told: list[str] = []
        with _telling(told):
            return Written(await self._create(target, obj, body, validation, told, dry_run, managed), tuple(told))

    async def update(
        self,
        target: Target,
        current: Stored,
        new: Manifest,
        body: bytes,
        validation: FieldValidation,
        *,
        dry_run: bool = False,
        webhooks: bool = True,
        managed: list[Manifest] | None = None,
    ) -> Written:
        """Replace the object, or its status; raises ApiError, and Raced when it has to be computed again.

        The caller has compared uid and resourceVersion, and asked the webhooks about what it writes where that is not
        the object itself. `managed` are its managed fields where the caller knows. An update that changes nothing
        stores nothing.
        """
        told: list[str] = []
        with _telling(told):
            data = await self._update(target, current, new, body, validation, told, dry_run, webhooks, managed)
            return Written(data, tuple(told))

    async def _create(
        self,
        target: Target,
        obj: Manifest,
        body: bytes,
        validation: FieldValidation,
        told: list[str],
        dry_run: bool,
        managed: list[Manifest] | None,
    ) -> bytes:
        core, resource = self._core, target.resource
        told += bodies.check_fields(obj, body, resource, validation)
        check_namespace(core, target, obj)
        if resource.custom is not None and resource.custom.terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise errors.forbidden(resource, str(obj["metadata"].get("name") or ""), why)
        if "status" in resource.subresources and resource.name not in _KEEPS_STATUS:
            obj.pop("status", None)
        canonicalise_write(target, obj)
        if managed is None and (manager := newcomer()) is not None:
            complete(core, resource, obj)
            managed = tracking.created(core, resource, obj, manager)
        if core.webhooks.configured:
            obj, more = await mutated(core, "CREATE", target, obj, None, dry_run=dry_run)
            told += more
            check_namespace(core, target, obj)
        meta = obj["metadata"]
        ref = choose_name(core, target, meta)
        stated = meta.get("resourceVersion")
        metadata.prepare_create(core, resource, target.namespace, meta)
        strategy = STRATEGIES.get(resource.name, PLAIN)
        complete_new(core, target, obj)
        strategy.create(obj, core)
        if managed:
            meta["managedFields"] = managed
        found = rule_errors(resource, obj, warnings=told)
        if found:
            raise errors.invalid(resource, ref.name, found)
        if strategy.warn is not None:
            told += strategy.warn(obj, None)
        if strategy.warning:
            told.append(strategy.warning)
        if core.admission:
            changed, more = await reviewed(core, "CREATE", ref, resource, obj, None, dry_run=dry_run)
            told += more
            if changed is not None:
                obj = changed
            check_namespace(core, target, obj)
        if resource.name in CHECKS:
            CHECKS[resource.name](obj, None, target.namespace, core)
        if core.webhooks.configured:
            told += await validated(core, "CREATE", target, obj, None, dry_run=dry_run)
            check_namespace(core, target, obj)
        limited = target.namespace in core.quotas.namespaces
        if limited:
            core.quotas.check(resource, target.namespace, obj)
        if stated and stated != "0" and not dry_run:
            raise errors.unclassified("resourceVersion should not be set on objects to be created")
        if (known := core.store.get(ref)) is not None:
            raise errors.already_exists(resource, ref.name, deleting=known.deleting)
        to_storage(core, resource, obj, body)
        if dry_run:
            return encode(obj)
        if len(body) > errors.MAX_OBJECT_BYTES:
            raise errors.too_large_to_store()
        core.check_writable()
        stored = core.store.put(ref, obj)
        if limited:
            core.quotas.settle(target.namespace)
        return stored.data

    async def _update(
        self,
        target: Target,
        current: Stored,
        new: Manifest,
        body: bytes,
        validation: FieldValidation,
        told: list[str],
        dry_run: bool,
        webhooks: bool,
        managed: list[Manifest] | None,
    ) -> bytes:
        core, resource = self._core, target.resource
        old = current.decode()
        told += bodies.check_fields(new, body, resource, validation)
        if not isinstance(new.get("metadata"), dict):
            raise errors.bad_request("metadata: expected an object")
        known = old["metadata"].get("managedFields")
        sent = tracking.as_sent(new) if known is not None or "managedFields" in new["metadata"] else None
        misnamed = uid_errors(current, new["metadata"].get("uid"))
        canonicalise_write(target, new)
        isolate(target, new, old)
        metadata.prepare_update(new, old)
        STRATEGIES.get(resource.name, PLAIN).keep(new, old)
        if target.subresource != "status" or resource.custom is not None:
            complete(core, resource, new)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if sent is not None and managed is None:
            managed = tracking.updated(core, resource, target.subresource, old, new, sent)
        if managed is not None:
            tracking.write(new, old, managed)
        asks = webhooks and core.webhooks.configured
        if asks:
            new, more = await mutated(core, "UPDATE", target, new, old, dry_run=dry_run)
            told += more
            if core.store.get(target.ref) is not current:
                raise Raced
        if not asks and not misnamed and unchanged(resource, new, old):
            return current.data
        changes = not unchanged(resource, content(resource, new), content(resource, old))
        strategy = STRATEGIES.get(resource.name, PLAIN)
        found = misnamed + metadata.update_errors(new["metadata"], current)
        found += rule_errors(resource, new, old, content=changes, subresource=target.subresource, warnings=told)
        if found:
            raise errors.invalid(resource, target.name, found)
        if strategy.warn is not None:
            told += strategy.warn(new, old)
        if core.admission and not target.subresource:
            changed, more = await reviewed(core, "UPDATE", target.ref, resource, new, old, dry_run=dry_run)
            told += more
            if changed is not None:
                new = changed
                changes = not unchanged(resource, content(resource, new), content(resource, old))
            if core.store.get(target.ref) is not current:
                raise Raced
        if changes and resource.name in CHECKS and not target.subresource:
            CHECKS[resource.name](new, old, target.namespace, core)
        if asks:
            told += await validated(core, "UPDATE", target, new, old, dry_run=dry_run)
            if core.store.get(target.ref) is not current:
                raise Raced
            if unchanged(resource, new, old):
                return current.data
        limited = changes and target.namespace in core.quotas.namespaces
        if limited:
            core.quotas.check(resource, target.namespace, new, old)
        if changes and metadata.counts_generations(resource) and resource.name not in FIRST_GENERATION_ONLY:
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        to_storage(core, resource, new, body)
        if dry_run:
            return encode(new)
        if len(body) > errors.MAX_OBJECT_BYTES:
            raise errors.too_large_to_store()
        core.check_writable()
        if current.deleting and is_finished(resource, new):
            core.store.remove(target.ref)  # watchers see the last stored state, with the finalizer that held it
            return encode(new)
        stored = core.store.put(target.ref, new)
        if limited:
            core.quotas.settle(target.namespace)
        return stored.data
