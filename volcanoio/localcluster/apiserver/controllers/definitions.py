"""Definitions of custom resources: served as soon as they are stored, until the last of their objects is gone."""

from __future__ import annotations

from volcanoio.localcluster.apiserver.controllers.worklist import Worklist
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.crd import resources_of
from volcanoio.localcluster.apiserver.deleter import Deleter
from volcanoio.localcluster.apiserver.kinds.definitions import CLEANUP, NAME
from volcanoio.localcluster.apiserver.objects import Event, Ref, Stored
from volcanoio.localcluster.apiserver.options import DeleteOptions
from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.model.base import Manifest


class DefinitionController:
    """Keeps the registry equal to the stored definitions, and removes the objects of a deleted one."""

    def __init__(self, core: Core, deleter: Deleter) -> None:
        self._core = core
        self._deleter = deleter
        self._deleting: dict[str, str] = {}
        self.work: Worklist[str] = Worklist(self._work)
        core.store.observers.append(self._observe)
        for (_, name), stored in core.store.collection(NAME).objects.items():
            self._serve(stored.decode())
            if stored.deleting:
                self._deleting[name] = name
                self.work.add(name)

    def _observe(self, ref: Ref, event: Event) -> None:
        if ref.resource == NAME:
            if event.type == "DELETED":
                self._deleting.pop(ref.name, None)
                plural, _, group = ref.name.partition(".")
                self._core.registry.remove_custom(group, plural)
            elif event.new.deleting:
                self._deleting[ref.name] = ref.name
                self.work.add(ref.name)
            else:
                self._serve(event.new.decode(), None if event.old is None else event.old.decode())
        elif self._deleting and event.type == "DELETED" and ref.resource in self._deleting:
            self.work.add(ref.resource)

    def _serve(self, definition: Manifest, before: Manifest | None = None) -> None:
        """Serve what is defined; stored objects get defaults that were added, as they would on reading."""
        if before is not None and before["spec"] == definition["spec"]:
            return
        versions = resources_of(definition)
        self._core.registry.add_custom(*versions)
        custom, collection = versions[-1].custom, self._core.store.collection(versions[-1].name)
        for (namespace, name), stored in list(collection.objects.items()):
            obj = stored.decode()
            if custom is not None:
                custom.default(obj)
            renewed = Stored(namespace, name, stored.revision, obj)
            if renewed.data != stored.data:
                self._core.store.load(Ref(versions[-1].name, namespace, name), renewed)

    def _work(self, name: str) -> None:
        """Delete the objects; when none is left, the definition."""
        ref = Ref(NAME, "", name)
        definition = self._core.store.get(ref)
        resource = self._core.registry.named(name)
        if definition is None:
            return
        objects = self._core.store.collection(name).objects
        if resource is not None:
            for (namespace, one), stored in list(objects.items()):
                if not stored.deleting:
                    self._deleter.delete_now(Target(resource, namespace, one), stored, DeleteOptions())
        if not objects:
            obj = definition.decode()
            left = [one for one in obj["metadata"].get("finalizers") or () if one != CLEANUP]
            obj["metadata"]["finalizers"] = left
            if not left:
                self._core.store.remove(ref, obj)
            elif CLEANUP in definition.finalizers:
                self._core.store.put(ref, obj)
