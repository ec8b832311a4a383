"""Pods that nobody else would ever remove: those of nodes that are gone or out of service, and too many ended ones."""

from __future__ import annotations

from collections.abc import Iterable

from volcanoio.framework.effects import Delete
from volcanoio.framework.events import Change, Observed
from volcanoio.localcluster.controllers.frame.contract import BURST, NOTHING, Defaults, Plan, View, Write
from volcanoio.localcluster.controllers.frame.tables import Tables
from volcanoio.localcluster.controllers.nodes.eviction import disrupted
from volcanoio.localcluster.controllers.nodes.taints import OUT_OF_SERVICE
from volcanoio.localcluster.controllers.pods import finished, terminating
from volcanoio.model.core import Node, Pod
from volcanoio.model.kinds import NODE, POD

QUARANTINE = 40.0
"""Seconds after which a node that is gone is believed to be gone."""
MOST_FINISHED = 12_500
"""How many ended pods are kept."""
_FINISHED = ""
"""The key of the count of ended pods; nodes have names."""


class PodCollector(Defaults):
    """Keys are names of nodes. It watches pods from the first node on that goes or is out of service."""

    name = "pod-garbage-collector"
    primary = NODE
    reads = (POD,)
    every = 20.0

    def __init__(self) -> None:
        self._missed: dict[str, float] = {}

    def wakes(self, event: Observed) -> bool:
        """A node that goes or is out of service."""
        return event.change is Change.GONE or (isinstance(event.object, Node) and _out_of_service(event.object))

    def keys(self, event: Observed, tables: Tables) -> Iterable[str]:
        """The node that changed; of pods those that begin to end on one that is gone or out of service."""
        obj = event.obj
        if isinstance(obj, Node):
            return (obj.metadata.name,) if event.change is Change.GONE or _out_of_service(obj) else ()
        assert isinstance(obj, Pod)
        name = obj.spec.node_name
        if not name or event.change is Change.GONE:
            return ()
        node = tables.get(NODE, name, Node)
        return (name,) if node is None or (terminating(obj) and _out_of_service(node)) else ()

    def all_keys(self, tables: Tables, now: float) -> Iterable[str]:
        """All nodes that have pods, and the ended pods."""
        del now
        return [*sorted(tables.table(POD).nodes), _FINISHED]

    def reconcile(self, key: str, view: View) -> Plan:
        """Remove what is left."""
        if view.held:
            return NOTHING
        if key == _FINISHED:
            return self._finished(view)
        pods = [pod for pod in view.tables.table(POD).on_node(key).values() if isinstance(pod, Pod)]
        pods.sort(key=lambda pod: pod.metadata.key)
        node = view.tables.get(NODE, key, Node)
        if node is not None:
            self._missed.pop(key, None)
            ending = [pod for pod in pods if terminating(pod)] if _out_of_service(node) else []
            return _removal(ending, "", view.now)
        if not pods:
            self._missed.pop(key, None)
            return NOTHING
        since = self._missed.setdefault(key, view.now)
        if view.now < since + QUARANTINE:
            return Plan(again=since + QUARANTINE)
        return _removal(pods, "PodGC: node no longer exists", view.now)

    def _finished(self, view: View) -> Plan:
        ended = [pod for pod in view.tables.all(POD, Pod) if finished(pod) and not terminating(pod)]
        surplus = len(ended) - MOST_FINISHED
        if surplus <= 0:
            return NOTHING
        ended.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))
        return _removal(ended[: min(surplus, BURST)], "", view.now)


def _out_of_service(node: Node) -> bool:
    """Whether somebody has said that a node that is not ready is down for good."""
    unready = any(one.type == "Ready" and one.status != "True" for one in node.status.conditions)
    return unready and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)


def _removal(pods: list[Pod], why: str, now: float) -> Plan:
    """Say on those that have not ended that they failed, then delete all without grace."""
    if not pods:
        return NOTHING
    reason, text = "DeletionByPodGC", why or "PodGC: node is out of service"
    marks = tuple(disrupted(pod, reason, text, now, phase="Failed") for pod in pods if not finished(pod))
    deletions = tuple(
        Write(
            Delete(
                resource=POD.resource,
                namespace=pod.metadata.namespace,
                name=pod.metadata.name,
                uid=pod.metadata.uid,
                grace=0,
            )
        )
        for pod in pods
    )
    return Plan(tuple(stage for stage in (marks, deletions) if stage))
