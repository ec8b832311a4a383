"""Kubernetes' filter VolumeBinding: nodes that reach the volumes of a pod's claims, or where they can be provisioned.

Source: pkg/scheduler/framework/plugins/volumebinding (binder.go: also bindAPIUpdate, checkBindings). A volume or node
chosen for a claim is planned in the session (`VolumePlans`, which a discarded statement undoes) and written before the
bind of the pod, which then waits until the claim is bound (`prebind_steps`).
"""

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Nodes, Shape, Task, VolumeClaim
from volcanoio.framework.scheduling_effects import PreBindStep
from volcanoio.model import kinds
from volcanoio.model.storage import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
)
from volcanoio_plugins.scheduling.kubernetes.nodeindex import Mask, NodeIndex
from volcanoio_plugins.scheduling.kubernetes.volumecandidates import (
    ANYWHERE,
    CandidateVolumes,
    Provisioning,
    ReachableNodes,
    affinity_terms,
    matches,
)

_OWNER = "predicates"
MAX_NUMBERED = 100_000
"""Maximum number of names that keep their number between sessions."""


class VolumePlans:
    """By claim (`namespace/name`) the planned volume, or the node for which one is to be provisioned.

    `planned` are the volumes planned for a claim, `changes` the additions and removals (1, -1) since `session` began, a
    number that grows. The session's plans are in tables of numbers, so that the undo log covers them; names are
    numbered as they appear. Call `open` once in a session, and `update` before reading `planned` and `changes`.
    """

    def __init__(self) -> None:
        self.planned: set[str] = set()
        self.changes: list[tuple[str, int]] = []
        self.session = 0
        self._names: list[str] = [""]
        self._numbers: dict[str, int] = {"": 0}
        self._volumes: dict[str, str] = {}
        self._nodes: dict[str, str] = {}
        self._of_claims: Table
        self._nodes_of: Table
        self._owners: Table
        self._writers: Table
        self._seen = -1
        self._added: list[str] = []
        """The volumes planned in this session, in order."""

    def open(self, session: SessionView, number: int) -> None:
        """Start the session of that number with the plans of binds in progress."""
        self._of_claims = session.table(_OWNER, "volumes of claims")
        self._nodes_of = session.table(_OWNER, "nodes of claims")
        self._owners = session.table(_OWNER, "owners of volumes")
        self._writers = session.table(_OWNER, "writers of claims")
        if len(self._names) > MAX_NUMBERED:
            self._names, self._numbers = [""], {"": 0}
        self._seen = self._owners.version
        self._added.clear()
        self.changes.clear()
        self.session = number
        self._volumes.clear()
        self._nodes.clear()
        for steps in session.prebinding.values():
            for step in steps:
                if step.resource == kinds.PV.resource and (ref := step.patch.get("spec", {}).get("claimRef")):
                    self._volumes[f"{ref['namespace']}/{ref['name']}"] = step.name
                elif step.resource == kinds.PVC.resource and (
                    node := step.patch.get("metadata", {}).get("annotations", {}).get(SELECTED_NODE)
                ):
                    self._nodes[f"{step.namespace}/{step.name}"] = node
        self.planned = set(self._volumes.values())

    def update(self) -> None:
        """Remove plans that were undone since, mostly the latest."""
        if undone := self._owners.version - self._seen:
            self._seen = self._owners.version
            kept = []
            while undone and self._added:
                name = self._added.pop()
                if self._owners.get(name):
                    kept.append(name)
                else:
                    undone -= 1
                    self.planned.discard(name)
                    self.changes.append((name, -1))
            self._added.extend(reversed(kept))

    def volume_of(self, claim: str) -> str:
        """Return the volume planned for a claim, "" for none."""
        return self._volumes.get(claim) or self._names[self._of_claims.get(claim)]

    def node_of(self, claim: str) -> str:
        """Return the node for which a volume is to be provisioned, "" for none."""
        return self._nodes.get(claim) or self._names[self._nodes_of.get(claim)]

    def writer_of(self, claim: str) -> str:
        """Return the uid of the task whose bind writes the plan of this session."""
        return self._names[self._writers.get(claim)]

    def plan_volume(self, claim: str, volume: str, task: str) -> None:
        """Plan a volume for a claim of a task (its uid)."""
        self.update()
        self._writers.set(claim, self._number(task))
        self._of_claims.set(claim, self._number(volume))
        if volume not in self.planned:
            self._owners.set(volume, self._number(claim))
            self._seen = self._owners.version
            self._added.append(volume)
            self.planned.add(volume)
            self.changes.append((volume, 1))

    def plan_provisioning(self, claim: str, node: str, task: str) -> None:
        """Plan to provision a volume for a claim of a task (its uid)."""
        self._writers.set(claim, self._number(task))
        self._nodes_of.set(claim, self._number(node))

    def _number(self, name: str) -> int:
        if (number := self._numbers.get(name)) is None:
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
        return number


