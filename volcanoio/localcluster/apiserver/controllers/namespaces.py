"""Deletion of the content of terminating namespaces (Kubernetes: pkg/controller/namespace/deletion).

The namespace's conditions say which content remains.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from volcanoio.localcluster.apiserver.apimachinery.objects import Event, Ref, Stored
from volcanoio.localcluster.apiserver.apimachinery.paths import Target
from volcanoio.localcluster.apiserver.apimachinery.selectors import Selection
from volcanoio.localcluster.apiserver.controllers.workqueue import WorkQueue
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.deleter import Deleter
from volcanoio.localcluster.apiserver.registry.options import DeleteOptions
from volcanoio.model.base import Manifest

FINALIZER: Final = "kubernetes"
"""The entry of `spec.finalizers` that this controller removes when the namespace is empty."""
_NAME: Final = "namespaces"


class NamespaceController:
    """Controller that deletes the content of terminating namespaces, and then the namespaces."""

    def __init__(self, core: Core, deleter: Deleter) -> None:
        self._core = core
        self._deleter = deleter
        self._terminating: set[str] = set()
        self.work: WorkQueue[str] = WorkQueue(self._work)
        core.store.observers.append(self._observe)
        for (_, name), stored in core.store.collection(_NAME).objects.items():
            if stored.deleting:
                self.work.add(name)

    def _observe(self, ref: Ref, event: Event) -> None:
        if ref.resource == _NAME:
            if event.type == "DELETED":
                self._terminating.discard(ref.name)
            elif event.new.deleting:
                self.work.add(ref.name)
        elif self._terminating and event.type != "MODIFIED" and ref.namespace in self._terminating:
            self.work.add(ref.namespace)

    def _work(self, name: str) -> None:
        stored = self._core.store.get(Ref(_NAME, "", name))
        if stored is None or not stored.deleting:
            return
        self._terminating.add(name)
        left: Counter[str] = Counter()
        held: Counter[str] = Counter()
        for resource, found in self._content(name):
            self._delete(resource, name, found)
            after = self._core.store.get(Ref(resource, name, found.name))
            if after is not None:
                left[resource] += 1
                held.update(after.finalizers)
        self._finish(name, stored, left, held)

    def _content(self, name: str) -> list[tuple[str, Stored]]:
        found: list[tuple[str, Stored]] = []
        for resource, collection in list(self._core.store.collections()):
            served = self._core.registry.named(resource)
            if served is not None and served.namespaced:
                found += [(resource, one) for one in collection.select(Selection(name))]
        return found

    def _delete(self, resource: str, namespace: str, found: Stored) -> None:
        """Delete one object that still exists and is not terminating yet."""
        current = self._core.store.get(Ref(resource, namespace, found.name))
        served = self._core.registry.named(resource)
        if current is not None and not current.deleting and served is not None:
            self._deleter.delete_now(Target(served, namespace, found.name), current, DeleteOptions())

    def _finish(self, name: str, stored: Stored, left: Counter[str], held: Counter[str]) -> None:
        """Remove the namespace, or its finalizer; else write the conditions."""
        obj = stored.decode()
        spec = obj.setdefault("spec", {})
        if not left:
            spec["finalizers"] = [one for one in spec.get("finalizers") or () if one != FINALIZER]
            if not spec["finalizers"] and not stored.finalizers:
                self._core.store.remove(Ref(_NAME, "", name), obj)
                return
        status = obj.setdefault("status", {})
        status["conditions"] = self._conditions(status.get("conditions") or [], left, held)
        if obj != stored.decode():
            self._core.store.put(Ref(_NAME, "", name), obj)

    def _conditions(self, known: list[Manifest], left: Counter[str], held: Counter[str]) -> list[Manifest]:
        """Return the conditions, with new times where their status changed."""
        before = {one["type"]: one for one in known}
        names = {name: name if "." in name else f"{name}." for name in left}  # as plural.group, empty for core
        remain = ", ".join(f"{names[name]} has {left[name]} resource instances" for name in sorted(left))
        holding = ", ".join(f"{name} in {held[name]} resource instances" for name in sorted(held))
        found = []
        for type_, true, reason, message in (
            *_FINE,
            (
                "NamespaceContentRemaining",
                bool(left),
                "SomeResourcesRemain" if left else "ContentRemoved",
                f"Some resources are remaining: {remain}" if left else "All content successfully removed",
            ),
            (
                "NamespaceFinalizersRemaining",
                bool(held),
                "SomeFinalizersRemain" if held else "ContentHasNoFinalizers",
                f"Some content in the namespace has finalizers remaining: {holding}"
                if held
                else "All content-preserving finalizers finished",
            ),
        ):
            status = "True" if true else "False"
            old = before.get(type_)
            since = old["lastTransitionTime"] if old and old["status"] == status else self._core.now()
            condition = {"type": type_, "status": status, "lastTransitionTime": since}
            found.append(condition | {"reason": reason, "message": message})
        return found


_FINE: Final = (
    (
        "NamespaceDeletionDiscoveryFailure",
        False,
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        False,
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        False,
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
)
"""Conditions of steps that cannot fail here."""
