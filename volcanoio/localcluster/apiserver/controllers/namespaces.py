"""Namespaces: what a new one gets, and emptying one that is being deleted."""

from __future__ import annotations

from volcanoio.localcluster.apiserver.controllers.worklist import Worklist
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.deleter import Deleter
from volcanoio.localcluster.apiserver.objects import Event, Ref
from volcanoio.localcluster.apiserver.options import DeleteOptions
from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.localcluster.apiserver.selection import Selection


class NamespaceController:
    """Gives namespaces their service account; deletes the content of terminating ones and then themselves."""

    def __init__(self, core: Core, deleter: Deleter) -> None:
        self._core = core
        self._deleter = deleter
        self._terminating: set[str] = set()
        self.work: Worklist[str] = Worklist(self._work)
        core.store.observers.append(self._observe)
        for _, name in core.store.collection("namespaces").objects:
            self.work.add(name)

    def _observe(self, ref: Ref, event: Event) -> None:
        if ref.resource == "namespaces":
            if event.type == "DELETED":
                self._terminating.discard(ref.name)
            elif event.old is None or event.new.deleting:
                self.work.add(ref.name)
        elif self._terminating and event.type != "MODIFIED" and ref.namespace in self._terminating:
            self.work.add(ref.namespace)

    def _work(self, name: str) -> None:
        stored = self._core.store.get(Ref("namespaces", "", name))
        if stored is None:
            return
        if not stored.deleting:
            self._give_service_account(name)
            return
        self._terminating.add(name)
        left = False
        for resource_name, collection in list(self._core.store.collections()):
            resource = self._core.registry.named(resource_name)
            if resource is None or not resource.namespaced:
                continue
            for found in collection.select(Selection(name)):
                target = Target(resource, name, found.name)
                if not found.deleting:
                    self._deleter.delete_now(target, found, DeleteOptions())
                left = left or self._core.store.get(target.ref) is not None
        if not left and not stored.finalizers:
            obj = stored.decode()
            obj["spec"] = {**(obj.get("spec") or {}), "finalizers": []}
            self._core.store.remove(Ref("namespaces", "", name), obj)

    def _give_service_account(self, namespace: str) -> None:
        ref = Ref("serviceaccounts", namespace, "default")
        if self._core.store.get(ref) is None:
            metadata = {
                "name": "default",
                "namespace": namespace,
                "uid": self._core.new_uid(),
                "creationTimestamp": self._core.now(),
            }
            self._core.store.put(ref, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
