"""The node lifecycle controller: marks silent nodes Unknown and taints nodes by their conditions.

Kubernetes: pkg/controller/nodelifecycle. The taints are also read by `tainteviction` and `podgc`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from volcanoio.framework.effects import Patch, PatchType, Record
from volcanoio.framework.events import Change, Observed
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import NO_CHANGES, Plan, ReconcileView, Write
from volcanoio.localcluster.controllers.contract import ClusterController, patching
from volcanoio.model.base import ApiObject, Manifest, ObjectReference
from volcanoio.model.core import Lease, Node, Taint, Toleration
from volcanoio.model.kinds import LEASE, NODE
from volcanoio.model.selectors import NO_EXECUTE, NO_SCHEDULE, tolerates
from volcanoio.model.times import epoch, rfc3339

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_BY_CONDITION = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_NO_SCHEDULE = frozenset({*_BY_CONDITION.values(), _UNSCHEDULABLE})
_DRIVING = frozenset({NOT_READY, UNREACHABLE})
_MANAGED_TAINTS = {NO_SCHEDULE: _NO_SCHEDULE, NO_EXECUTE: _DRIVING}


def wanted_taints(node: Node, now: float, *, driving: bool) -> list[Taint]:
    """Return the desired taints of a node.

    Taints of others stay. `driving`: lost nodes get NoExecute taints.
    """
    keys = [
        key
        for condition in node.status.conditions
        if (key := _BY_CONDITION.get((condition.type, condition.status))) is not None
    ]
    wanted = [(key, NO_SCHEDULE) for key in keys]
    if node.spec.unschedulable:
        wanted.append((_UNSCHEDULABLE, NO_SCHEDULE))
    if driving:
        wanted += [(key, NO_EXECUTE) for key in keys if key in _DRIVING]
    kept = [taint for taint in node.spec.taints if not _is_ours(taint) or (taint.key, taint.effect) in wanted]
    known = {(taint.key, taint.effect) for taint in kept}
    moment = rfc3339(now)
    return [
        *kept,
        *(Taint(key=key, effect=effect, time_added=moment) for key, effect in wanted if (key, effect) not in known),
    ]


def _is_ours(taint: Taint) -> bool:
    return taint.key in _MANAGED_TAINTS.get(taint.effect, ())


def tainting(node: Node, taints: Sequence[Taint]) -> Write:
    """Return the write of a node's taints."""
    content = [msgspec.to_builtins(taint) for taint in taints]
    return patching(NODE, node, {"spec": {"taints": content or None}})


def no_execute_taints(node: Node) -> list[Taint]:
    """Return the taints that pods must tolerate to stay."""
    return [taint for taint in node.spec.taints if taint.effect == NO_EXECUTE]


def stays_until(tolerations: Sequence[Toleration], taints: Sequence[Taint], now: float) -> float | None:
    """Return until when (epoch seconds) a pod or claim with these tolerations tolerates all taints.

    None for ever; `now` or earlier for not at all.

    Of several tolerations for one taint the first counts (Kubernetes: GetMatchingTolerations).
    """
    moments: list[float] = []
    for taint in taints:
        toleration = next((one for one in tolerations if tolerates(one, taint)), None)
        if toleration is None:
            return now
        if toleration.toleration_seconds is not None:
            moments.append((epoch(taint.time_added) or now) + max(toleration.toleration_seconds, 0))
    return min(moments, default=None)


GRACE, STARTUP_GRACE = 50.0, 60.0
"""Seconds without heartbeat after which a node is Unknown; the second for a node without any since its creation."""
_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_LEASES = "kube-node-lease"


@dataclass(slots=True)
class _Heartbeat:
    """The last heartbeat of a node: the objects that contained it, and when it was observed."""

    node: Node
    lease: ApiObject | None
    beat: tuple[str, str]
    at: float


def _heartbeat(known: _Heartbeat | None, node: Node, lease: ApiObject | None, now: float) -> _Heartbeat:
    """Return the last heartbeat of a node after one of its objects changed."""
    ready = next((one for one in node.status.conditions if one.type == "Ready"), None)
    renewed = str(lease.spec.get("renewTime", "")) if isinstance(lease, Lease) else ""
    beat = renewed, (ready.last_heartbeat_time or "") if ready is not None else ""
    if known is not None and known.beat == beat:
        return _Heartbeat(node, lease, beat, known.at)
    if beat != ("", ""):
        return _Heartbeat(node, lease, beat, now)
    created = epoch(node.metadata.creation_timestamp)
    return _Heartbeat(node, lease, beat, (now if created is None else created) + STARTUP_GRACE - GRACE)


