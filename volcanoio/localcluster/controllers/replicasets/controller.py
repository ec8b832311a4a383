"""The controller of ReplicaSets, and of ReplicationControllers, which differ in a few names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from volcanoio.framework.events import Observed
from volcanoio.localcluster.controllers.frame.contract import (
    BURST,
    NOTHING,
    Defaults,
    Plan,
    Stage,
    View,
    Write,
    in_slow_start,
)
from volcanoio.localcluster.controllers.frame.tables import Tables
from volcanoio.localcluster.controllers.kinds import REPLICA_SET, Workload
from volcanoio.localcluster.controllers.owners import claim, concerned, selector_of, status_stages
from volcanoio.localcluster.controllers.pods import active, finished, generated, pod_of, terminating
from volcanoio.localcluster.controllers.replicasets.ranking import deletion_order
from volcanoio.localcluster.controllers.replicasets.status import next_availability, status_of
from volcanoio.localcluster.controllers.writes import creating, deleting
from volcanoio.model.core import Pod
from volcanoio.model.kinds import POD, Kind


class ReplicaSetController(Defaults):
    """Keeps as many pods as a ReplicaSet (or what else `kind` is) wants."""

    reads = (POD,)

    def __init__(self, kind: Kind = REPLICA_SET, name: str = "replicaset-controller") -> None:
        self.primary = kind
        self.name = name

    def keys(self, event: Observed, tables: Tables) -> Iterable[str]:
        """Itself; of a pod those it belongs to or may."""
        if event.resource == self.primary.resource:
            return (event.obj.metadata.key,)
        sets = tables.namespace(self.primary, event.obj.metadata.namespace, Workload)
        return concerned(self.primary, sets, event.obj, event.previous) if sets else ()

    def reconcile(self, key: str, view: View) -> Plan:
        """Adopt, then make or delete pods, then tell in the status."""
        owner = view.tables.get(self.primary, key, Workload)
        if owner is None:
            return NOTHING
        meta = owner.metadata
        owned = view.tables.controlled(POD, meta.uid, Pod)
        loose = view.tables.loose(POD, meta.namespace, Pod)
        mine, claims = claim(owner, self.primary, selector_of(owner), POD, owned, [pod for pod in loose if active(pod)])
        if claims and not view.held:
            return Plan((tuple(claims),))
        living = [pod for pod in mine if active(pod)]
        stages: tuple[Stage, ...] = ()
        if meta.deletion_timestamp is None and not view.held:
            stages = self._managed(owner, living, view)
        going = [pod for pod in mine if terminating(pod) and not finished(pod)]
        status = status_of(self.primary, owner, living, len(going), view)
        stages = (*stages, *status_stages(self.primary, owner, status))
        return Plan(stages, again=next_availability(owner, living, view))

    def _managed(self, owner: Workload, living: Sequence[Pod], view: View) -> tuple[Stage, ...]:
        missing = int(owner.spec.get("replicas", 1)) - len(living)
        if missing > 0:
            return in_slow_start(self._create(owner, view) for _ in range(min(missing, BURST)))
        if missing < 0:
            related = self._related(owner, view)
            surplus = deletion_order(living, related, view.now)[: min(-missing, BURST)]
            return (tuple(deleting(self.primary, owner, pod) for pod in surplus),)
        return ()

    def _related(self, owner: Workload, view: View) -> dict[str, int]:
        """How many running pods of the same controller (a Deployment's other ReplicaSets) each node has."""
        meta = owner.metadata
        controller = meta.controller
        uids = [meta.uid]
        if controller is not None:
            uids = [one.metadata.uid for one in view.tables.controlled(self.primary, controller.uid, Workload)]
        counts: dict[str, int] = {}
        for uid in uids:
            for pod in view.tables.controlled(POD, uid, Pod):
                if active(pod) and pod.spec.node_name:
                    counts[pod.spec.node_name] = counts.get(pod.spec.node_name, 0) + 1
        return counts

    def _create(self, owner: Workload, view: View) -> Write:
        name, prefix = generated(owner.metadata.name, view.suffix())
        manifest = pod_of(owner.spec.get("template") or {}, self.primary, owner, name, generate_name=prefix)
        return creating(self.primary, owner, manifest)
