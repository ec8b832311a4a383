"""Pods that do not tolerate their node's taints are deleted, at once or when their tolerance is used up."""

from __future__ import annotations

from collections.abc import Iterable

from volcanoio.engine.statuses import pod_status
from volcanoio.framework.effects import Delete, Record
from volcanoio.framework.events import Change, Observed
from volcanoio.localcluster.controllers.frame.contract import NOTHING, Defaults, Plan, Stage, View, Write
from volcanoio.localcluster.controllers.frame.tables import Tables
from volcanoio.localcluster.controllers.nodes.taints import NOT_READY, UNREACHABLE, drives_off, stays_until
from volcanoio.localcluster.controllers.pods import finished, ready, terminating
from volcanoio.model.core import Node, Pod
from volcanoio.model.kinds import NODE, POD
from volcanoio.model.references import object_reference
from volcanoio.model.times import rfc3339


class TaintEvictionController(Defaults):
    """Looks at the pods of nodes that have NoExecute taints. While no node has one, it watches no pods."""

    name = "taint-eviction-controller"
    primary = NODE
    reads = (POD,)

    def __init__(self) -> None:
        self._marked: dict[str, set[str]] = {}
        """By lost node the uids of pods that were marked not ready: what they say of themselves later is theirs."""

    def wakes(self, event: Observed) -> bool:
        """Nodes that drive pods off."""
        return super().wakes(event) and isinstance(event.object, Node) and bool(drives_off(event.object))

    def keys(self, event: Observed, tables: Tables) -> Iterable[str]:
        """The node, where it drives pods off."""
        obj = event.obj
        if isinstance(obj, Node):
            if event.change is not Change.GONE and drives_off(obj):
                return (obj.metadata.name,)
            self._marked.pop(obj.metadata.name, None)
            return ()
        if event.change is Change.GONE:
            return ()
        assert isinstance(obj, Pod)
        if not obj.spec.node_name:
            return ()
        node = tables.get(NODE, obj.spec.node_name, Node)
        return (obj.spec.node_name,) if node is not None and drives_off(node) else ()

    def all_keys(self, tables: Tables, now: float) -> Iterable[str]:
        """All nodes that drive pods off."""
        del now
        return [node.metadata.name for node in tables.all(NODE, Node) if drives_off(node)]

    def reconcile(self, key: str, view: View) -> Plan:
        """Mark pods of a lost node not ready, and delete those whose time is over."""
        node = view.tables.get(NODE, key, Node)
        taints = drives_off(node) if node is not None else []
        if not taints or view.held:
            return NOTHING
        lost = any(taint.key in (NOT_READY, UNREACHABLE) for taint in taints)
        marked = self._marked.setdefault(key, set())
        marks: list[Write] = []
        tells: list[Record] = []
        reasons: list[Write] = []
        deletions: list[Write] = []
        again: list[float] = []
        for pod in sorted(view.tables.table(POD).on_node(key).values(), key=lambda one: one.metadata.key):
            assert isinstance(pod, Pod)
            if lost and ready(pod) and not finished(pod) and pod.metadata.uid not in marked:
                marked.add(pod.metadata.uid)
                marks.append(_not_ready(pod, view.now))
                tells.append(_say(pod, "Warning", "NodeNotReady", "Node is not ready"))
            if terminating(pod):
                continue
            until = stays_until(pod, taints, view.now)
            if until is None:
                continue
            if until > view.now:
                again.append(until)
                continue
            text = "Taint manager: deleting due to NoExecute taint"
            reasons.append(disrupted(pod, "DeletionByTaintManager", text, view.now))
            deletions.append(_deletion(pod))
            text = f"Marking for deletion Pod {pod.metadata.key}"
            tells.append(_say(pod, "Normal", "TaintManagerEviction", text))
        stages: list[Stage] = [tuple(writes) for writes in (marks, reasons, deletions) if writes]
        return Plan(tuple(stages), tuple(tells), min(again, default=None))


def _say(pod: Pod, type_: str, reason: str, message: str) -> Record:
    return Record(regarding=object_reference(POD, pod), type=type_, reason=reason, message=message)


def _not_ready(pod: Pod, now: float) -> Write:
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": rfc3339(now)}
    return Write(pod_status(pod, {"conditions": [condition]}))


def disrupted(pod: Pod, reason: str, message: str, now: float, **status: str) -> Write:
    """The write that says on a pod why it is about to be deleted."""
    condition = {
        "type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
        "lastTransitionTime": rfc3339(now),
    }  # fmt: skip
    return Write(pod_status(pod, {**status, "conditions": [condition]}))


def _deletion(pod: Pod) -> Write:
    meta = pod.metadata
    return Write(Delete(resource=POD.resource, namespace=meta.namespace, name=meta.name, uid=meta.uid))