_BOUND = {"metadata": {"annotations": {BIND_COMPLETED: True}}, "spec": {"volumeName": True}}


def prebind_steps(task: Task, session: SessionView, plans: VolumePlans, timeout: float) -> Sequence[PreBindStep]:
    """Return the steps for the claims of a task, in the order of its volumes; `timeout` in seconds for each claim."""
    return tuple(_steps(task, session, plans, timeout))


def _steps(task: Task, session: SessionView, plans: VolumePlans, timeout: float) -> Iterator[PreBindStep]:
    claims = session.objects(kinds.PVC.resource)
    for key, info in session.volumes.claims(task):
        claim = claims.get(key)
        if info.error or not info.waits_for_consumer or not isinstance(claim, PersistentVolumeClaim):
            continue
        meta = claim.metadata
        patch: dict[str, object] = {}
        undo: dict[str, object] = {}
        writes = plans.writer_of(key) == task.uid
        if volume := plans.volume_of(key):
            known = session.objects(kinds.PV.resource).get(volume)
            if known is not None and not info.reserved_volume and writes:
                reference = {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": meta.namespace,
                    "name": meta.name,
                    "uid": meta.uid,
                    "resourceVersion": meta.resource_version,
                }
                yield PreBindStep(
                    resource=kinds.PV.resource,
                    name=volume,
                    uid=known.metadata.uid,
                    resource_version=known.metadata.resource_version,
                    patch={"metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}}, "spec": {"claimRef": reference}},
                    undo={"metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}, "spec": {"claimRef": None}},
                    keeps={"status": {"phase": "Bound"}},
                )
        elif not info.selected_node and writes:
            patch = {"metadata": {"annotations": {SELECTED_NODE: task.node}}}
            undo = {"metadata": {"annotations": {SELECTED_NODE: None}}}
        yield PreBindStep(
            resource=kinds.PVC.resource,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version if patch else "",
            patch=patch,
            undo=undo,
            keeps=_BOUND,
            until=_BOUND,
            holds=patch,
            timeout=timeout,
        )


IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
CONFLICT = "node(s) had volume node affinity conflict"
NONE_LEFT = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
MAX_CACHED = 512
"""Number of distinct claims for which the free volumes are cached."""
_VOLUMES = kinds.PV.resource


class VolumeBinding:
    """Filters nodes by bound claims, and for unbound ones by free volumes in reach or the ability to provision one."""

    watches: tuple[str, ...] = (_VOLUMES, *Provisioning.watches)
    applies_to = ("claims",)

    def __init__(self, index: NodeIndex, timeout: float = 600.0) -> None:
        self._index = index
        self._timeout = timeout
        self._provisioning = Provisioning(index)
        self._reach = ReachableNodes(index)
        self._plans = VolumePlans()
        self._candidates: dict[VolumeClaim, CandidateVolumes] = {}
        self._free: dict[str, dict[str, PersistentVolume]] = {}
        """Unclaimed volumes, by class and name."""
        self._class_of: dict[str, str] = {}
        """The class under which a volume is listed."""
        self._volumes_seen = -1
        self._nodes_seen = -1

    @property
    def plans(self) -> VolumePlans:
        """The plans, opened when a pod with claims first needs them in a session."""
        if self._plans.session != self._index.sessions:
            self._plans.open(self._index.session, self._index.sessions)
        return self._plans

    def feasible_depends(self, shape: Shape) -> Depends:
        """Depend on node labels for bound claims; for unbound ones on classes, and on the volumes that others use."""
        depends = Depends.NOTHING
        for claim in shape.claims:
            if claim.volume is not None:
                depends |= Depends.NODE_SPEC
            elif claim.waits_for_consumer and not claim.error:
                depends |= Depends.SOURCE | Depends.NODE_SPEC
                if claim.key or claim.reserved_volume or self._candidates_for(claim):
                    depends |= Depends.PODS
        return depends

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return the nodes on which all claims of the shape can be satisfied."""
        everywhere = np.ones(len(nodes), np.bool_)
        if not shape.claims:
            return Feasibility(everywhere)
        for claim in shape.claims:
            if claim.error or (claim.volume is None and not claim.waits_for_consumer):
                return Feasibility(~everywhere, ((claim.error or IMMEDIATE, everywhere),))
        index = self._index.over(nodes)
        if index is not self._index and any(claim.volume is None for claim in shape.claims):
            return self._of_rows(shape, nodes)
        bound = [claim.volume.node_affinity for claim in shape.claims if claim.volume is not None]
        reasons = [(CONFLICT, ~index.matches_any(reach)) for reach in bound if reach is not None]
        if waiting := [claim for claim in shape.claims if claim.volume is None]:
            reasons.extend(self._waiting(waiting, index))
            reasons.extend(self._room_for_sharers(shape, waiting, nodes, reasons))
        ok = everywhere
        for _, failed in reasons:
            ok &= ~failed
        return Feasibility(ok, tuple((text, failed) for text, failed in reasons if failed.any()))

    def _of_rows(self, shape: Shape, nodes: Nodes) -> Feasibility:
        every = self.feasible(shape, self._index.session.nodes)
        rows = [row for name in nodes.names if (row := self._index.row_of(name)) is not None]
        return Feasibility(every.ok[rows], tuple((text, failed[rows]) for text, failed in every.reasons))

    def task_placed(self, task: Task) -> None:
        """Plan volumes for the task's claims on its node."""
        if not task.shape.claims:
            return
        row = self._index.update().row_of(task.node)
        waiting = [
            (key, claim)
            for key, claim in self._index.session.volumes.claims(task)
            if claim.waits_for_consumer and not claim.error
        ]
        for key, claim in sorted(waiting, key=lambda item: (item[1].size, item[0])):
            if claim.selected_node or self.plans.volume_of(key) or self.plans.node_of(key):
                continue
            if claim.reserved_volume:
                self.plans.plan_volume(key, claim.reserved_volume, task.uid)
                continue
            candidates = self._candidates_for(claim)
            self.plans.update()
            volume = candidates.best(row, self.plans.planned) if candidates and row is not None else ""
            if volume:
                self.plans.plan_volume(key, volume, task.uid)
            else:
                self.plans.plan_provisioning(key, task.node, task.uid)

    def steps(self, task: Task) -> Sequence[PreBindStep]:
        """Return the steps that bind the claims of a task."""
        return prebind_steps(task, self._index.session, self.plans, self._timeout)

    def _waiting(self, claims: Sequence[VolumeClaim], index: NodeIndex) -> list[tuple[str, Mask]]:
        """Return why nodes fail for claims that wait for a pod."""
        missing = np.zeros(index.size, np.bool_)
        full = np.zeros(index.size, np.bool_)
        contested: list[tuple[VolumeClaim, CandidateVolumes, Mask]] = []
        for claim in claims:
            if (ready := self._decided_nodes(claim, index)) is not None:
                missing |= ~ready
                continue
            can_provision, has_capacity = self._provisioning.nodes(claim, index)
            candidates = self._candidates_for(claim)
            found = np.zeros(index.size, np.bool_)
            if candidates:
                found = candidates.without(self.plans) > 0
                contested.append((claim, candidates, can_provision & has_capacity))
            missing |= ~found & ~can_provision
            full |= ~found & can_provision & ~has_capacity
        if len(contested) > 1:
            missing |= self._conflicting(contested, ~missing)
        return [(NONE_LEFT, missing), (NO_SPACE, full)]

    def _room_for_sharers(
        self, shape: Shape, claims: Sequence[VolumeClaim], nodes: Nodes, reasons: Sequence[tuple[str, Mask]]
    ) -> list[tuple[str, Mask]]:
        """Exclude nodes without room for all pods that share a claim, if any node has it."""
        if (many := max((self._sharers(claim) for claim in claims), default=0)) < 2:
            return []
        roomy = np.ones(len(nodes), np.bool_)
        for name, amount in shape.requests.items():
            roomy &= nodes.future_idle(name) >= many * amount
        left = roomy.copy()
        for _, failed in reasons:
            left &= ~failed
        return [(NONE_LEFT, ~roomy)] if left.any() else []

    def _sharers(self, claim: VolumeClaim) -> int:
        """Return how many pods must go to the node of the first of them; 0 if that is decided or does not matter."""
        if not claim.key or claim.reserved_volume or claim.selected_node:
            return 0
        if self.plans.volume_of(claim.key) or self.plans.node_of(claim.key):
            return 0
        if self._provisioning.reach(claim) is ANYWHERE and not self._candidates_for(claim):
            return 0
        return self._index.session.volumes.waiting(claim.key)

    def _decided_nodes(self, claim: VolumeClaim, index: NodeIndex) -> Mask | None:
        """Return the nodes for a claim whose volume or node is decided; None if it is not."""
        volume = claim.reserved_volume or (self.plans.volume_of(claim.key) if claim.key else "")
        if volume:
            known = self._index.session.objects(_VOLUMES).get(volume)
            terms = affinity_terms(known) if isinstance(known, PersistentVolume) else ()
            return np.ones(index.size, np.bool_) if terms is None else index.matches_any(terms)
        node = claim.selected_node or (self.plans.node_of(claim.key) if claim.key else "")
        if not node:
            return None
        can_provision, has_capacity = self._provisioning.nodes(claim, index)
        if self._provisioning.reach(claim) is ANYWHERE:
            return can_provision
        mask = np.zeros(index.size, np.bool_)
        if (row := index.row_of(node)) is not None:
            mask[row] = can_provision[row] and has_capacity[row]
        return mask

    def _conflicting(self, contested: Sequence[tuple[VolumeClaim, CandidateVolumes, Mask]], ok: Mask) -> Mask:
        """Return the nodes where each claim of a pod could be satisfied, but not all of them.

        Volumes are assigned to the smallest claim first.
        """
        scarce = np.zeros(len(ok), np.bool_)
        for _, candidates, _ in contested:
            scarce |= (candidates.counts > 0) & (candidates.counts < len(contested))
        failed = np.zeros(len(ok), np.bool_)
        ordered = sorted(contested, key=lambda item: item[0].size)
        for row in np.flatnonzero(scarce & ok).tolist():
            used = set(self.plans.planned)
            for _, candidates, provisionable in ordered:
                if volume := candidates.best(row, used):
                    used.add(volume)
                elif not provisionable[row]:
                    failed[row] = True
                    break
        return failed

    def _candidates_for(self, claim: VolumeClaim) -> CandidateVolumes:
        """Return the free volumes that match a claim, cached until nodes change and updated as volumes do."""
        index, session = self._index.update(), self._index.session
        if index.version != self._nodes_seen or len(self._candidates) > MAX_CACHED:
            self._nodes_seen = index.version
            self._candidates.clear()
        version, seen = session.version(_VOLUMES), self._volumes_seen
        if version != seen:
            self._volumes_seen = version
            self._update_volumes(session.changed_since(_VOLUMES, seen))
        if (known := self._candidates.get(claim)) is None:
            free = self._free.get(claim.storage_class, {})
            suitable = [volume for volume in free.values() if matches(volume, claim)]
            known = self._candidates[claim] = CandidateVolumes(suitable, self._reach, index.size)
        return known

    def _update_volumes(self, names: Collection[str] | None) -> None:
        """Update all candidates for the volumes of these names, added, changed or deleted; None for all volumes."""
        volumes = self._index.session.objects(_VOLUMES)
        if names is None:
            self._candidates.clear()
            self._free.clear()
            self._class_of.clear()
            names = volumes.keys()
        for name in dict.fromkeys(names):
            if (before := self._class_of.pop(name, None)) is not None:
                del self._free[before][name]
            volume = volumes.get(name)
            free = volume if isinstance(volume, PersistentVolume) and volume.spec.claim_ref is None else None
            if free is not None:
                self._class_of[name] = free.spec.storage_class_name
                self._free.setdefault(free.spec.storage_class_name, {})[name] = free
            for claim, candidates in self._candidates.items():
                candidates.remove(name)
                if free is not None and matches(free, claim):
                    candidates.add(free)
