"""Nodes whose kubelet is silent become Unknown, and nodes are tainted by their conditions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from volcanoio.framework.effects import Patch, PatchType, Record
from volcanoio.framework.events import Change, Observed
from volcanoio.localcluster.controllers.frame.contract import NOTHING, Defaults, Plan, View, Write
from volcanoio.localcluster.controllers.frame.tables import Tables
from volcanoio.localcluster.controllers.nodes.taints import tainting, wanted_taints
from volcanoio.model.base import ApiObject, Manifest, ObjectReference
from volcanoio.model.core import Lease, Node
from volcanoio.model.kinds import LEASE, NODE
from volcanoio.model.times import epoch, rfc3339

GRACE, STARTUP_GRACE = 50.0, 60.0
"""Seconds of silence after which a node is Unknown; and for one that has never said anything, since it was made."""
_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_LEASES = "kube-node-lease"


@dataclass(slots=True)
class _Sign:
    """The last sign of life of a node, in which objects it stood, and when we saw it."""

    node: Node
    lease: ApiObject | None
    beat: tuple[str, str]
    at: float


def _sign(known: _Sign | None, node: Node, lease: ApiObject | None, now: float) -> _Sign:
    """What is known of a node of which an object has changed."""
    ready = next((one for one in node.status.conditions if one.type == "Ready"), None)
    renewed = str(lease.spec.get("renewTime", "")) if isinstance(lease, Lease) else ""
    beat = renewed, (ready.last_heartbeat_time or "") if ready is not None else ""
    if known is not None and known.beat == beat:
        return _Sign(node, lease, beat, known.at)
    if beat != ("", ""):
        return _Sign(node, lease, beat, now)
    created = epoch(node.metadata.creation_timestamp)
    return _Sign(node, lease, beat, (now if created is None else created) + STARTUP_GRACE - GRACE)


class NodeHealthController(Defaults):
    """Looks at all nodes every few seconds.

    It remembers when, by its own clock, it saw a sign of life change: clocks of nodes do not matter, and after a start
    every node has its whole time.
    """

    name = "node-controller"
    primary = NODE
    reads = (LEASE,)
    every = 5.0

    def __init__(self) -> None:
        self._seen: dict[str, _Sign] = {}
        self._any_was_ready = False

    def keys(self, event: Observed, tables: Tables) -> Iterable[str]:
        """A node that changed in what taints depend on."""
        del tables
        if event.resource != NODE.resource:
            return ()
        if event.change is Change.GONE:
            self._seen.pop(event.obj.metadata.name, None)
            return ()
        return (event.obj.metadata.name,)

    def all_keys(self, tables: Tables, now: float) -> Iterable[str]:
        """The nodes that have been silent for too long; all when the first has become ready or the last lost."""
        nodes = tables.table(NODE).objects
        silent: list[str] = []
        for name, node in nodes.items():
            assert isinstance(node, Node)
            if self._is_silent(node, tables, now):
                silent.append(name)
        before, self._any_was_ready = self._any_was_ready, self._any_ready(tables)
        return sorted(silent if before is self._any_was_ready else nodes)

    def reconcile(self, key: str, view: View) -> Plan:
        """Judge one node."""
        node = view.tables.get(NODE, key, Node)
        if node is None or view.held:
            return NOTHING
        silent = self._is_silent(node, view.tables, view.now)
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
        taints = wanted_taints(node, view.now, driving=self._any_ready(view.tables))
        if taints != list(node.spec.taints):
            return Plan(((tainting(node, taints),),))
        return NOTHING

    def _is_silent(self, node: Node, tables: Tables, now: float) -> bool:
        """Whether its last sign of life is too long ago; a new one is noted."""
        name = node.metadata.name
        known, lease = self._seen.get(name), tables.table(LEASE).objects.get(f"{_LEASES}/{name}")
        if known is None or known.lease is not lease or known.node is not node:
            known = self._seen[name] = _sign(known, node, lease, now)
        return now - known.at > GRACE

    def _any_ready(self, tables: Tables) -> bool:
        """Whether there is a node that pods could go to: when all are lost, most likely it is not their fault."""
        nodes = tables.table(NODE).objects.values()
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
        meta = node.metadata
        return Write(
            Patch(
                resource=NODE.resource,
                namespace="",
                name=meta.name,
                uid=meta.uid,
                resource_version=meta.resource_version,
                subresource="status",
                type=PatchType.STRATEGIC,
                patch={"status": {"conditions": conditions}},
            )
        )
