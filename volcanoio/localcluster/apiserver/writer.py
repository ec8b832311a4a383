"""Create, update and patch: from a client's object to a stored one.

Order (apiserver `endpoints/handlers`, `registry/generic/registry/store.go`): unknown fields, mutating webhooks, what
the server sets, defaults, rules, our own admission, rules again where it changed something, validating webhooks, store.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, NamedTuple

from volcanoio.engine.admission.fielderrors import FieldError
from volcanoio.localcluster.apiserver import bodies, errors, metadata
from volcanoio.localcluster.apiserver.admission import AdmissionRequest, Operation, review_all
from volcanoio.localcluster.apiserver.apply import tracking
from volcanoio.localcluster.apiserver.apply.managers import newcomer
from volcanoio.localcluster.apiserver.caller import current_user
from volcanoio.localcluster.apiserver.canonical import canonicalise_write
from volcanoio.localcluster.apiserver.comparison import content, identity, is_finished, unchanged
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.strategy import PLAIN
from volcanoio.localcluster.apiserver.kinds.table import STRATEGIES
from volcanoio.localcluster.apiserver.kinds.traits import FIRST_GENERATION_ONLY, NAMED_BY_SERVER
from volcanoio.localcluster.apiserver.objects import Ref, Stored, encode
from volcanoio.localcluster.apiserver.options import FieldValidation
from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.localcluster.apiserver.plugins.chain import CHECKS, ON_CREATE
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.localcluster.apiserver.schema.comparison import write_whole_floats
from volcanoio.localcluster.apiserver.webhooks.attributes import Attributes, of_target
from volcanoio.localcluster.apiserver.webhooks.options import request_options
from volcanoio.model.base import Manifest

_KEEPS_STATUS: Final = frozenset({"nodes"})
"""Built-ins with a status subresource that may still be created with a status, as a kubelet does."""


_WITH_STATUS: Final = frozenset({"labels", "annotations", "finalizers", "ownerReferences"})
"""Metadata of built-ins that is written along with the status."""

_NOT_WITH_STATUS: Final = {"pods": frozenset({"ownerReferences"}), "deployments.apps": frozenset({"labels"})}


class Written(NamedTuple):
    """What became of a write: the object's JSON, and what to tell whoever asked for it."""

    data: bytes
    warnings: tuple[str, ...] = ()


