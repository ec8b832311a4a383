"""Garbage collection by owner references, and expiry of events after an hour.

Kubernetes: pkg/controller/garbagecollector. Dependents are deleted when their owners are gone; driven by the store's
index of owner uids, so that nothing is polled.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from volcanoio.localcluster.apiserver.apimachinery.clock import parse_rfc3339
from volcanoio.localcluster.apiserver.apimachinery.objects import Event, Ref, Stored
from volcanoio.localcluster.apiserver.apimachinery.paths import Target
from volcanoio.localcluster.apiserver.controllers.workqueue import WorkQueue
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.deleter import FOREGROUND, ORPHAN, Deleter
from volcanoio.localcluster.apiserver.registry.options import DeleteOptions
from volcanoio.model.base import Manifest

_OURS = frozenset({FOREGROUND, ORPHAN})


class GarbageCollector:
    """Controller that deletes objects without owners, and finishes foreground and orphaning deletions."""

    def __init__(self, core: Core, deleter: Deleter) -> None:
        self._core = core
        self._deleter = deleter
        self.work: WorkQueue[Ref] = WorkQueue(self._work)
        core.store.observers.append(self._observe)
        for resource, collection in core.store.collections():
            for (namespace, name), stored in collection.objects.items():
                if stored.owners or (stored.deleting and _OURS.intersection(stored.finalizers)):
                    self.work.add(Ref(resource, namespace, name))

    def _observe(self, ref: Ref, event: Event) -> None:
        store, new = self._core.store, event.new
        if event.type == "DELETED":
            for dependent in store.dependents(new.uid):
                self.work.add(dependent)
            for uid in new.owners:
                owner = store.by_uid(uid)
                if owner is not None:
                    self.work.add(owner)
            return
        finishing = new.deleting and bool(_OURS.intersection(new.finalizers))
        if finishing or self._lost_owners(event):
            self.work.add(ref)

    def _lost_owners(self, event: Event) -> bool:
        """Return whether the object has a new owner reference to a missing object."""
        owners = event.new.owners
        if not owners or (event.old is not None and event.old.owners == owners):
            return False
        return any(self._core.store.by_uid(uid) is None for uid in owners)

    def _work(self, ref: Ref) -> None:
        stored = self._core.store.get(ref)
        if stored is None:
            return
        if stored.deleting and FOREGROUND in stored.finalizers:
            self._foreground(ref, stored)
        elif stored.deleting and ORPHAN in stored.finalizers:
            self._orphan(ref, stored)
        elif stored.owners and not stored.deleting:
            self._check_owners(ref, stored)

    def _check_owners(self, ref: Ref, stored: Stored) -> None:
        """Delete the object when no owner is left; else drop the references to missing owners.

        An owner of an unserved kind may exist elsewhere: then nothing is done, as in Kubernetes.
        """
        gone = [uid for uid in stored.owners if not self._is_owner(uid, ref)]
        if gone and self._undecidable(stored, gone):
            return
        if len(gone) == len(stored.owners):
            self._delete(ref, stored, DeleteOptions())
        elif gone:
            obj = stored.decode()
            self._drop_owners(obj, gone)
            self._core.store.put(ref, obj)

    def _undecidable(self, stored: Stored, uids: list[str]) -> bool:
        references = stored.decode()["metadata"].get("ownerReferences") or ()
        served = self._core.registry.for_kind
        return any(one["uid"] in uids and served(one["apiVersion"], one["kind"]) is None for one in references)

    def _is_owner(self, uid: str, dependent: Ref) -> bool:
        """Return whether the owner exists, in the dependent's namespace or cluster-scoped."""
        owner = self._core.store.by_uid(uid)
        return owner is not None and owner.namespace in {"", dependent.namespace}

    def _foreground(self, ref: Ref, stored: Stored) -> None:
        """Delete the dependents first; those with blockOwnerDeletion keep the owner."""
        blocked = False
        for dependent in self._core.store.dependents(stored.uid):
            found = self._core.store.get(dependent)
            if found is None:
                continue
            if not found.deleting:
                others = [uid for uid in found.owners if uid != stored.uid and self._is_owner(uid, dependent)]
                if others:
                    obj = found.decode()
                    self._drop_owners(obj, [stored.uid])
                    self._core.store.put(dependent, obj)
                    continue
                foreground = bool(self._core.store.dependents(found.uid))  # these kinds have their own deletion
                options = DeleteOptions(propagation="Foreground") if foreground else DeleteOptions()
                self._delete(dependent, found, options)
                found = self._core.store.get(dependent)
            blocked = blocked or (found is not None and _blocks(found, stored.uid))
        if not blocked:
            self._release(ref, FOREGROUND)

    def _orphan(self, ref: Ref, stored: Stored) -> None:
        for dependent in self._core.store.dependents(stored.uid):
            found = self._core.store.get(dependent)
            if found is not None:
                obj = found.decode()
                self._drop_owners(obj, [stored.uid])
                self._core.store.put(dependent, obj)
        self._release(ref, ORPHAN)

    def _release(self, ref: Ref, finalizer: str) -> None:
        """Remove the finalizer, and the object when it was the last one."""
        stored = self._core.store.get(ref)
        if stored is None:
            return
        obj = stored.decode()
        meta = obj["metadata"]
        left = [name for name in meta.get("finalizers") or () if name != finalizer]
        meta["finalizers"] = left
        if not left:
            del meta["finalizers"]
        if left or meta.get("deletionGracePeriodSeconds") or ref.resource == "namespaces":
            self._core.store.put(ref, obj)
        else:
            self._core.store.remove(ref)  # watchers see the last stored state, with the finalizer that held it

    def _delete(self, ref: Ref, stored: Stored, options: DeleteOptions) -> None:
        resource = self._core.registry.named(ref.resource)
        if resource is not None:
            self._deleter.delete_now(Target(resource, ref.namespace, ref.name), stored, options)

    def _drop_owners(self, obj: Manifest, uids: list[str]) -> None:
        meta = obj["metadata"]
        meta["ownerReferences"] = [one for one in meta["ownerReferences"] if one["uid"] not in uids]
        if not meta["ownerReferences"]:
            del meta["ownerReferences"]


