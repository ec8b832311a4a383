"""The pod garbage collector: removes pods of missing or out-of-service nodes and surplus finished pods.

Kubernetes: pkg/controller/podgc.
"""

from __future__ import annotations

from collections.abc import Iterable

from volcanoio.framework.effects import Delete
from volcanoio.framework.events import Change, Observed
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import NO_CHANGES, Plan, ReconcileView, Write
from volcanoio.localcluster.controllers.contract import BURST, ClusterController
from volcanoio.localcluster.controllers.nodelifecycle import OUT_OF_SERVICE
from volcanoio.localcluster.controllers.pods import finished, terminating
from volcanoio.localcluster.controllers.tainteviction import disrupted
from volcanoio.model.core import Node, Pod
from volcanoio.model.kinds import NODE, POD

QUARANTINE = 40.0
"""Seconds for which a node must be missing before its pods are deleted."""
MAX_FINISHED = 12_500
"""Finished pods to keep."""
_FINISHED = ""
"""The key for surplus finished pods; all other keys are node names."""


class PodCollector(ClusterController):
    """Controller that deletes pods of missing nodes, and surplus finished pods.

    Keys are names of nodes; the memory of a key is the time since when the node is missing.

    It watches pods from the first node on that goes or is out of service, and once it is woken because a pod is on a
    node that never existed (`NodeFleet`): most clusters have no such node, and pods are the many.
    """

    name = "pod-garbage-collector"
    primary = NODE
    reads = (POD,)
    resync_period = 20.0

    def wakes(self, event: Observed) -> bool:
        """Return whether a node is deleted or out of service."""
        return event.change is Change.GONE or (isinstance(event.object, Node) and _out_of_service(event.object))

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        """Return the changed node; for a pod its node, if that is missing or out of service."""
        obj = event.obj
        if isinstance(obj, Node):
            return (obj.metadata.name,) if event.change is Change.GONE or _out_of_service(obj) else ()
        assert isinstance(obj, Pod)
        name = obj.spec.node_name
        if not name or event.change is Change.GONE:
            return ()
        node = objects.get(NODE, name, Node)
        return (name,) if node is None or (terminating(obj) and _out_of_service(node)) else ()

    def all_keys(self, objects: Objects, now: float) -> Iterable[str]:
        """Return all nodes that have pods, and the key for finished pods."""
        del now
        return [*sorted(objects.nodes_with_pods()), _FINISHED]

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        """Delete the pods of a missing or out-of-service node, or surplus finished pods."""
        if view.is_backing_off:
            return Plan(memory=view.memory)
        if key == _FINISHED:
            return self._finished(view)
        pods = [pod for pod in view.objects.on_node(key) if isinstance(pod, Pod)]
        pods.sort(key=lambda pod: pod.metadata.key)
        node = view.objects.get(NODE, key, Node)
        if node is not None:
            ending = [pod for pod in pods if terminating(pod)] if _out_of_service(node) else []
            return _removal_stages(ending, "", view.now)
        if not pods:
            return NO_CHANGES
        since: float = view.now if view.memory is None else view.memory
        if view.now < since + QUARANTINE:
            return Plan(requeue_at=since + QUARANTINE, memory=since)
        # no memory is returned: pods that are bound to this node later get their own time
        return _removal_stages(pods, "PodGC: node no longer exists", view.now)

    def _finished(self, view: ReconcileView) -> Plan:
        ended = [pod for pod in view.objects.all(POD, Pod) if finished(pod) and not terminating(pod)]
        surplus = len(ended) - MAX_FINISHED
        if surplus <= 0:
            return NO_CHANGES
        ended.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))
        return _removal_stages(ended[: min(surplus, BURST)], "", view.now)


def _out_of_service(node: Node) -> bool:
    """Return whether a node is not ready and has the out-of-service taint."""
    unready = any(one.type == "Ready" and one.status != "True" for one in node.status.conditions)
    return unready and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)


def _removal_stages(pods: list[Pod], why: str, now: float) -> Plan:
    """Mark unfinished pods Failed, then delete all without grace period."""
    if not pods:
        return NO_CHANGES
    reason, text = "DeletionByPodGC", why or "PodGC: node is out of service"
    marks = tuple(disrupted(pod, reason, text, now, phase="Failed") for pod in pods if not finished(pod))
    deletions = tuple(Write(Delete.of(POD.resource, pod, grace=0)) for pod in pods)
    return Plan(tuple(stage for stage in (marks, deletions) if stage))