class NodeHealthController(ClusterController):
    """Controller that checks all nodes every few seconds.

    It keeps when, by its own clock, it observed the last change of a heartbeat: clocks of nodes do not matter, and
    after a start every node has its whole grace period. This is one cache and not the memory of each key: with that,
    each heartbeat would be a reconciliation (0.2 s for one heartbeat of 5000 nodes, against 0.02 s for one check).
    """

    name = "node-controller"
    primary = NODE
    reads = (LEASE,)
    resync_period = 5.0

    def __init__(self) -> None:
        self._seen: dict[str, _Heartbeat] = {}
        self._any_was_ready = False

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        """Return the node, if something changed that its taints depend on."""
        del objects
        if event.resource != NODE.resource:
            return ()
        if event.change is Change.GONE:
            self._seen.pop(event.obj.metadata.name, None)
            return ()
        return (event.obj.metadata.name,)

    def all_keys(self, objects: Objects, now: float) -> Iterable[str]:
        """Return the nodes without recent heartbeat.

        All nodes when the first became ready or the last was lost.
        """
        nodes = objects.by_key(NODE)
        silent: list[str] = []
        for name, node in nodes.items():
            assert isinstance(node, Node)
            if self._is_silent(node, objects, now):
                silent.append(name)
        before, self._any_was_ready = self._any_was_ready, self._any_ready(objects)
        return sorted(silent if before is self._any_was_ready else nodes)

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        """Mark a silent node Unknown, else set its taints."""
        node = view.objects.get(NODE, key, Node)
        if node is None or view.is_backing_off:
            return NO_CHANGES
        silent = self._is_silent(node, view.objects, view.now)
        unknown = [one for one in _CONDITIONS if self._status(node, one) != "Unknown"] if silent else []
        if unknown:
            events: tuple[Record, ...] = ()
            if self._status(node, "Ready") == "True":
                regarding = ObjectReference(
                    api_version="v1", kind="Node", name=key, uid=node.metadata.uid or key,
                )  # fmt: skip
                text = f"Node {key} status is now: NodeNotReady"
                events = (Record(regarding=regarding, type="Normal", reason="NodeNotReady", message=text),)
            return Plan(((self._unknown(node, unknown, view.now),),), events)
        taints = wanted_taints(node, view.now, driving=self._any_ready(view.objects))
        if taints != list(node.spec.taints):
            return Plan(((tainting(node, taints),),))
        return NO_CHANGES

    def _is_silent(self, node: Node, objects: Objects, now: float) -> bool:
        """Return whether the last heartbeat is too old; records a new one."""
        name = node.metadata.name
        known, lease = self._seen.get(name), objects.by_key(LEASE).get(f"{_LEASES}/{name}")
        if known is None or known.lease is not lease or known.node is not node:
            known = self._seen[name] = _heartbeat(known, node, lease, now)
        return now - known.at > GRACE

    def _any_ready(self, objects: Objects) -> bool:
        """Return whether any node is ready; when all are lost, evicting pods would not help."""
        nodes = objects.by_key(NODE).values()
        return any(isinstance(node, Node) and self._status(node, "Ready") == "True" for node in nodes)

    def _status(self, node: Node, type_: str) -> str:
        return next((one.status for one in node.status.conditions if one.type == type_), "")

    def _unknown(self, node: Node, types: list[str], now: float) -> Write:
        moment = rfc3339(now)
        conditions: list[Manifest] = []
        for type_ in types:
            known = self._status(node, type_)
            reason, text = "NodeStatusUnknown", "Kubelet stopped posting node status."
            if not known:
                reason, text = "NodeStatusNeverUpdated", "Kubelet never posted node status."
            entry: Manifest = {"type": type_, "status": "Unknown", "reason": reason, "message": text}
            conditions.append({**entry, "lastTransitionTime": moment})
        content = {"status": {"conditions": conditions}}
        options = {"subresource": "status", "type": PatchType.STRATEGIC}
        return Write(Patch.of(NODE.resource, node, content, at_version=True, **options))
