"""Controller that binds claims to volumes, releases both, and protects those in use.

Kubernetes: pkg/controller/volume/{persistentvolume,pvcprotection,pvprotection}. Each step starts from the stored state
and is idempotent: a restarted server continues from there. A claim gets the smallest volume that has its class, modes,
labels and size. As in Kubernetes, each attempt that finds no volume records an Event; equal ones are counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple

import anyio
import msgspec

from volcanoio.framework.effects import Record
from volcanoio.localcluster.apiserver.admission.resource_amounts import ZERO, Amount, amount
from volcanoio.localcluster.apiserver.admission.storage import CLAIM_PROTECTION, CLASSES, VOLUME_PROTECTION
from volcanoio.localcluster.apiserver.apimachinery.objects import Event, Ref, Stored
from volcanoio.localcluster.apiserver.apimachinery.selectors import Selection, matches_label_selector
from volcanoio.localcluster.apiserver.controllers.volume_provisioning import (
    PROVISIONER,
    claim_reference,
    is_ours,
    new_volume,
    remove_directory,
    remove_leftovers,
    substitute_class,
)
from volcanoio.localcluster.apiserver.controllers.workqueue import WorkQueue
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.model.base import Manifest, ObjectReference

CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"


def requested(claim: Manifest) -> Amount:
    """Return the requested size of a claim."""
    text = ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage")
    return ZERO if text is None else amount(text)


def capacity(volume: Manifest) -> Amount:
    """Return the size of a volume."""
    text = (volume["spec"].get("capacity") or {}).get("storage")
    return ZERO if text is None else amount(text)


def class_of(obj: Manifest) -> str:
    """Return the class of a claim or a volume; empty for none."""
    annotations = obj["metadata"].get("annotations") or {}
    return str(annotations.get(CLASS_ANNOTATION) or obj["spec"].get("storageClassName") or "")


def refers_to(volume: Manifest, claim: Manifest) -> bool:
    """Return whether a volume is reserved for this claim, or for a claim of its name."""
    reference, metadata = volume["spec"].get("claimRef"), claim["metadata"]
    if not reference or (reference.get("namespace"), reference.get("name")) != (
        metadata["namespace"],
        metadata["name"],
    ):
        return False
    return reference.get("uid", "") in {"", metadata["uid"]}


def fits(volume: Manifest, claim: Manifest) -> bool:
    """Return whether a volume meets a claim's requirements other than its size."""
    spec, wanted = volume["spec"], claim["spec"]
    if (spec.get("volumeMode") or "Filesystem") != (wanted.get("volumeMode") or "Filesystem"):
        return False
    if class_of(volume) != class_of(claim):
        return False
    if not set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ()):
        return False
    selector = wanted.get("selector")
    return not selector or matches_label_selector(selector, volume["metadata"].get("labels") or {})


def best_volume(volumes: Iterable[Manifest], claim: Manifest, *, reserved_only: bool) -> Manifest | None:
    """Return the volume for a claim: one reserved for it, else the smallest that fits.

    A claim that waits for its first consumer only gets a reserved one (`reserved_only`).
    """
    size = requested(claim).value
    candidates: list[tuple[Amount, str, Manifest]] = []
    for volume in volumes:
        if volume["metadata"].get("deletionTimestamp") or capacity(volume).value < size:
            continue
        if refers_to(volume, claim):
            return volume
        if reserved_only or volume["spec"].get("claimRef") or not fits(volume, claim):
            continue
        candidates.append((capacity(volume), volume["metadata"]["name"], volume))
    return min(candidates, key=lambda one: (one[0].value, one[1]))[2] if candidates else None


_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_MARK: Final = b'"persistentVolumeClaim"'


class Use(NamedTuple):
    """The claims that a pod uses; `node` is empty until it is bound."""

    claims: tuple[str, ...]
    node: str
    finished: bool


