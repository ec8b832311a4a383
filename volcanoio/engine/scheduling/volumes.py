"""Volume claims: which tasks use which, where, and what each asks of nodes; and which volumes are attached where.

What a claim asks is worked out when a task that waits is looked at, and kept until the claim, its volume or its class
changes. Rules and texts: Kubernetes pkg/scheduler/framework/plugins/volumebinding, and for what counts against the
limits of nodes .../nodevolumelimits: volumes of pods' claims, and those attached that no pod there uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from volcanoio.engine.scheduling.inputs import Inputs
from volcanoio.engine.scheduling.tally import PodTally
from volcanoio.framework.events import Change, Observed
from volcanoio.framework.scheduling.views import Task, TaskStatus
from volcanoio.framework.scheduling.volumes import BoundVolume, VolumeClaim
from volcanoio.model import kinds
from volcanoio.model.core import Pod
from volcanoio.model.quantity import value
from volcanoio.model.storage import (
    BIND_COMPLETED,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.tasks import TaskInfo

CLAIMS, VOLUMES, CLASSES = kinds.PVC.resource, kinds.PV.resource, kinds.STORAGE_CLASS.resource
ZONE_LABELS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_NOWHERE: Mapping[str, int] = MappingProxyType({})


class Named(NamedTuple):
    """A claim as a pod names it; `owner` is the uid of the pod that it must belong to, "" for any."""

    key: str
    owner: str


class Place(NamedTuple):
    """What a claim in use is counted as: the driver of its volume ("" for none that counts), and the volume's name."""

    driver: str
    volume: str


class Attached(NamedTuple):
    """What an attachment says."""

    driver: str
    volume: str
    node: str


def named_by(pod: Pod) -> tuple[Named, ...]:
    """The claims a pod names, each once and in the order of its volumes.

    That of an ephemeral volume is named after pod and volume.
    """
    found: dict[str, Named] = {}
    for volume in pod.spec.volumes:
        if (source := volume.get("persistentVolumeClaim")) is not None:
            key = f"{pod.metadata.namespace}/{source.get('claimName', '')}"
            found.setdefault(key, Named(key, ""))
        elif volume.get("ephemeral") is not None:
            name = f"{pod.metadata.name}-{volume.get('name', '')}"
            key = f"{pod.metadata.namespace}/{name}"
            found.setdefault(key, Named(key, pod.metadata.uid))
    return tuple(found.values())


