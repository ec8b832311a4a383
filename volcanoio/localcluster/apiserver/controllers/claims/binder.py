"""Binds claims to volumes and lets both go again.

Kubernetes: pkg/controller/volume/persistentvolume/pv_controller.go. Each step starts from what is stored and may be
repeated: a server that was killed goes on where it was.
"""

from __future__ import annotations

from typing import Final

from volcanoio.localcluster.apiserver.controllers.claims.consumers import Consumers
from volcanoio.localcluster.apiserver.controllers.claims.matching import (
    best_volume,
    capacity,
    class_of,
    fits,
    refers_to,
    requested,
)
from volcanoio.localcluster.apiserver.controllers.claims.provisioning import (
    PROVISIONER,
    claim_reference,
    is_ours,
    new_volume,
    remove_directory,
    remove_leftovers,
    stand_in,
)
from volcanoio.localcluster.apiserver.controllers.claims.telling import Teller
from volcanoio.localcluster.apiserver.controllers.worklist import Worklist
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.objects import Event, Ref, Stored
from volcanoio.localcluster.apiserver.plugins.storage import CLAIM_PROTECTION, CLASSES, VOLUME_PROTECTION
from volcanoio.model.base import Manifest

CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"
COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
STORAGE_PROVISIONER: Final = tuple(f"volume.{one}kubernetes.io/storage-provisioner" for one in ("beta.", ""))
_BY_HAND: Final = "kubernetes.io/no-provisioner"


