"""The taint eviction controller: deletes pods that do not tolerate the NoExecute taints of their node.

Kubernetes: pkg/controller/tainteviction. A pod goes at once or when its tolerationSeconds are over.
"""

from __future__ import annotations

from collections.abc import Iterable

from volcanoio.framework.effects import Delete, Record
from volcanoio.framework.events import Change, Observed
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import NO_CHANGES, Plan, ReconcileView, Stage, Write
from volcanoio.framework.statuses import pod_status_patch
from volcanoio.localcluster.controllers.contract import ClusterController
from volcanoio.localcluster.controllers.nodelifecycle import NOT_READY, UNREACHABLE, no_execute_taints, stays_until
from volcanoio.localcluster.controllers.pods import finished, ready, terminating
from volcanoio.model.core import Node, Pod
from volcanoio.model.kinds import NODE, POD, object_reference
from volcanoio.model.times import rfc3339


class TaintEvictionController(ClusterController):
    """Controller that evicts pods from nodes with NoExecute taints.

    It watches no pods while no node has one.

    The memory of a key are the uids of pods of a lost node that were marked not ready: each is marked once.
    """

    name = "taint-eviction-controller"
    primary = NODE
    reads = (POD,)

    def wakes(self, event: Observed) -> bool:
        """Return whether a node has NoExecute taints."""
        return super().wakes(event) and isinstance(event.object, Node) and bool(no_execute_taints(event.object))

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        """Return the node, if it has or had NoExecute taints."""
        obj, previous = event.obj, event.previous
        if isinstance(obj, Node):
            had = isinstance(previous, Node) and bool(no_execute_taints(previous))
            return (obj.metadata.name,) if had or no_execute_taints(obj) else ()
        if event.change is Change.GONE:
            return ()
        assert isinstance(obj, Pod)
        if not obj.spec.node_name:
            return ()
        node = objects.get(NODE, obj.spec.node_name, Node)
        return (obj.spec.node_name,) if node is not None and no_execute_taints(node) else ()

    def all_keys(self, objects: Objects, now: float) -> Iterable[str]:
        """Return all nodes with NoExecute taints."""
        del now
        return [node.metadata.name for node in objects.all(NODE, Node) if no_execute_taints(node)]

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        """Mark pods of a lost node not ready, and delete those whose time is over."""
        node = view.objects.get(NODE, key, Node)
        taints = no_execute_taints(node) if node is not None else []
        if not taints:
            return NO_CHANGES
        marked: frozenset[str] = view.memory or frozenset()
        if view.is_backing_off:
            return Plan(memory=marked)
        lost = any(taint.key in (NOT_READY, UNREACHABLE) for taint in taints)
        marks: list[Write] = []
        events: list[Record] = []
        reasons: list[Write] = []
        deletions: list[Write] = []
        again: list[float] = []
        for pod in sorted(view.objects.on_node(key), key=lambda one: one.metadata.key):
            assert isinstance(pod, Pod)
            if lost and ready(pod) and not finished(pod) and pod.metadata.uid not in marked:
                marked |= {pod.metadata.uid}
                marks.append(_not_ready(pod, view.now))
                events.append(_event(pod, "Warning", "NodeNotReady", "Node is not ready"))
            if terminating(pod):
                continue
            until = stays_until(pod.spec.tolerations, taints, view.now)
            if until is None:
                continue
            if until > view.now:
                again.append(until)
                continue
            text = "Taint manager: deleting due to NoExecute taint"
            reasons.append(disrupted(pod, "DeletionByTaintManager", text, view.now))
            deletions.append(deletion(pod))
            text = f"Marking for deletion Pod {pod.metadata.key}"
            events.append(_event(pod, "Normal", "TaintManagerEviction", text))
        stages: list[Stage] = [tuple(writes) for writes in (marks, reasons, deletions) if writes]
        return Plan(tuple(stages), tuple(events), min(again, default=None), memory=marked)


def _event(pod: Pod, type_: str, reason: str, message: str) -> Record:
    return Record(regarding=object_reference(POD, pod), type=type_, reason=reason, message=message)


def _not_ready(pod: Pod, now: float) -> Write:
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": rfc3339(now)}
    return Write(pod_status_patch(pod, {"conditions": [condition]}))


def disrupted(pod: Pod, reason: str, message: str, now: float, **status: str) -> Write:
    """Return the write of a pod's DisruptionTarget condition."""
    condition = {
        "type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
        "lastTransitionTime": rfc3339(now),
    }  # fmt: skip
    return Write(pod_status_patch(pod, {**status, "conditions": [condition]}))


def deletion(pod: Pod) -> Write:
    """Return the write that deletes a pod."""
    return Write(Delete.of(POD.resource, pod))