class VolumeIndex:
    """Implements `volumes.VolumesView`. `active` says whether any task names a claim: without, it costs nothing."""

    def __init__(self, inputs: Inputs) -> None:
        self.active = False
        self._inputs = inputs
        self._users: dict[str, dict[str, TaskInfo]] = {}
        self._used_on: dict[str, dict[str, int]] = {}
        self._in_use: dict[str, PodTally] = {}
        self._gone: dict[str, TaskInfo] = {}
        """Tasks that the session evicted, by uid: their claims are used there no longer."""
        self._places: dict[str, Place] = {}
        """As what each used claim is counted."""
        self._attachments: dict[str, Attached] = {}
        self._attached: dict[str, dict[str, int]] = {}
        """By volume the nodes it is attached to, and how many attachments say so: counted whoever uses it there."""
        self._facts: dict[str, VolumeClaim] = {}
        """What is known of claims, as of one that a single pod uses."""
        self._by_volume: dict[str, set[str]] = {}
        """The claims whose facts follow from a volume, by its name."""
        self._reserved: dict[str, set[str]] = {}
        """The volumes that name a claim, by the claim's key."""
        self._names: dict[str, str] = {}
        """The claim that a volume names, by the volume's name."""

    # What plugins see.

    def claims(self, task: Task) -> Sequence[tuple[str, VolumeClaim]]:
        """As `volumes.VolumesView`."""
        named: tuple[Named, ...] = task.claims  # type: ignore[attr-defined]  # tasks are ours
        return [(each.key, self._claim(each)) for each in named]

    def used_on(self, claim: str) -> Mapping[str, int]:
        """As `volumes.VolumesView`."""
        return self._used_on.get(claim, _NOWHERE)

    def waiting(self, claim: str) -> int:
        """As `volumes.VolumesView`."""
        return sum(task.status is TaskStatus.PENDING for task in self._users.get(claim, {}).values())

    def in_use(self, driver: str) -> PodTally:
        """As `volumes.VolumesView`."""
        return self._in_use.setdefault(driver, PodTally())

    # The ledger tells of tasks, the state of objects.

    def add(self, task: TaskInfo) -> None:
        """A task that names claims is known from now on."""
        self.active = True
        for key, _ in task.claims:
            self._users.setdefault(key, {})[task.uid] = task

    def remove(self, task: TaskInfo) -> None:
        """It is known no longer."""
        for key, _ in task.claims:
            users = self._users[key]
            users.pop(task.uid, None)
            if not users:
                del self._users[key]
                self._facts.pop(key, None)

    def weigh(self, task: TaskInfo, node: str, sign: int) -> None:
        """A task came to a node, or left it."""
        if sign < 0 and self._gone and self._gone.pop(task.uid, None) is not None:
            return
        for key, _ in dict.fromkeys(task.claims):
            nodes = self._used_on.setdefault(key, {})
            before = nodes.get(node, 0)
            if before + sign:
                nodes[node] = before + sign
            else:
                del nodes[node]
            if not before or not before + sign:
                place = self._places.get(key)
                if place is None:
                    place = self._places[key] = self._place(key)
                self._count(place, node, sign)
            if not nodes:
                del self._used_on[key], self._places[key]

    def evicted(self, task: TaskInfo) -> None:
        """The session made a task Releasing: for what else it decides, the pod is gone."""
        if task.uid not in self._gone and task.node:
            self.weigh(task, task.node, -1)
            self._gone[task.uid] = task

    def settle(self) -> None:
        """Before a session: what was evicted and is still there counts again."""
        while self._gone:
            _, task = self._gone.popitem()
            self.weigh(task, task.node, 1)

    def changed(self, event: Observed) -> bool:
        """A claim, volume, class or attachment changed: what follows from it is worked out anew.

        Whether that could alter a decision.
        """
        obj = event.obj
        match obj:
            case PersistentVolumeClaim():
                self._forget(obj.metadata.key)
            case PersistentVolume():
                self._volume_changed(obj, gone=event.change is Change.GONE)
            case StorageClass():
                self._facts.clear()
                for key in list(self._places):
                    self._recount(key)
            case VolumeAttachment():
                return self._attachment_changed(obj, gone=event.change is Change.GONE)
            case _:
                pass
        return True

    def _volume_changed(self, volume: PersistentVolume, *, gone: bool) -> None:
        name = volume.metadata.name
        touched = set(self._by_volume.pop(name, ()))
        if before := self._names.pop(name, ""):
            touched.add(before)
            self._reserved[before].discard(name)
            if not self._reserved[before]:
                del self._reserved[before]
        ref = volume.spec.claim_ref
        if ref is not None and not gone:
            key = self._names[name] = f"{ref.namespace}/{ref.name}"
            self._reserved.setdefault(key, set()).add(name)
            touched.add(key)
        for key in touched:
            self._forget(key)

    def _attachment_changed(self, attachment: VolumeAttachment, *, gone: bool) -> bool:
        name, spec = attachment.metadata.name, attachment.spec
        now = Attached(spec.attacher, spec.source.persistent_volume_name, spec.node_name)
        before = self._attachments.pop(name, None)
        counted = not gone and all(now)
        if counted:
            self._attachments[name] = now
        if counted and now == before:
            return False
        left = before is not None and self._attach(before, -1)
        return (counted and self._attach(now, 1)) or left

    def _attach(self, attached: Attached, sign: int) -> bool:
        """Count a volume of a node that is attached there, in place of claims in use there; whether that matters."""
        driver, volume, node = attached
        nodes = self._attached.setdefault(volume, {})
        before = nodes.get(node, 0)
        nodes[node] = before + sign
        if not nodes[node]:
            del nodes[node]
        if not nodes:
            del self._attached[volume]
        if before and before + sign:
            return False
        keys = self._by_volume.get(volume, ())
        places = [self._places[key] for key in keys if node in self._used_on.get(key, _NOWHERE)]
        used = [place.driver for place in places if place.volume == volume]
        waited_for = False
        for key in keys:
            waited_for |= self._facts.pop(key, None) is not None and self.waiting(key) > 0
        if used == [driver]:
            return waited_for
        for each in used:
            self._add(each, node, -sign)
        self._add(driver, node, sign)
        return True

    def _forget(self, key: str) -> None:
        self._facts.pop(key, None)
        if key in self._places:
            self._recount(key)

    def _recount(self, key: str) -> None:
        """A claim may be another driver's, or have another volume."""
        place, before = self._place(key), self._places[key]
        if place != before:
            for node in self._used_on[key]:
                self._count(before, node, -1)
                self._count(place, node, 1)
            self._places[key] = place

    def _count(self, place: Place, node: str, amount: int) -> None:
        """Count a claim in use on a node, unless its volume counts there as attached."""
        if not self._attached or node not in self._attached.get(place.volume, _NOWHERE):
            self._add(place.driver, node, amount)

    def _add(self, driver: str, node: str, amount: int) -> None:
        if driver:
            self.in_use(driver).add(node, amount)

    # What a claim asks.

    def _claim(self, named: Named) -> VolumeClaim:
        key, owner = named
        known = self._facts.get(key)
        if known is None:
            known = self._facts[key] = self._read(key)
        name = key.partition("/")[2]
        if owner:
            claim = self._inputs.objects(CLAIMS).get(key)
            if claim is None:
                return VolumeClaim(
                    fault=f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
                )
            if not any(one.uid == owner and one.controller for one in claim.metadata.owner_references):
                return VolumeClaim(
                    fault=f'persistentvolumeclaim "{name}" was not created for the pod: it does not own it'
                )
        if not known.fault and len(self._users.get(key, ())) > 1:
            return msgspec.structs.replace(known, key=key)
        return known

    def _read(self, key: str) -> VolumeClaim:
        """What the stored objects say of a claim."""
        name = key.partition("/")[2]
        claim = self._inputs.objects(CLAIMS).get(key)
        if not isinstance(claim, PersistentVolumeClaim):
            return VolumeClaim(fault=f'persistentvolumeclaim "{name}" not found')
        spec, annotations = claim.spec, claim.metadata.annotations
        if claim.status.phase == "Lost":
            return VolumeClaim(
                fault=f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{spec.volume_name}"'
            )
        if claim.metadata.deletion_timestamp is not None:
            return VolumeClaim(fault=f'persistentvolumeclaim "{name}" is being deleted')
        known = VolumeClaim(
            storage_class=_class_name(claim),
            access_modes=tuple(sorted(spec.access_modes)),
            driver=self._place(key).driver,
        )
        if spec.volume_name and (BIND_COMPLETED in annotations or claim.status.phase == "Bound"):
            return self._bound(key, known, spec.volume_name)
        storage_class = self._class(claim)
        waits = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        return msgspec.structs.replace(
            known,
            waits=waits and not spec.volume_name,
            volume_mode=spec.volume_mode,
            size=value(spec.resources.requests.get("storage", 0)),
            selector=None if spec.selector is None else spec.selector.requirements,
            selected=annotations.get(SELECTED_NODE, ""),
            reserved=self._reserved_by(claim),
        )

    def _bound(self, key: str, known: VolumeClaim, name: str) -> VolumeClaim:
        self._by_volume.setdefault(name, set()).add(key)
        volume = self._inputs.objects(VOLUMES).get(name)
        if not isinstance(volume, PersistentVolume):
            fault = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
            return VolumeClaim(fault=fault, driver=known.driver)
        affinity = volume.spec.node_affinity
        required = affinity.required if affinity is not None else None
        labels = volume.metadata.labels
        bound = BoundVolume(
            reach=None if required is None else required.node_selector_terms,
            zones=tuple((label, labels[label]) for label in ZONE_LABELS if label in labels),
            attached=tuple(sorted(self._attached.get(name, ()))),
        )
        return msgspec.structs.replace(known, volume=bound)

    def _reserved_by(self, claim: PersistentVolumeClaim) -> str:
        """The volume that names the claim, "" for none."""
        volumes = self._inputs.objects(VOLUMES)
        for name in sorted(self._reserved.get(claim.metadata.key, ())):
            volume = volumes.get(name)
            ref = volume.spec.claim_ref if isinstance(volume, PersistentVolume) else None
            if ref is not None and ref.uid in ("", claim.metadata.uid):
                return name
        return ""

    def _class(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        found = self._inputs.objects(CLASSES).get(_class_name(claim))
        return found if isinstance(found, StorageClass) else None

    def _place(self, key: str) -> Place:
        """As what a claim counts: its volume's driver, else its class's provisioner."""
        claim = self._inputs.objects(CLAIMS).get(key)
        if not isinstance(claim, PersistentVolumeClaim):
            return Place("", "")
        if name := claim.spec.volume_name:
            self._by_volume.setdefault(name, set()).add(key)
            volume = self._inputs.objects(VOLUMES).get(name)
            if isinstance(volume, PersistentVolume):
                return Place("" if volume.spec.csi is None else volume.spec.csi.driver, name)
        storage_class = self._class(claim)
        return Place("" if storage_class is None else storage_class.provisioner, name)


def _class_name(claim: PersistentVolumeClaim) -> str:
    """The class of a claim; the old annotation stands before the field, as in Kubernetes."""
    return claim.metadata.annotations.get("volume.beta.kubernetes.io/storage-class") or (
        claim.spec.storage_class_name or ""
    )
