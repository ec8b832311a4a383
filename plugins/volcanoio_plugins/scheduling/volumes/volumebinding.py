"""Kubernetes' filter VolumeBinding: nodes that reach the volumes of a pod's claims, or can get them made.

Source: pkg/scheduler/framework/plugins/volumebinding (binder.go). A volume or node chosen for a claim is planned in the
session and written before the pod's bind, in `volumesteps`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Nodes, Shape, Task
from volcanoio.framework.scheduling.volumes import VolumeClaim
from volcanoio.framework.scheduling_effects import PreBindStep
from volcanoio.model import kinds
from volcanoio.model.storage import PersistentVolume
from volcanoio_plugins.scheduling.nodes.nodeindex import Mask, NodeIndex
from volcanoio_plugins.scheduling.volumes.volumemaking import ANYWHERE, VolumeMaking
from volcanoio_plugins.scheduling.volumes.volumematch import Candidates, Reach, matches, reach_of
from volcanoio_plugins.scheduling.volumes.volumeplans import VolumePlans
from volcanoio_plugins.scheduling.volumes.volumesteps import steps_of

IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
CONFLICT = "node(s) had volume node affinity conflict"
NONE_LEFT = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
KEPT = 512
"""For how many claims that ask differently the free volumes are kept."""
_VOLUMES = kinds.PV.resource


class VolumeBinding:
    """Masks for bound claims; for those that wait a free volume that the node reaches, or one that can be made."""

    watches: tuple[str, ...] = (_VOLUMES, *VolumeMaking.watches)

    def __init__(self, index: NodeIndex, timeout: float = 600.0) -> None:
        self._index = index
        self._timeout = timeout
        self._making = VolumeMaking(index)
        self._reach = Reach(index)
        self.plans = VolumePlans()
        self._session: SessionView
        self._candidates: dict[VolumeClaim, Candidates] = {}
        self._free: dict[str, dict[str, PersistentVolume]] = {}
        """The volumes that belong to nobody, by class and name."""
        self._class_of: dict[str, str] = {}
        """The class under which a volume is there."""
        self._volumes_seen = -1
        self._nodes_seen = -1

    def open(self, session: SessionView) -> None:
        """Objects may have changed, and binds have begun and ended."""
        self._session = session
        self._making.open(session)
        self.plans.open(session)

    def feasible_depends(self, shape: Shape) -> Depends:
        """For bound claims labels of the node; for those that wait the classes, and the volumes that others take."""
        depends = Depends.NOTHING
        for claim in shape.claims:
            if claim.volume is not None:
                depends |= Depends.NODE_SPEC
            elif claim.waits and not claim.fault:
                depends |= Depends.SOURCE | Depends.NODE_SPEC
                if claim.key or claim.reserved or self._candidates_for(claim):
                    depends |= Depends.PODS
        return depends

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """The nodes on which all claims of the shape can be had."""
        everywhere = np.ones(len(nodes), np.bool_)
        if not shape.claims:
            return Feasibility(everywhere)
        for claim in shape.claims:
            if claim.fault or (claim.volume is None and not claim.waits):
                return Feasibility(~everywhere, ((claim.fault or IMMEDIATE, everywhere),))
        index = self._index.over(nodes)
        if index is not self._index and any(claim.volume is None for claim in shape.claims):
            return self._of_rows(shape, nodes)
        bound = [claim.volume.reach for claim in shape.claims if claim.volume is not None]
        reasons = [(CONFLICT, ~index.matches_any(reach)) for reach in bound if reach is not None]
        waiting = [claim for claim in shape.claims if claim.volume is None]
        if waiting:
            reasons.extend(self._waiting(waiting, index))
            reasons.extend(self._together(shape, waiting, nodes, reasons))
        ok = everywhere
        for _, failed in reasons:
            ok &= ~failed
        return Feasibility(ok, tuple((text, failed) for text, failed in reasons if failed.any()))

    def _of_rows(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """The answer for some of the nodes."""
        every = self.feasible(shape, self._session.nodes)
        at = self._index.over(self._session.nodes)
        rows = [row for name in nodes.names if (row := at.row_of(name)) is not None]
        return Feasibility(every.ok[rows], tuple((text, failed[rows]) for text, failed in every.reasons))

    def task_placed(self, task: Task) -> None:
        """Plan what the task's claims get on its node."""
        if not task.shape.claims:
            return
        row = self._index.over(self._session.nodes).row_of(task.node)
        waiting = [(key, claim) for key, claim in self._session.volumes.claims(task) if claim.waits and not claim.fault]
        for key, claim in sorted(waiting, key=lambda item: (item[1].size, item[0])):
            if claim.selected or self.plans.volume_of(key) or self.plans.node_of(key):
                continue
            if claim.reserved:
                self.plans.take(key, claim.reserved, task.uid)
                continue
            candidates = self._candidates_for(claim)
            self.plans.follow()
            volume = candidates.best(row, self.plans.taken) if candidates and row is not None else ""
            if volume:
                self.plans.take(key, volume, task.uid)
            else:
                self.plans.make(key, task.node, task.uid)

    def steps(self, task: Task) -> Sequence[PreBindStep]:
        """What binds the claims of a task."""
        return steps_of(task, self._session, self.plans, self._timeout)

    def _waiting(self, claims: Sequence[VolumeClaim], index: NodeIndex) -> list[tuple[str, Mask]]:
        """Why nodes fail for claims that wait for a pod."""
        missing = np.zeros(index.size, np.bool_)
        full = np.zeros(index.size, np.bool_)
        rivals: list[tuple[VolumeClaim, Candidates, Mask]] = []
        for claim in claims:
            ready = self._ready(claim, index)
            if ready is not None:
                missing |= ~ready
                continue
            can_make, has_room = self._making.nodes(claim, index)
            candidates = self._candidates_for(claim)
            found = np.zeros(index.size, np.bool_)
            if candidates:
                found = candidates.without(self.plans) > 0
                rivals.append((claim, candidates, can_make & has_room))
            missing |= ~found & ~can_make
            full |= ~found & can_make & ~has_room
        if len(rivals) > 1:
            missing |= self._too_few(rivals, ~missing)
        return [(NONE_LEFT, missing), (NO_SPACE, full)]

    def _together(
        self, shape: Shape, claims: Sequence[VolumeClaim], nodes: Nodes, reasons: Sequence[tuple[str, Mask]]
    ) -> list[tuple[str, Mask]]:
        """The first of several pods that must follow each other goes where there is room for all, if there is."""
        many = max((self._followers(claim) for claim in claims), default=0)
        if many < 2:
            return []
        roomy = np.ones(len(nodes), np.bool_)
        for name, amount in shape.requests.items():
            roomy &= nodes.future_idle(name) >= many * amount
        left = roomy.copy()
        for _, failed in reasons:
            left &= ~failed
        return [(NONE_LEFT, ~roomy)] if left.any() else []

    def _followers(self, claim: VolumeClaim) -> int:
        """How many pods will have to go where the first of them goes; 0 when that is settled, or does not matter."""
        if not claim.key or claim.reserved or claim.selected:
            return 0
        if self.plans.volume_of(claim.key) or self.plans.node_of(claim.key):
            return 0
        if self._making.reach(claim) is ANYWHERE and not self._candidates_for(claim):
            return 0
        return self._session.volumes.waiting(claim.key)

    def _ready(self, claim: VolumeClaim, index: NodeIndex) -> Mask | None:
        """The nodes for a claim of which it is settled what it gets; None when it is not."""
        volume = claim.reserved or (self.plans.volume_of(claim.key) if claim.key else "")
        if volume:
            known = self._session.objects(_VOLUMES).get(volume)
            terms = reach_of(known) if isinstance(known, PersistentVolume) else ()
            return np.ones(index.size, np.bool_) if terms is None else index.matches_any(terms)
        node = claim.selected or (self.plans.node_of(claim.key) if claim.key else "")
        if not node:
            return None
        can_make, has_room = self._making.nodes(claim, index)
        if self._making.reach(claim) is ANYWHERE:
            return can_make
        mask = np.zeros(index.size, np.bool_)
        row = index.row_of(node)
        if row is not None:
            mask[row] = can_make[row] and has_room[row]
        return mask

    def _too_few(self, rivals: Sequence[tuple[VolumeClaim, Candidates, Mask]], ok: Mask) -> Mask:
        """Nodes on which several claims of one pod cannot all be had, though each could: one after the other, the
        smallest first.
        """
        scarce = np.zeros(len(ok), np.bool_)
        for _, candidates, _ in rivals:
            scarce |= (candidates.counts > 0) & (candidates.counts < len(rivals))
        failed = np.zeros(len(ok), np.bool_)
        ordered = sorted(rivals, key=lambda item: item[0].size)
        for row in np.flatnonzero(scarce & ok).tolist():
            mine = set(self.plans.taken)
            for _, candidates, made in ordered:
                volume = candidates.best(row, mine)
                if volume:
                    mine.add(volume)
                elif not made[row]:
                    failed[row] = True
                    break
        return failed

    def _candidates_for(self, claim: VolumeClaim) -> Candidates:
        """The free volumes that suit a claim; kept until nodes change, and brought up to date as volumes do."""
        index = self._index.over(self._session.nodes)
        if index.version != self._nodes_seen or len(self._candidates) > KEPT:
            self._nodes_seen = index.version
            self._candidates.clear()
        version, seen = self._session.version(_VOLUMES), self._volumes_seen
        if version != seen:
            self._volumes_seen = version
            self._follow_volumes(self._session.since(_VOLUMES, seen))
        known = self._candidates.get(claim)
        if known is None:
            free = self._free.get(claim.storage_class, {})
            suitable = [volume for volume in free.values() if matches(volume, claim)]
            known = self._candidates[claim] = Candidates(suitable, self._reach, index.size)
        return known

    def _follow_volumes(self, names: Collection[str] | None) -> None:
        """Tell all candidates of the volumes of these names, which came, changed or went; None for all there are."""
        volumes = self._session.objects(_VOLUMES)
        if names is None:
            self._candidates.clear()
            self._free.clear()
            self._class_of.clear()
            names = volumes.keys()
        for name in dict.fromkeys(names):
            before = self._class_of.pop(name, None)
            if before is not None:
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