class ClaimController:
    """Works on claims and volumes as they change."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.work: Worklist[Ref] = Worklist(self._work)
        self._tell = Teller(core)
        self._consumers = Consumers(core, self.work.add)
        self._pending: set[Ref] = set()
        self._free: set[str] = set()
        self._reserved: dict[Ref, set[str]] = {}
        remove_leftovers(core)
        core.store.on(CLAIMS, self._changed)
        core.store.on(VOLUMES, self._changed)
        core.store.on(CLASSES, self._class_changed)
        for resource in (VOLUMES, CLAIMS):
            for (namespace, name), stored in core.store.collection(resource).objects.items():
                self._note(Ref(resource, namespace, name), stored)

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
            self._consumers.awaits(ref, wanted=False)
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
        if claim["metadata"].get("deletionTimestamp"):
            self._release_claim(ref, claim)
            return
        annotations = claim["metadata"].get("annotations") or {}
        if COMPLETED in annotations:
            self._pending.discard(ref)
            self._consumers.awaits(ref, wanted=False)
            self._bound_claim(ref, claim)
            return
        self._pending.add(ref)
        volume = self._volume_for(ref, claim)
        if volume is not None:
            self._bind(ref, claim, volume)
        elif (claim.get("status") or {}).get("phase") != "Pending":
            self._put(ref, claim | {"status": {**(claim.get("status") or {}), "phase": "Pending"}})

    def _volume_for(self, ref: Ref, claim: Manifest) -> Manifest | None:
        """The volume a claim gets now; asks for a new one, or says why there is none."""
        store = self._core.store
        if name := claim["spec"].get("volumeName"):
            stored = store.get(Ref(VOLUMES, "", name))
            volume = None if stored is None else stored.decode()
            if volume is None or (volume["spec"].get("claimRef") and not refers_to(volume, claim)):
                return None
            return volume if volume["spec"].get("claimRef") or fits(volume, claim) else None
        class_name = class_of(claim)
        stored = store.get(Ref(CLASSES, "", class_name)) if class_name else None
        named = stand_in(class_name) if class_name else None
        storage_class = named if stored is None else stored.decode()
        waits = self._waits(ref, claim, storage_class, known=stored is not None)
        found = best_volume(self._candidates(ref), claim, reserved_only=waits and stored is not None)
        if found is not None:
            return found
        if storage_class is None:
            text = "no persistent volumes available for this claim and no storage class is set"
            self._tell(claim, "Normal", "FailedBinding", text)
            return None
        if stored is None:
            text = f'storageclass.storage.k8s.io "{class_name}" not found'
            self._tell(claim, "Warning", "ProvisioningFailed", text)
        elif waits:
            text = "waiting for first consumer to be created before binding"
            self._tell(claim, "Normal", "WaitForFirstConsumer", text)
        return None if waits else self._provision(ref, claim, storage_class)

    def _candidates(self, ref: Ref) -> list[Manifest]:
        """The volumes that belong to nobody, and those reserved for claims of this name."""
        names = sorted(self._free | self._reserved.get(ref, set()))
        found = (self._core.store.get(Ref(VOLUMES, "", name)) for name in names)
        return [stored.decode() for stored in found if stored is not None]

    def _waits(self, ref: Ref, claim: Manifest, storage_class: Manifest | None, *, known: bool) -> bool:
        """Whether the claim's class lets it wait for a pod, and no pod on a node uses it yet.

        A scheduler chooses no node for a claim whose class it does not know: there any pod that uses it will do.
        """
        if storage_class is None or storage_class.get("volumeBindingMode") != "WaitForFirstConsumer":
            return False
        if SELECTED_NODE in (claim["metadata"].get("annotations") or {}):
            return False
        self._consumers.awaits(ref, wanted=True)
        uses = self._consumers.uses(ref)
        if not known and uses:
            return False
        node = next((use.node for use in uses if use.node), "")
        if node:
            claim["metadata"].setdefault("annotations", {})[SELECTED_NODE] = node
        return not node

    def _provision(self, ref: Ref, claim: Manifest, storage_class: Manifest) -> Manifest | None:
        """Make a volume of a class of ours; for another's, say who is waited for."""
        provisioner = storage_class.get("provisioner", "")
        if provisioner == _BY_HAND:
            self._tell(claim, "Warning", "ProvisioningFailed", f"no volume plugin matched name: {provisioner}")
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
            self._tell(claim, "Normal", "ExternalProvisioning", text)
            return None
        made = new_volume(self._core, claim, storage_class)
        target = Ref(VOLUMES, "", made["metadata"]["name"])
        stored = self._core.store.get(target)
        if stored is not None:
            return stored.decode()
        self._core.store.put(target, made)
        name = made["metadata"]["name"]
        self._tell(claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {name}")
        return made

    def _bind(self, ref: Ref, claim: Manifest, volume: Manifest) -> None:
        """Join the two: the volume first, so that nobody else takes it."""
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
        """A bound claim keeps its phase, loses its volume, or grows with it."""
        stored = self._core.store.get(Ref(VOLUMES, "", claim["spec"].get("volumeName") or ""))
        volume = None if stored is None else stored.decode()
        status = dict(claim.get("status") or {})
        if volume is None or not refers_to(volume, claim):
            if status.get("phase") != "Lost":
                text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
                self._tell(claim, "Warning", "ClaimLost", text)
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
        """Let a deleted claim go once no pod on a node uses it."""
        self._pending.discard(ref)
        if CLAIM_PROTECTION not in (claim["metadata"].get("finalizers") or ()):
            return
        self._consumers.awaits(ref, wanted=True)
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
            self._settle(ref, volume, "Available")
        elif claim is None:
            self._reclaim(ref, volume)
        elif claim["spec"].get("volumeName") == ref.name:
            self._settle(ref, volume, "Bound")
        else:
            self.work.add(Ref(CLAIMS, claim["metadata"]["namespace"], claim["metadata"]["name"]))

    def _reclaim(self, ref: Ref, volume: Manifest) -> None:
        """The claim is gone: a volume of ours goes with it where its policy says so."""
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete" and is_ours(volume):
            remove_directory(self._core, volume)
            self._core.store.remove(ref, volume)
        else:
            self._settle(ref, volume, "Released")

    def _settle(self, ref: Ref, volume: Manifest, phase: str) -> None:
        if (volume.get("status") or {}).get("phase") != phase:
            self._set_phase(volume, phase)
            self._put(ref, volume)

    def _set_phase(self, volume: Manifest, phase: str) -> None:
        status = volume.setdefault("status", {})
        if status.get("phase") != phase:
            status |= {"phase": phase, "lastPhaseTransitionTime": self._core.now()}

    def _drop_finalizer(self, ref: Ref, obj: Manifest, finalizer: str) -> None:
        """Take our finalizer away, and with the last one the object."""
        left = [name for name in obj["metadata"].get("finalizers") or () if name != finalizer]
        obj["metadata"]["finalizers"] = left
        if left:
            self._core.store.put(ref, obj)
        else:
            del obj["metadata"]["finalizers"]
            self._core.store.remove(ref, obj)

    def _put(self, ref: Ref, obj: Manifest) -> None:
        """Store what changed, and nothing else."""
        stored = self._core.store.get(ref)
        if stored is not None and stored.decode() != obj:
            obj["metadata"]["resourceVersion"] = str(stored.revision)
            self._core.store.put(ref, obj)


def _reserved_for(volume: Stored) -> Ref | None:
    """The claim a volume is reserved for, or bound to."""
    if b'"claimRef"' not in volume.data:
        return None
    reference = volume.decode()["spec"].get("claimRef")
    return Ref(CLAIMS, reference.get("namespace", ""), reference.get("name", "")) if reference else None