def _attributes(
    operation: Operation, target: Target, obj: Manifest, old: Manifest | None, *, dry_run: bool
) -> Attributes:
    """The write as webhooks see it."""
    write = of_target(operation, target, obj, old)
    return replace(write, dry_run=dry_run, options=request_options(operation))


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
        self._check_namespace(target, obj)
        if resource.custom is not None and resource.custom.terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise errors.forbidden(resource, str(obj["metadata"].get("name") or ""), why)
        if "status" in resource.subresources and resource.name not in _KEEPS_STATUS:
            obj.pop("status", None)
        canonicalise_write(target, obj, body)
        if managed is None and (manager := newcomer()) is not None:
            self._complete(resource, obj)
            managed = tracking.created(core, resource, obj, manager)
        if core.webhooks.configured:
            obj, more = await self._mutated("CREATE", target, obj, None, dry_run=dry_run)
            told += more
            self._check_namespace(target, obj)
        meta = obj["metadata"]
        ref = self._choose_name(target, meta)
        stated = meta.get("resourceVersion")
        metadata.prepare_create(core, resource, target.namespace, meta)
        strategy = STRATEGIES.get(resource.name, PLAIN)
        self._complete_new(target, obj)
        strategy.create(obj, core)
        if managed:
            meta["managedFields"] = managed
        found = self._errors(resource, obj, warnings=told)
        if found:
            raise errors.invalid(resource, ref.name, found)
        if strategy.warn is not None:
            told += strategy.warn(obj, None)
        if strategy.warning:
            told.append(strategy.warning)
        if core.admission:
            changed, more = await self._review("CREATE", ref, resource, obj, None, dry_run=dry_run)
            told += more
            if changed is not None:
                obj = changed
            self._check_namespace(target, obj)
        if resource.name in CHECKS:
            CHECKS[resource.name](obj, None, target.namespace, core)
        if core.webhooks.configured:
            told += await self._validated("CREATE", target, obj, None, dry_run=dry_run)
            self._check_namespace(target, obj)
        limited = target.namespace in core.quotas.namespaces
        if limited:
            core.quotas.check(resource, target.namespace, obj)
        if stated and stated != "0" and not dry_run:
            raise errors.unclassified("resourceVersion should not be set on objects to be created")
        if (known := core.store.get(ref)) is not None:
            raise errors.already_exists(resource, ref.name, deleting=known.deleting)
        self._to_storage(resource, obj, body)
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
        canonicalise_write(target, new, body)
        self._isolate(target, new, old)
        metadata.prepare_update(new, old)
        STRATEGIES.get(resource.name, PLAIN).keep(new, old)
        if target.subresource != "status" or resource.custom is not None:
            self._complete(resource, new)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if sent is not None and managed is None:
            managed = tracking.updated(core, resource, target.subresource, old, new, sent)
        if managed is not None:
            tracking.write(new, old, managed)
        asks = webhooks and core.webhooks.configured
        if asks:
            new, more = await self._mutated("UPDATE", target, new, old, dry_run=dry_run)
            told += more
            if core.store.get(target.ref) is not current:
                raise Raced
        if not asks and unchanged(resource, new, old):
            return current.data
        changes = not unchanged(resource, content(resource, new), content(resource, old))
        strategy = STRATEGIES.get(resource.name, PLAIN)
        found = metadata.update_errors(new["metadata"], current)
        found += self._errors(resource, new, old, content=changes, subresource=target.subresource, warnings=told)
        if found:
            raise errors.invalid(resource, target.name, found)
        if strategy.warn is not None:
            told += strategy.warn(new, old)
        if core.admission and not target.subresource:
            changed, more = await self._review("UPDATE", target.ref, resource, new, old, dry_run=dry_run)
            told += more
            if changed is not None:
                new = changed
                changes = not unchanged(resource, content(resource, new), content(resource, old))
            if core.store.get(target.ref) is not current:
                raise Raced
        if changes and resource.name in CHECKS and not target.subresource:
            CHECKS[resource.name](new, old, target.namespace, core)
        if asks:
            told += await self._validated("UPDATE", target, new, old, dry_run=dry_run)
            if core.store.get(target.ref) is not current:
                raise Raced
            if unchanged(resource, new, old):
                return current.data
        limited = changes and target.namespace in core.quotas.namespaces
        if limited:
            core.quotas.check(resource, target.namespace, new, old)
        if changes and metadata.counts_generations(resource) and resource.name not in FIRST_GENERATION_ONLY:
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        self._to_storage(resource, new, body)
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

    async def _mutated(
        self, operation: Operation, target: Target, obj: Manifest, old: Manifest | None, *, dry_run: bool
    ) -> tuple[Manifest, tuple[str, ...]]:
        """The object after the mutating webhooks, complete again, and what they told; raises ApiError."""
        resource = target.resource
        if old is None:
            metadata.drop_server_set(obj["metadata"])
            if resource.namespaced:
                obj["metadata"]["namespace"] = target.namespace
            self._complete_new(target, obj)

        def again(one: Manifest) -> None:
            if old is None:
                self._complete_new(target, one)
            else:
                self._complete(resource, one)

        attributes = _attributes(operation, target, obj, old, dry_run=dry_run)
        reviewed = await self._core.webhooks.mutate(attributes, again)
        if not reviewed.changed or reviewed.object is None:
            return obj, reviewed.warnings
        changed = reviewed.object
        bodies.check_fields(changed, encode(changed), resource, "Ignore")
        if old is not None:
            self._isolate(target, changed, old)
            metadata.prepare_update(changed, old)
            changed["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        elif target_name := obj["metadata"].get("name"):
            changed["metadata"]["name"] = target_name
        return changed, reviewed.warnings

    async def _validated(
        self, operation: Operation, target: Target, obj: Manifest, old: Manifest | None, *, dry_run: bool
    ) -> tuple[str, ...]:
        """What the validating webhooks told; raises ApiError."""
        return await self._core.webhooks.validate(_attributes(operation, target, obj, old, dry_run=dry_run))

    def _check_namespace(self, target: Target, obj: Manifest) -> None:
        """The namespace of body and path agree, and it takes new objects."""
        resource, namespace = target.resource, target.namespace
        if not resource.namespaced:
            return
        stated = obj["metadata"].get("namespace")
        if not namespace or (stated and stated != namespace):
            raise errors.other_namespace()
        found = self._core.store.get(Ref("namespaces", "", namespace))
        if found is None:
            raise errors.not_found(self._core.registry.builtin("namespaces"), namespace)
        if found.deleting:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise errors.forbidden(resource, str(obj["metadata"].get("name", "")), why, causes=[cause])

    def _choose_name(self, target: Target, meta: Manifest) -> Ref:
        """Where the object will be stored; a generated name is one that is free."""
        store, resource = self._core.store, target.resource
        name, prefix = meta.get("name"), meta.get("generateName")
        if not name and not prefix and resource.name in NAMED_BY_SERVER:
            name = meta["name"] = self._core.new_uid()
        if not name and isinstance(prefix, str) and prefix:
            while True:
                ref = Ref(resource.name, target.namespace, prefix[:58] + self._core.new_suffix())
                if store.get(ref) is None:
                    meta["name"] = ref.name
                    return ref
        return Ref(resource.name, target.namespace, name if isinstance(name, str) else "")

    def _complete(self, resource: Resource, obj: Manifest) -> None:
        """Defaults of the kind, or of the schema."""
        STRATEGIES.get(resource.name, PLAIN).default(obj, self._core)
        if resource.custom is not None:
            resource.custom.default(obj)

    def _complete_new(self, target: Target, obj: Manifest) -> None:
        """Defaults, and what admission gives a new object; may be called again after somebody changed it."""
        resource = target.resource
        self._complete(resource, obj)
        for plugin in ON_CREATE.get(resource.name, ()):
            plugin(obj, target.namespace, self._core)

    def _errors(
        self,
        resource: Resource,
        obj: Manifest,
        old: Manifest | None = None,
        *,
        content: bool = True,
        subresource: str = "",
        warnings: list[str],
    ) -> list[FieldError]:
        """The broken rules; `content` says whether anything besides metadata and status may have changed."""
        found: list[FieldError] = []
        described = old is None or obj["metadata"] != old["metadata"]
        if described and resource.name not in metadata.LOOSE:
            found += metadata.errors(resource, obj["metadata"])
        if resource.custom is not None:
            found += resource.custom.validate(obj, old, subresource == "status", warnings)
        strategy = STRATEGIES.get(resource.name, PLAIN)
        if content:
            if old is None or not strategy.only_updates:
                found += strategy.validate(obj)
            if old is not None:
                found += strategy.validate_update(obj, old)
        if described and not found and resource.name in metadata.LOOSE:
            found = metadata.errors(resource, obj["metadata"])
        return found

    async def _review(
        self,
        operation: Operation,
        ref: Ref,
        resource: Resource,
        obj: Manifest,
        old: Manifest | None,
        *,
        dry_run: bool,
    ) -> tuple[Manifest | None, tuple[str, ...]]:
        request = AdmissionRequest(
            operation=operation,
            group=resource.group,
            plural=resource.plural,
            namespace=ref.namespace,
            name=ref.name,
            object=obj,
            old=old,
            dry_run=dry_run,
            user=current_user().username,
        )
        changed, warnings = await review_all(self._core.admission, resource, request)
        if changed is not None:
            changed["metadata"] = {**changed["metadata"], **identity(obj["metadata"])}
            self._complete(resource, changed)
            said: list[str] = []
            if found := self._errors(resource, changed, old, warnings=said):
                raise errors.invalid(resource, ref.name, found)
            warnings += tuple(said)
        return changed, warnings

    def _isolate(self, target: Target, new: Manifest, old: Manifest) -> None:
        """An update of the object leaves the status as it is; one of the status leaves the rest."""
        resource = target.resource
        if target.subresource == "status":
            status, stated = new.get("status"), new["metadata"]
            absent = "status" not in new if resource.custom is not None else status is None
            kept = dict(old["metadata"])
            if resource.custom is None:
                for key in _WITH_STATUS - _NOT_WITH_STATUS.get(resource.name, frozenset()):
                    if key in stated:
                        kept[key] = stated[key]
                    else:
                        kept.pop(key, None)
            new.clear()
            new.update(old)
            new["metadata"] = kept
            if resource.name == "pods" and isinstance(status, dict) and not status.get("qosClass"):
                status["qosClass"] = (old.get("status") or {}).get("qosClass", "BestEffort")
            if absent:
                new.pop("status", None)
            else:
                new["status"] = status
        elif "status" in resource.subresources:
            if "status" in old:
                new["status"] = old["status"]
            else:
                new.pop("status", None)

    def _to_storage(self, resource: Resource, obj: Manifest, body: bytes) -> None:
        """Custom objects are stored under one version, with what its schema knows of them."""
        if resource.custom is not None:
            stored = self._core.registry.named(resource.name)
            if stored is not None and stored.custom is not None and stored.version != resource.version:
                obj["apiVersion"] = stored.api_version
                stored.custom.refit(obj)
            write_whole_floats(obj, body)
