"""Volume claims: the tasks that use them, their requirements on nodes, and the volumes attached to nodes.

Requirements are computed when a pending task is checked, and cached until the claim, its volume or its class changes.
Rules and messages: Kubernetes pkg/scheduler/framework/plugins/volumebinding; for the volume limits of nodes
.../nodevolumelimits, which count volumes of pods' claims and attached volumes that no pod there uses.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from volcanoio.engine.scheduling.cluster.inputs import Inputs
from volcanoio.engine.scheduling.cluster.jobs import TaskInfo
from volcanoio.engine.scheduling.cluster.pod_fields import ClaimName
from volcanoio.engine.scheduling.podindex.label_classes import NodeCountTable
from volcanoio.framework.events import Change, Observed
from volcanoio.framework.scheduling.views import BoundVolume, Task, TaskStatus, VolumeClaim
from volcanoio.model import kinds
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

CLAIMS, VOLUMES, CLASSES = kinds.PVC.resource, kinds.PV.resource, kinds.STORAGE_CLASS.resource
ZONE_LABELS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_NO_NODES: Mapping[str, int] = MappingProxyType({})


class CountedVolume(NamedTuple):
    """Driver ("" for one without limits) and volume name as which a claim in use is counted."""

    driver: str
    volume: str


class Attached(NamedTuple):
    """Fields of a VolumeAttachment."""

    driver: str
    volume: str
    node: str


class VolumeIndex:
    """Index of volume claims. Implements `views.VolumesView`. It costs nothing before a task names a claim."""

    def __init__(self, inputs: Inputs) -> None:
        self.is_active = False
        self._inputs = inputs
        self._users: dict[str, dict[str, TaskInfo]] = {}
        self._used_on: dict[str, dict[str, int]] = {}
        self._in_use: dict[str, NodeCountTable] = {}
        self._evicted: dict[str, TaskInfo] = {}
        """Tasks that the session evicted, by uid: their claims do not count on their node."""
        self._counted_as: dict[str, CountedVolume] = {}
        """Counted volume of each used claim."""
        self._attachments: dict[str, Attached] = {}
        self._attached: dict[str, dict[str, int]] = {}
        """Per volume the nodes it is attached to and the number of attachments; counted even if unused."""
        self._claims: dict[str, VolumeClaim] = {}
        """Requirements of each claim, as if a single pod used it."""
        self._claims_by_volume: dict[str, set[str]] = {}
        """Claims whose requirements depend on a volume, by its name."""
        self._volumes_by_claim: dict[str, set[str]] = {}
        """Volumes whose claimRef names a claim, by the claim's key."""
        self._claim_by_volume: dict[str, str] = {}
        """Claim in a volume's claimRef, by the volume's name."""

    # Read by plugins.

    def claims(self, task: Task) -> Sequence[tuple[str, VolumeClaim]]:
        """Return the claims of a task by key, in the order of its volumes."""
        named: tuple[ClaimName, ...] = task.claim_names  # type: ignore[attr-defined]  # every task is a TaskInfo
        return [(each.key, self._claim_of_pod(each)) for each in named]

    def used_on(self, claim: str) -> Mapping[str, int]:
        """Return the number of tasks per node that use a claim."""
        return self._used_on.get(claim, _NO_NODES)

    def waiting(self, claim: str) -> int:
        """Return the number of Pending tasks that name a claim."""
        return sum(task.status is TaskStatus.PENDING for task in self._users.get(claim, {}).values())

    def in_use(self, driver: str) -> NodeCountTable:
        """Return the live counts of a driver's volumes used or attached, by node."""
        return self._in_use.setdefault(driver, NodeCountTable())

    # Called by the ledger for tasks and by the cluster state for objects.

    def add(self, task: TaskInfo) -> None:
        """Add a task that names claims."""
        self.is_active = True
        for key, _ in task.claim_names:
            self._users.setdefault(key, {})[task.uid] = task

    def remove(self, task: TaskInfo) -> None:
        """Remove a task that names claims."""
        for key, _ in task.claim_names:
            users = self._users[key]
            users.pop(task.uid, None)
            if not users:
                del self._users[key]
                self._claims.pop(key, None)

    def count_on_node(self, task: TaskInfo, node: str, sign: int) -> None:
        """Count a task in (sign 1) or out (sign -1) on a node."""
        if sign < 0 and self._evicted and self._evicted.pop(task.uid, None) is not None:
            return
        for key, _ in dict.fromkeys(task.claim_names):
            nodes = self._used_on.setdefault(key, {})
            if (before := nodes.get(node, 0)) + sign:
                nodes[node] = before + sign
            else:
                del nodes[node]
            if not before or not before + sign:
                if (counted := self._counted_as.get(key)) is None:
                    counted = self._counted_as[key] = self._counted_volume(key)
                self._count(counted, node, sign)
            if not nodes:
                del self._used_on[key], self._counted_as[key]

    def count_evicted(self, task: TaskInfo) -> None:
        """Stop counting the claims of a task that the session evicts."""
        if task.uid not in self._evicted and task.node:
            self.count_on_node(task, task.node, -1)
            self._evicted[task.uid] = task

    def refresh(self) -> None:
        """Count again the evicted tasks that still exist, before a session."""
        while self._evicted:
            _, task = self._evicted.popitem()
            self.count_on_node(task, task.node, 1)

    def observe(self, event: Observed) -> bool:
        """Drop results that depend on a changed object; return whether it could alter a decision."""
        obj = event.obj
        match obj:
            case PersistentVolumeClaim():
                self._forget(obj.metadata.key)
            case PersistentVolume():
                self._volume_changed(obj, deleted=event.change is Change.GONE)
            case StorageClass():
                self._claims.clear()
                for key in list(self._counted_as):
                    self._recount(key)
            case VolumeAttachment():
                return self._attachment_changed(obj, deleted=event.change is Change.GONE)
        return True

    def _volume_changed(self, volume: PersistentVolume, *, deleted: bool) -> None:
        name = volume.metadata.name
        changed_claims = set(self._claims_by_volume.pop(name, ()))
        if before := self._claim_by_volume.pop(name, ""):
            changed_claims.add(before)
            self._volumes_by_claim[before].discard(name)
            if not self._volumes_by_claim[before]:
                del self._volumes_by_claim[before]
        if (ref := volume.spec.claim_ref) is not None and not deleted:
            key = self._claim_by_volume[name] = f"{ref.namespace}/{ref.name}"
            self._volumes_by_claim.setdefault(key, set()).add(name)
            changed_claims.add(key)
        for key in changed_claims:
            self._forget(key)

    def _attachment_changed(self, attachment: VolumeAttachment, *, deleted: bool) -> bool:
        name, spec = attachment.metadata.name, attachment.spec
        now = Attached(spec.attacher, spec.source.persistent_volume_name, spec.node_name)
        before = self._attachments.pop(name, None)
        exists = not deleted and all(now)
        if exists:
            self._attachments[name] = now
        if exists and now == before:
            return False
        was_counted = before is not None and self._attach(before, -1)
        return (exists and self._attach(now, 1)) or was_counted

    def _attach(self, attached: Attached, sign: int) -> bool:
        """Count an attachment in place of claims in use on that node; return whether that matters."""
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
        keys = self._claims_by_volume.get(volume, ())
        volumes_in_use = [self._counted_as[key] for key in keys if node in self._used_on.get(key, _NO_NODES)]
        used = [counted.driver for counted in volumes_in_use if counted.volume == volume]
        awaited = False
        for key in keys:
            awaited |= self._claims.pop(key, None) is not None and self.waiting(key) > 0
        if used == [driver]:
            return awaited
        for each in used:
            self._add(each, node, -sign)
        self._add(driver, node, sign)
        return True

    def _forget(self, key: str) -> None:
        self._claims.pop(key, None)
        if key in self._counted_as:
            self._recount(key)

    def _recount(self, key: str) -> None:
        """Move the counts of a claim whose driver or volume may have changed."""
        counted, before = self._counted_volume(key), self._counted_as[key]
        if counted != before:
            for node in self._used_on[key]:
                self._count(before, node, -1)
                self._count(counted, node, 1)
            self._counted_as[key] = counted

    def _count(self, counted: CountedVolume, node: str, amount: int) -> None:
        """Count a claim in use on a node, unless its volume counts there as attached."""
        if not self._attached or node not in self._attached.get(counted.volume, _NO_NODES):
            self._add(counted.driver, node, amount)

    def _add(self, driver: str, node: str, amount: int) -> None:
        if driver:
            self.in_use(driver).add(node, amount)

    # Requirements of claims.

    def _claim_of_pod(self, named: ClaimName) -> VolumeClaim:
        key, owner = named
        if (claim_info := self._claims.get(key)) is None:
            claim_info = self._claims[key] = self._read_claim(key)
        name = key.partition("/")[2]
        if owner:
            if (claim := self._inputs.objects(CLAIMS).get(key)) is None:
                return VolumeClaim(
                    error=f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
                )
            if not any(one.uid == owner and one.controller for one in claim.metadata.owner_references):
                return VolumeClaim(
                    error=f'persistentvolumeclaim "{name}" was not created for the pod: it does not own it'
                )
        if not claim_info.error and len(self._users.get(key, ())) > 1:
            return msgspec.structs.replace(claim_info, key=key)
        return claim_info

    def _read_claim(self, key: str) -> VolumeClaim:
        name = key.partition("/")[2]
        if not isinstance(claim := self._inputs.objects(CLAIMS).get(key), PersistentVolumeClaim):
            return VolumeClaim(error=f'persistentvolumeclaim "{name}" not found')
        spec, annotations = claim.spec, claim.metadata.annotations
        if claim.status.phase == "Lost":
            return VolumeClaim(
                error=f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{spec.volume_name}"'
            )
        if claim.metadata.deletion_timestamp is not None:
            return VolumeClaim(error=f'persistentvolumeclaim "{name}" is being deleted')
        claim_info = VolumeClaim(
            storage_class=_class_name(claim),
            access_modes=tuple(sorted(spec.access_modes)),
            driver=self._counted_volume(key).driver,
        )
        if spec.volume_name and (BIND_COMPLETED in annotations or claim.status.phase == "Bound"):
            return self._with_volume(key, claim_info, spec.volume_name)
        storage_class = self._storage_class(claim)
        waits = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        return msgspec.structs.replace(
            claim_info,
            waits_for_consumer=waits and not spec.volume_name,
            volume_mode=spec.volume_mode,
            size=value(spec.resources.requests.get("storage", 0)),
            selector=None if spec.selector is None else spec.selector.requirements,
            selected_node=annotations.get(SELECTED_NODE, ""),
            reserved_volume=self._reserving_volume(claim),
        )

    def _with_volume(self, key: str, claim_info: VolumeClaim, name: str) -> VolumeClaim:
        self._claims_by_volume.setdefault(name, set()).add(key)
        if not isinstance(volume := self._inputs.objects(VOLUMES).get(name), PersistentVolume):
            error = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
            return VolumeClaim(error=error, driver=claim_info.driver)
        affinity = volume.spec.node_affinity
        required = affinity.required if affinity is not None else None
        labels = volume.metadata.labels
        bound = BoundVolume(
            node_affinity=None if required is None else required.node_selector_terms,
            zones=tuple((label, labels[label]) for label in ZONE_LABELS if label in labels),
            attached_nodes=tuple(sorted(self._attached.get(name, ()))),
        )
        return msgspec.structs.replace(claim_info, volume=bound)

    def _reserving_volume(self, claim: PersistentVolumeClaim) -> str:
        volumes = self._inputs.objects(VOLUMES)
        for name in sorted(self._volumes_by_claim.get(claim.metadata.key, ())):
            volume = volumes.get(name)
            ref = volume.spec.claim_ref if isinstance(volume, PersistentVolume) else None
            if ref is not None and ref.uid in ("", claim.metadata.uid):
                return name
        return ""

    def _storage_class(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        storage_class = self._inputs.objects(CLASSES).get(_class_name(claim))
        return storage_class if isinstance(storage_class, StorageClass) else None

    def _counted_volume(self, key: str) -> CountedVolume:
        """Return the counted volume: the driver of the claim's volume, else its class's provisioner."""
        if not isinstance(claim := self._inputs.objects(CLAIMS).get(key), PersistentVolumeClaim):
            return CountedVolume("", "")
        if name := claim.spec.volume_name:
            self._claims_by_volume.setdefault(name, set()).add(key)
            if isinstance(volume := self._inputs.objects(VOLUMES).get(name), PersistentVolume):
                return CountedVolume("" if volume.spec.csi is None else volume.spec.csi.driver, name)
        storage_class = self._storage_class(claim)
        return CountedVolume("" if storage_class is None else storage_class.provisioner, name)


def _class_name(claim: PersistentVolumeClaim) -> str:
    """Return the class of a claim; the old annotation wins over the field, as in Kubernetes."""
    return claim.metadata.annotations.get("volume.beta.kubernetes.io/storage-class") or (
        claim.spec.storage_class_name or ""
    )