def use_of(stored: Stored) -> Use | None:
    """Return the claims that a pod uses; None for a pod without claims."""
    if _MARK not in stored.data:
        return None
    pod = stored.decode()
    spec = pod["spec"]
    names = tuple(
        claim["claimName"]
        for volume in spec.get("volumes") or ()
        if (claim := volume.get("persistentVolumeClaim")) and claim.get("claimName")
    )
    return Use(names, spec.get("nodeName") or "", (pod.get("status") or {}).get("phase") in _FINISHED)


class Consumers:
    """Watcher of pods while any claim is `awaited`; it reports claims whose pods changed.

    There are many pods: while no claim is awaited, writes of pods cost nothing here.
    """

    def __init__(self, core: Core, notify: Callable[[Ref], None]) -> None:
        self._core = core
        self._notify = notify
        self._awaited: set[tuple[str, str]] = set()

    def watch_pods(self, ref: Ref, *, wanted: bool) -> None:
        """Start or stop reporting changes of the claim's pods."""
        key, before = (ref.namespace, ref.name), bool(self._awaited)
        if wanted:
            self._awaited.add(key)
        else:
            self._awaited.discard(key)
        if self._awaited and not before:
            self._core.store.on("pods", self._changed)
        elif before and not self._awaited:
            self._core.store.off("pods", self._changed)

    def _changed(self, ref: Ref, event: Event) -> None:
        use = use_of(event.new)
        for name in use.claims if use is not None else ():
            if (ref.namespace, name) in self._awaited:
                self._notify(Ref("persistentvolumeclaims", ref.namespace, name))

    def uses(self, ref: Ref) -> list[Use]:
        """Return the unfinished pods that use a claim."""
        mark = f'"{ref.name}"'.encode()
        found = []
        for stored in self._core.store.collection("pods").select(Selection(ref.namespace)):
            if _MARK in stored.data and mark in stored.data:
                use = use_of(stored)
                if use is not None and ref.name in use.claims and not use.finished:
                    found.append(use)
        return found


COMPONENT: Final = "persistentvolume-controller"
"""The source of Events about claims."""
CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"
COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
STORAGE_PROVISIONER: Final = tuple(f"volume.{one}kubernetes.io/storage-provisioner" for one in ("beta.", ""))
_BY_HAND: Final = "kubernetes.io/no-provisioner"
PATIENCE: Final = 10.0
"""Seconds to wait for a pod that uses a claim whose class does not exist."""


