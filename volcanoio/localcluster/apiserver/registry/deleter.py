"""Deletion: preconditions, grace period, finalizers and dependents."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final, NamedTuple

from volcanoio.localcluster.apiserver.admission.reviewers import AdmissionRequest, has_reviewer, review_all
from volcanoio.localcluster.apiserver.admission.webhooks.attributes import of_target, request_options
from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.clock import parse_rfc3339, rfc3339
from volcanoio.localcluster.apiserver.apimachinery.objects import Stored, encode
from volcanoio.localcluster.apiserver.apimachinery.paths import Target
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.crds import CLEANUP
from volcanoio.localcluster.apiserver.crds import NAME as DEFINITIONS
from volcanoio.localcluster.apiserver.registry.kinds.cluster import PROTECTED_NAMESPACES
from volcanoio.localcluster.apiserver.registry.kinds.scheduling import SYSTEM_CLASSES
from volcanoio.localcluster.apiserver.registry.kinds.strategy import ORPHANING, UNCOLLECTED
from volcanoio.localcluster.apiserver.registry.options import DeleteOptions, Propagation
from volcanoio.model.base import Manifest

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_FINALIZERS: Final[dict[Propagation, str]] = {"Foreground": FOREGROUND, "Orphan": ORPHAN}
_DEFAULT_GRACE: Final = 30
_PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
_FINISHED: Final = frozenset({"Succeeded", "Failed"})


class Deleted(NamedTuple):
    """Result of a deletion: the object as it is now, or last was, and whether it is gone."""

    data: bytes
    uid: str
    gone: bool
    warnings: tuple[str, ...] = ()


class Deleter:
    """Deleter of objects, for clients and for the server's own controllers."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def delete(
        self, target: Target, options: DeleteOptions, *, webhooks: bool = True, collection: bool = False
    ) -> Deleted:
        """Delete for a client, with admission; raises ApiError.

        The webhooks of an eviction have been called already. For objects of a deleted collection they receive no name,
        as from a real server.
        """
        core, resource = self._core, target.resource
        stored = core.store.get(target.ref)
        if stored is None:
            raise errors.not_found(resource, target.name)
        check_preconditions(target, stored, options)
        if resource.name == "namespaces" and target.name in PROTECTED_NAMESPACES:
            raise errors.forbidden(resource, target.name, "this namespace may not be deleted")
        if resource.name == _PRIORITY_CLASSES and target.name in SYSTEM_CLASSES:
            why = "this is a system priority class and cannot be deleted"
            raise errors.forbidden(resource, target.name, why)
        warnings: tuple[str, ...] = ()
        if has_reviewer(core.admission, "DELETE", resource.name):
            request = AdmissionRequest(
                operation="DELETE",
                group=resource.group,
                plural=resource.plural,
                namespace=target.namespace,
                name=target.name,
                object=None,
                old=stored.decode(),
                dry_run=options.dry_run,
            )
            _, warnings = await review_all(core.admission, resource, request)
            current = core.store.get(target.ref)
            if current is None or current.uid != stored.uid:
                raise errors.not_found(resource, target.name)
            stored = current
        if webhooks and core.webhooks.configured:
            warnings += await self._ask_webhooks(target, stored, options, collection=collection)
            current = core.store.get(target.ref)
            if current is None or current.uid != stored.uid:
                raise errors.not_found(resource, target.name)
            stored = current
        if options.dry_run:
            return self._preview(target, stored, options)._replace(warnings=warnings)
        core.check_writable()
        return self.delete_now(target, stored, options)._replace(warnings=warnings)

    def _preview(self, target: Target, stored: Stored, options: DeleteOptions) -> Deleted:
        """Return the result of a dry run."""
        obj = stored.decode()
        finalizers = self._finalizers(target, stored, options)
        if target.resource.name == "pods" or finalizers:
            self._mark(obj["metadata"], self._grace(target.resource, obj, options))
            if finalizers:
                obj["metadata"]["finalizers"] = finalizers
        return Deleted(encode(obj), stored.uid, gone=not finalizers)

    async def _ask_webhooks(
        self, target: Target, stored: Stored, options: DeleteOptions, *, collection: bool
    ) -> tuple[str, ...]:
        """Call the webhooks; returns warnings, raises ApiError for a refusal."""
        write = of_target("DELETE", target, None, stored.decode())
        name = "" if collection else write.name
        write = replace(write, name=name, dry_run=options.dry_run, options=request_options("DELETE"))
        reviewed = await self._core.webhooks.mutate(write)
        return reviewed.warnings + await self._core.webhooks.validate(write)

    def delete_now(self, target: Target, stored: Stored, options: DeleteOptions) -> Deleted:
        """Delete at once or mark as terminating; the caller has checked everything."""
        core = self._core
        obj = stored.decode()
        meta = obj["metadata"]
        finalizers = self._finalizers(target, stored, options)
        grace = self._grace(target.resource, obj, options)
        if target.resource.name == "namespaces":
            return self._terminate_namespace(target, stored, obj, finalizers)
        if grace == 0 and not finalizers:
            if target.resource.name == "pods" and meta.get("deletionGracePeriodSeconds") != 0:
                self._mark(meta, 0)  # watchers see the end of the grace period first, as from the real server
                core.store.put(target.ref, obj)
            last = core.store.remove(target.ref, obj)
            return Deleted(last.data, last.uid, gone=True)
        if finalizers:
            meta["finalizers"] = finalizers
        else:
            meta.pop("finalizers", None)
        before = meta.get("generation")
        self._mark(meta, grace)
        if target.resource.name == DEFINITIONS:  # its storage only marks it
            meta.pop("deletionGracePeriodSeconds", None)
            meta["generation"] = before
        return self._put_if_changed(target, stored, obj)

    def _put_if_changed(self, target: Target, stored: Stored, obj: Manifest) -> Deleted:
        if stored.deleting and obj == stored.decode():  # only the first mark is a change
            return Deleted(stored.data, stored.uid, gone=False)
        return Deleted(self._core.store.put(target.ref, obj).data, stored.uid, gone=False)

    def _terminate_namespace(self, target: Target, stored: Stored, obj: Manifest, finalizers: list[str]) -> Deleted:
        """Mark a namespace as terminating.

        The namespace controller deletes its content and removes it.
        """
        self._mark(obj["metadata"], 0)
        obj["metadata"].pop("deletionGracePeriodSeconds", None)
        if finalizers:
            obj["metadata"]["finalizers"] = finalizers
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        return self._put_if_changed(target, stored, obj)

    def _finalizers(self, target: Target, stored: Stored, options: DeleteOptions) -> list[str]:
        """Return the finalizers plus that of the propagation policy.

        The garbage collector removes the latter.
        """
        found = [name for name in stored.finalizers if stored.deleting or name not in {FOREGROUND, ORPHAN}]
        if target.resource.name == DEFINITIONS and not stored.deleting:
            found = [*found, CLEANUP]
        needed = None if target.resource.name in UNCOLLECTED else _FINALIZERS.get(options.propagation)
        if options.has_default_propagation and not stored.finalizers and target.resource.name in ORPHANING:
            needed = ORPHAN
        if needed is not None and needed not in found:
            found.append(needed)
        return found

    def _grace(self, resource: Resource, obj: Manifest, options: DeleteOptions) -> int:
        """Return the grace period in seconds; only pods have one."""
        if resource.name != "pods":
            return 0
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        if not spec.get("nodeName") or status.get("phase") in _FINISHED:
            return 0
        grace = options.grace
        if grace is None:
            grace = spec.get("terminationGracePeriodSeconds")
            grace = _DEFAULT_GRACE if grace is None else int(grace)
        known = obj["metadata"].get("deletionGracePeriodSeconds")
        if obj["metadata"].get("deletionTimestamp") and known is not None and (options.grace is None or grace > known):
            return int(known)
        return grace

    def _mark(self, meta: Manifest, grace: int) -> None:
        """Set the time of deletion; a second deletion can only bring it forward."""
        since, known = meta.get("deletionTimestamp"), meta.get("deletionGracePeriodSeconds")
        if since is None:
            meta["deletionTimestamp"] = rfc3339(self._core.clock.now() + timedelta(seconds=grace))
            meta["deletionGracePeriodSeconds"] = grace
            if meta.get("generation"):  # controllers must not act on the generation of a terminating object
                meta["generation"] += 1
        elif known is not None and grace < known:
            meta["deletionTimestamp"] = rfc3339(parse_rfc3339(since) - timedelta(seconds=known - grace))
            meta["deletionGracePeriodSeconds"] = grace


def check_preconditions(target: Target, stored: Stored, options: DeleteOptions) -> None:
    """Check the preconditions of a deletion; raises ApiError 409."""
    for stated, found, what, rest in (
        (options.uid, stored.uid, "UID", "deleted and then recreated"),
        (options.resource_version, str(stored.revision), "ResourceVersion", "modified"),
    ):
        if stated and stated != found and target.resource.name == DEFINITIONS and what == "UID":
            why = f"Precondition failed: UID in precondition: {stated}, UID in object meta: {found}"
            raise errors.conflict(target.resource, target.name, why)
        if stated and stated != found:
            why = (
                f"the {what} in the precondition ({stated}) does not match the {what} in record ({found}). "
                f"The object might have been {rest}"
            )
            raise errors.conflict_of_kind(target.resource, target.name, why)


def status_of(target: Target, deleted: Deleted) -> bytes:
    """Return the Status that answers a deletion whose object is gone."""
    details: Manifest = {"name": target.name, "kind": target.resource.plural, "uid": deleted.uid}
    if target.resource.group:
        details["group"] = target.resource.group
    return encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