def _blocks(stored: Stored, owner: str) -> bool:
    references = stored.decode()["metadata"].get("ownerReferences") or ()
    return any(one["uid"] == owner and one.get("blockOwnerDeletion") for one in references)


EVENT_LIFETIME: Final = timedelta(hours=1)
PERIOD_SECONDS: Final = 60.0
_TIMES: Final = ("lastTimestamp", "eventTime", "firstTimestamp")


class EventExpiry:
    """Controller that removes Events an hour after they last happened."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def run(self) -> None:
        """Sweep once a minute until cancelled."""
        while True:
            await self._core.clock.idle(PERIOD_SECONDS)
            self.sweep()

    def sweep(self) -> None:
        """Remove expired Events."""
        limit = self._core.clock.now() - EVENT_LIFETIME
        store = self._core.store
        for (namespace, name), stored in list(store.collection("events").objects.items()):
            if _last_seen(stored.decode()) < limit:
                store.remove(Ref("events", namespace, name))


def _last_seen(event: Manifest) -> datetime:
    """Return the time of the last occurrence or of the creation, whichever is later."""
    created = parse_rfc3339(event["metadata"]["creationTimestamp"])
    series = event.get("series") or {}
    times = [series.get("lastObservedTime"), *(event.get(key) for key in _TIMES)]
    last_time = next((time for time in times if time), None)
    try:
        return created if last_time is None else max(created, parse_rfc3339(str(last_time)))
    except (ValueError, TypeError):  # an invalid time, or one without a zone
        return created
