"""Controller of CustomResourceDefinitions: serves them, and removes their objects on deletion."""

from __future__ import annotations

from volcanoio.localcluster.apiserver.apimachinery.objects import Event, Ref, Stored
from volcanoio.localcluster.apiserver.apimachinery.paths import Target
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource, resources_of
from volcanoio.localcluster.apiserver.controllers.workqueue import WorkQueue
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.crds.acceptance import accept, is_established
from volcanoio.localcluster.apiserver.registry.deleter import Deleter
from volcanoio.localcluster.apiserver.registry.kinds.definitions import CLEANUP, NAME, group_of, others_of_group
from volcanoio.localcluster.apiserver.registry.options import DeleteOptions
from volcanoio.model.base import Manifest

_TERMINATING = {
    "type": "Terminating",
    "status": "True",
    "reason": "InstanceDeletionInProgress",
    "message": "CustomResource deletion is in progress",
}


class DefinitionController:
    """Controller that keeps the registry equal to the stored definitions, and removes the objects of a deleted one."""

    def __init__(self, core: Core, deleter: Deleter) -> None:
        self._core = core
        self._deleter = deleter
        self._deleting: dict[str, str] = {}
        self.work: WorkQueue[str] = WorkQueue(self._work)
        core.store.observers.append(self._observe)
        for (_, name), stored in core.store.collection(NAME).objects.items():
            definition = stored.decode()
            # Conversions to a later schema are kept in memory only, and are repeated after a restart.
            self._serve(definition)
            if definition["metadata"].get("generation", 1) > 1:
                self._refit(resources_of(definition), {})
            if stored.deleting:
                self._deleting[name] = name
                self.work.add(name)

    def _observe(self, ref: Ref, event: Event) -> None:
        if ref.resource == NAME:
            if event.type == "DELETED":
                self._deleting.pop(ref.name, None)
                plural, _, group = ref.name.partition(".")
                self._core.registry.remove_custom(group, plural)
                self.work.add(f"@{group}")
            elif event.new.deleting:
                if ref.name not in self._deleting:
                    self._serve(event.new.decode())
                self._deleting[ref.name] = ref.name
                self.work.add(ref.name)
            else:
                self._changed(event.new.decode(), None if event.old is None else event.old.decode())
        elif self._deleting and event.type == "DELETED" and ref.resource in self._deleting:
            self.work.add(ref.resource)

    def _changed(self, definition: Manifest, before: Manifest | None) -> None:
        """Serve the changed definition.

        Names that it gave up become available to others of the group.
        """
        if before is None:
            self._serve(definition)
            return
        accepted, accepted_before = (one.get("status", {}).get("acceptedNames") for one in (definition, before))
        if before["spec"] != definition["spec"] or accepted != accepted_before:
            self._serve(definition)
        if before["spec"] != definition["spec"]:
            self._refit(resources_of(definition), {one["name"]: one for one in before["spec"]["versions"]})
        if accepted != accepted_before:
            self.work.add(f"@{definition['spec']['group']}")

    def _serve(self, definition: Manifest) -> None:
        """Serve a definition that owns its names."""
        if is_established(definition):
            self._core.registry.add_custom(*resources_of(definition))

    def _refit(self, versions: tuple[Resource, ...], before: dict[str, Manifest]) -> None:
        """Convert stored objects to a changed schema of their version: prune them and add defaults.

        `before` has the versions as they were.
        """
        name, api_version = versions[-1].name, versions[-1].api_version
        changed = {
            one.api_version: one.custom
            for one in versions
            if one.custom is not None
            and ((before.get(one.version) or {}).get("schema") or {}).get("openAPIV3Schema") != one.custom.schema
        }
        for (namespace, one), stored in list(self._core.store.collection(name).objects.items()):
            obj = stored.decode()
            custom = changed.get(obj["apiVersion"])
            if custom is None and obj["apiVersion"] == api_version:
                continue
            if custom is not None:
                custom.convert_stored(obj)
            obj["apiVersion"] = api_version
            renewed = Stored(namespace, one, stored.revision, obj)
            if renewed.data != stored.data:
                self._core.store.load(Ref(name, namespace, one), renewed)

    def _reconcile_names(self, group: str) -> None:
        """Reconcile definitions of the group that lacked a name."""
        for (_, name), stored in list(self._core.store.collection(NAME).objects.items()):
            if group_of(name) != group or stored.deleting:
                continue
            definition = stored.decode()
            conditions = {one["type"]: one["status"] for one in definition["status"].get("conditions") or ()}
            if conditions.get("NamesAccepted") != "True":
                accept(definition, others_of_group(self._core, name), self._core.now())
                if definition != stored.decode():
                    self._core.store.put(Ref(NAME, "", name), definition)

    def _work(self, name: str) -> None:
        """Delete the objects, then the definition. The key `@group` reconciles the names of a group."""
        if name.startswith("@"):
            self._reconcile_names(name[1:])
            return
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
        else:
            self._mark(ref, definition)

    def _mark(self, ref: Ref, definition: Stored) -> None:
        """Set the condition that objects are still being deleted."""
        obj = definition.decode()
        conditions = obj["status"].setdefault("conditions", [])
        if all(one["type"] != "Terminating" for one in conditions):
            conditions.append({"lastTransitionTime": self._core.now(), **_TERMINATING})
            self._core.store.put(ref, obj)