class ClaimController:
    """Controller that reconciles claims and volumes as they change.

    `record` takes Events about claims.
    """

    def __init__(self, core: Core, record: Callable[[Record], None]) -> None:
        self._core = core
        self._record = record
        self.work: WorkQueue[Ref] = WorkQueue(self._work)
        self._consumers = Consumers(core, self.work.add)
        self._pending: set[Ref] = set()
        self._free: set[str] = set()
        self._reserved: dict[Ref, set[str]] = {}
        self._classless: set[Ref] = set()
        self._any_classless = asyncio.Event()
        remove_leftovers(core)
        core.store.on(CLAIMS, self._changed)
        core.store.on(VOLUMES, self._changed)
        core.store.on(CLASSES, self._class_changed)
        for resource in (VOLUMES, CLAIMS):
            for (namespace, name), stored in core.store.collection(resource).objects.items():
                self._note(Ref(resource, namespace, name), stored)

    async def run(self) -> None:
        """Reconcile claims and volumes until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.work.run)
            tasks.start_soon(self._report_missing_class)

    async def _report_missing_class(self) -> None:
        """Record an Event for claims whose class does not exist, unless a pod uses them soon.

        A real server records it at once, and such a claim stays pending. Here it gets a volume with its first pod.
        """
        while True:
            await self._any_classless.wait()
            known = set(self._classless)
            await self._core.clock.idle(PATIENCE)
            for ref in sorted(known & self._classless):
                self._classless.discard(ref)
                stored = self._core.store.get(ref)
                if stored is not None:
                    claim = stored.decode()
                    text = f'storageclass.storage.k8s.io "{class_of(claim)}" not found'
                    self._record_event(claim, "Warning", "ProvisioningFailed", text)
            if not self._classless:
                self._any_classless.clear()

    def _record_event(self, claim: Manifest, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        about = ("namespace", "name", "uid", "resourceVersion")
        reference = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            **{key: claim["metadata"][key] for key in about},
        }
        regarding = msgspec.convert(reference, ObjectReference)
        self._record(Record(regarding=regarding, type=type_, reason=reason, message=message))

    def _changed(self, ref: Ref, event: Event) -> None:
        if ref.resource == VOLUMES and event.old is not None:
            self._free.discard(ref.name)
            if (claim := _reserved_for(event.old)) is not None:
                self._reserved[claim].discard(ref.name)
                self.work.add(claim)
        if event.type != "DELETED":
            self._note(ref, event.new)
        elif ref.resource == CLAIMS:
            self._pending.discard(ref)
            self._classless.discard(ref)
            self._consumers.watch_pods(ref, wanted=False)
            for name in self._reserved.get(ref, ()):
                self.work.add(Ref(VOLUMES, "", name))

    def _note(self, ref: Ref, stored: Stored) -> None:
        self.work.add(ref)
        if ref.resource == CLAIMS:
            return
        claim = _reserved_for(stored)
        if claim is not None:
            self._reserved.setdefault(claim, set()).add(ref.name)
            self.work.add(claim)
        else:
            self._free.add(ref.name)
            for one in self._pending:
                self.work.add(one)

    def _class_changed(self, ref: Ref, event: Event) -> None:
        del ref, event
        for claim in self._pending:
            self.work.add(claim)

    def _work(self, ref: Ref) -> None:
        stored = self._core.store.get(ref)
        if stored is None:
            return
        if ref.resource == VOLUMES:
            self._volume(ref, stored.decode())
        else:
            self._claim(ref, stored.decode())

    def _claim(self, ref: Ref, claim: Manifest) -> None:
        self._classless.discard(ref)
        if claim["metadata"].get("deletionTimestamp"):
            self._release_claim(ref, claim)
            return
        annotations = claim["metadata"].get("annotations") or {}
        if COMPLETED in annotations:
            self._pending.discard(ref)
            self._consumers.watch_pods(ref, wanted=False)
            self._bound_claim(ref, claim)
            return
        self._pending.add(ref)
        volume = self._volume_for(ref, claim)
        if volume is not None:
            self._bind(ref, claim, volume)
        elif (claim.get("status") or {}).get("phase") != "Pending":
            self._put(ref, claim | {"status": {**(claim.get("status") or {}), "phase": "Pending"}})

    def _volume_for(self, ref: Ref, claim: Manifest) -> Manifest | None:
        """Return the volume for a claim, provisioned if necessary.

        Without one an Event gives the reason.
        """
        store = self._core.store
        if name := claim["spec"].get("volumeName"):
            stored = store.get(Ref(VOLUMES, "", name))
            volume = None if stored is None else stored.decode()
            if volume is None or (volume["spec"].get("claimRef") and not refers_to(volume, claim)):
                return None
            return volume if volume["spec"].get("claimRef") or fits(volume, claim) else None
        class_name = class_of(claim)
        stored = store.get(Ref(CLASSES, "", class_name)) if class_name else None
        named = substitute_class(class_name) if class_name else None
        storage_class = named if stored is None else stored.decode()
        waits = self._waits(ref, claim, storage_class, known=stored is not None)
        found = best_volume(self._candidates(ref), claim, reserved_only=waits and stored is not None)
        if found is not None:
            return found
        if storage_class is None:
            text = "no persistent volumes available for this claim and no storage class is set"
            self._record_event(claim, "Normal", "FailedBinding", text)
            return None
        if not waits:
            return self._provision(ref, claim, storage_class)
        if stored is None:
            self._classless.add(ref)
            self._any_classless.set()
        else:
            text = "waiting for first consumer to be created before binding"
            self._record_event(claim, "Normal", "WaitForFirstConsumer", text)
        return None

    def _candidates(self, ref: Ref) -> list[Manifest]:
        """Return available volumes, and those reserved for claims of this name."""
        names = sorted(self._free | self._reserved.get(ref, set()))
        found = (self._core.store.get(Ref(VOLUMES, "", name)) for name in names)
        return [stored.decode() for stored in found if stored is not None]

    def _waits(self, ref: Ref, claim: Manifest, storage_class: Manifest | None, *, known: bool) -> bool:
        """Return whether the claim waits for its first consumer.

        That is so when its class requires it and no scheduled pod uses the claim yet.

        A scheduler selects no node for a claim of a missing class: there any pod that uses it will do.
        """
        if storage_class is None or storage_class.get("volumeBindingMode") != "WaitForFirstConsumer":
            return False
        if SELECTED_NODE in (claim["metadata"].get("annotations") or {}):
            return False
        self._consumers.watch_pods(ref, wanted=True)
        uses = self._consumers.uses(ref)
        if not known and uses:
            return False
        node = next((use.node for use in uses if use.node), "")
        if node:
            claim["metadata"].setdefault("annotations", {})[SELECTED_NODE] = node
        return not node

    def _provision(self, ref: Ref, claim: Manifest, storage_class: Manifest) -> Manifest | None:
        """Provision a volume of our class.

        For others, record an Event that names the external provisioner.
        """
        provisioner = storage_class.get("provisioner", "")
        if provisioner == _BY_HAND:
            self._record_event(claim, "Warning", "ProvisioningFailed", f"no volume plugin matched name: {provisioner}")
            return None
        annotations = claim["metadata"].setdefault("annotations", {})
        missing = [key for key in STORAGE_PROVISIONER if annotations.get(key) != provisioner]
        if missing:
            annotations |= dict.fromkeys(STORAGE_PROVISIONER, provisioner)
            self._put(ref, claim)
        if provisioner != PROVISIONER:
            text = (
                f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by "
                "the system administrator. If volume creation is delayed, please verify that the provisioner is "
                "running and correctly registered."
            )
            self._record_event(claim, "Normal", "ExternalProvisioning", text)
            return None
        made = new_volume(self._core, claim, storage_class)
        target = Ref(VOLUMES, "", made["metadata"]["name"])
        stored = self._core.store.get(target)
        if stored is not None:
            return stored.decode()
        self._core.store.put(target, made)
        name = made["metadata"]["name"]
        self._record_event(claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {name}")
        return made

    def _bind(self, ref: Ref, claim: Manifest, volume: Manifest) -> None:
        """Bind volume and claim: the volume first, so that no other claim takes it."""
        spec = volume["spec"]
        if not spec.get("claimRef") or spec["claimRef"].get("uid") != claim["metadata"]["uid"]:
            if not spec.get("claimRef"):
                volume["metadata"].setdefault("annotations", {})[BY_CONTROLLER] = "yes"
            spec["claimRef"] = claim_reference(claim)
        self._set_phase(volume, "Bound")
        self._put(Ref(VOLUMES, "", volume["metadata"]["name"]), volume)
        annotations = claim["metadata"].setdefault("annotations", {})
        if not claim["spec"].get("volumeName"):
            claim["spec"]["volumeName"] = volume["metadata"]["name"]
            annotations[BY_CONTROLLER] = "yes"
        annotations[COMPLETED] = "yes"
        claim["status"] = {"phase": "Bound", "accessModes": spec.get("accessModes"), "capacity": spec.get("capacity")}
        self._put(ref, claim)

    def _bound_claim(self, ref: Ref, claim: Manifest) -> None:
        """Keep the phase of a bound claim, mark it lost without its volume, or grow it."""
        stored = self._core.store.get(Ref(VOLUMES, "", claim["spec"].get("volumeName") or ""))
        volume = None if stored is None else stored.decode()
        status = dict(claim.get("status") or {})
        if volume is None or not refers_to(volume, claim):
            if status.get("phase") != "Lost":
                text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
                self._record_event(claim, "Warning", "ClaimLost", text)
            status["phase"] = "Lost"
        else:
            if is_ours(volume) and requested(claim).value > capacity(volume).value:
                volume["spec"]["capacity"] = dict(claim["spec"]["resources"]["requests"])
                self._put(Ref(VOLUMES, "", volume["metadata"]["name"]), volume)
            status |= {"phase": "Bound", "accessModes": volume["spec"].get("accessModes")}
            status["capacity"] = volume["spec"].get("capacity")
        if status != claim.get("status"):
            claim["status"] = status
            self._put(ref, claim)

    def _release_claim(self, ref: Ref, claim: Manifest) -> None:
        """Remove the finalizer of a deleted claim once no scheduled pod uses it."""
        self._pending.discard(ref)
        if CLAIM_PROTECTION not in (claim["metadata"].get("finalizers") or ()):
            return
        self._consumers.watch_pods(ref, wanted=True)
        if not any(use.node for use in self._consumers.uses(ref)):
            self._drop_finalizer(ref, claim, CLAIM_PROTECTION)

    def _volume(self, ref: Ref, volume: Manifest) -> None:
        reference = volume["spec"].get("claimRef")
        claim = None
        if reference:
            claim_ref = Ref(CLAIMS, reference.get("namespace", ""), reference.get("name", ""))
            stored = self._core.store.get(claim_ref)
            claim = None if stored is None else stored.decode()
            if claim is not None and not refers_to(volume, claim):
                claim = None
        if volume["metadata"].get("deletionTimestamp"):
            if claim is None and VOLUME_PROTECTION in (volume["metadata"].get("finalizers") or ()):
                self._drop_finalizer(ref, volume, VOLUME_PROTECTION)
            return
        if not reference or (not reference.get("uid") and claim is None):
            self._update_phase(ref, volume, "Available")
        elif claim is None:
            self._reclaim(ref, volume)
        elif claim["spec"].get("volumeName") == ref.name:
            self._update_phase(ref, volume, "Bound")
        else:
            self.work.add(Ref(CLAIMS, claim["metadata"]["namespace"], claim["metadata"]["name"]))

    def _reclaim(self, ref: Ref, volume: Manifest) -> None:
        """Reclaim the volume of a deleted claim: one of ours is deleted where its policy is Delete."""
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete" and is_ours(volume):
            remove_directory(self._core, volume)
            self._core.store.remove(ref, volume)
        else:
            self._update_phase(ref, volume, "Released")

    def _update_phase(self, ref: Ref, volume: Manifest, phase: str) -> None:
        if (volume.get("status") or {}).get("phase") != phase:
            self._set_phase(volume, phase)
            self._put(ref, volume)

    def _set_phase(self, volume: Manifest, phase: str) -> None:
        status = volume.setdefault("status", {})
        if status.get("phase") != phase:
            status |= {"phase": phase, "lastPhaseTransitionTime": self._core.now()}

    def _drop_finalizer(self, ref: Ref, obj: Manifest, finalizer: str) -> None:
        """Remove our finalizer, and with the last one the object."""
        left = [name for name in obj["metadata"].get("finalizers") or () if name != finalizer]
        obj["metadata"]["finalizers"] = left
        if left:
            self._core.store.put(ref, obj)
        else:
            del obj["metadata"]["finalizers"]
            self._core.store.remove(ref, obj)

    def _put(self, ref: Ref, obj: Manifest) -> None:
        """Store the object if it changed."""
        stored = self._core.store.get(ref)
        if stored is not None and stored.decode() != obj:
            obj["metadata"]["resourceVersion"] = str(stored.revision)
            self._core.store.put(ref, obj)


def _reserved_for(volume: Stored) -> Ref | None:
    """Return the claim for which a volume is reserved, or to which it is bound."""
    if b'"claimRef"' not in volume.data:
        return None
    reference = volume.decode()["spec"].get("claimRef")
    return Ref(CLAIMS, reference.get("namespace", ""), reference.get("name", "")) if reference else None
