"""The codes of reasons why a job waits; docs/reason-codes.md prints this table.

A plugin's own code of a rejection is used as it is. Codes that Volcano writes to conditions have Volcano's meaning.
"""

from enum import StrEnum
from typing import NamedTuple


class Stage(StrEnum):
    """How far a job got; in the order in which a job passes them."""

    GROUP = "group"
    """Its PodGroup and queue are looked up."""
    ENQUEUE = "enqueue"
    """Its minimum is admitted to the queue."""
    PODS = "pods"
    """Enough pods exist and may be scheduled."""
    QUEUE = "queue"
    """The queue has room for its pods."""
    NODES = "nodes"
    """Nodes are found for its pods."""
    VICTIMS = "victims"
    """Pods that were evicted for it end."""
    BIND = "bind"
    """The API server binds its pods."""


class Code(NamedTuple):
    """One reason: where a job waits and what it waits for."""

    stage: Stage
    meaning: str


OTHER_SCHEDULER, NO_POD_GROUP = "OtherScheduler", "NoPodGroup"
POD_GROUP_NOT_FOUND, QUEUE_NOT_FOUND = "PodGroupNotFound", "QueueNotFound"
NOT_TRIED, PODS_MISSING, SCHEDULING_GATED = "NotTried", "PodsMissing", "SchedulingGated"
QUEUE_QUOTA, QUEUE_OVERUSED = "QueueQuota", "QueueOverused"
NO_NODES, LARGER_THAN_ANY_NODE = "NoNodes", "LargerThanAnyNode"
INSUFFICIENT, FRAGMENTED, TOO_MANY_PODS = "InsufficientResource", "Fragmented", "TooManyPods"
NETWORK_TOPOLOGY, INVALID_HYPER_NODES = "NetworkTopology", "InvalidHyperNodes"
SEARCH_INCOMPLETE = "NetworkTopologySearchIncomplete"
WAITING_FOR_VICTIMS, BIND_REFUSED, PLUGIN = "WaitingForVictims", "BindRefused", "RefusedByPlugin"

CODES: dict[str, Code] = {
    OTHER_SCHEDULER: Code(Stage.GROUP, "another scheduler places the pod, as its schedulerName says"),
    NO_POD_GROUP: Code(Stage.GROUP, "the pod has no PodGroup yet; the podgroup controller makes one"),
    POD_GROUP_NOT_FOUND: Code(Stage.GROUP, "the PodGroup that its pods name does not exist"),
    QUEUE_NOT_FOUND: Code(Stage.GROUP, "its queue does not exist"),
    "QueueClosed": Code(Stage.ENQUEUE, "its queue is closed"),
    "QueueNotLeaf": Code(Stage.ENQUEUE, "its queue has queues below it"),
    "QueueHierarchyBroken": Code(Stage.ENQUEUE, "the parents of its queue cannot be resolved"),
    "QueueQuotaInsufficient": Code(Stage.ENQUEUE, "its queue, or one above it, has no quota for its minimum"),
    "ClusterInsufficient": Code(Stage.ENQUEUE, "the whole cluster is too small for its minimum"),
    "ClusterOverused": Code(Stage.ENQUEUE, "the cluster is in use, or admitted jobs are going to use it"),
    "ResourceQuotaInsufficient": Code(Stage.ENQUEUE, "a ResourceQuota of its namespace has no room for its minimum"),
    "NamespaceHoldsBack": Code(Stage.ENQUEUE, "other namespaces of its queue go first"),
    "ExtenderRefused": Code(Stage.ENQUEUE, "an HTTP extender refused it"),
    PODS_MISSING: Code(Stage.PODS, "it is admitted, and its pods do not exist yet"),
    "NotEnoughTasks": Code(Stage.PODS, "fewer pods exist than its minimum"),
    "NotEnoughPodsOfTask": Code(Stage.PODS, "fewer pods of a task exist than that task's minimum"),
    SCHEDULING_GATED: Code(Stage.PODS, "its pods have scheduling gates"),
    QUEUE_QUOTA: Code(Stage.QUEUE, "its queue, or one above it, has no room left for its pods"),
    QUEUE_OVERUSED: Code(Stage.QUEUE, "its queue has its share or more"),
    NOT_TRIED: Code(Stage.QUEUE, "the last cycle did not come to it: other jobs went first"),
    NO_NODES: Code(Stage.NODES, "there are no nodes"),
    LARGER_THAN_ANY_NODE: Code(Stage.NODES, "a pod requests more than any node has that it may run on"),
    INSUFFICIENT: Code(Stage.NODES, "the nodes that a pod may run on are in use"),
    FRAGMENTED: Code(Stage.NODES, "enough is free in all, but not on one node"),
    TOO_MANY_PODS: Code(Stage.NODES, "nodes have room, but run as many pods as they may"),
    NETWORK_TOPOLOGY: Code(Stage.NODES, "no HyperNode that its network topology allows has room for its pods"),
    SEARCH_INCOMPLETE: Code(
        Stage.NODES,
        "no HyperNode that its network topology allows was found to have room for its different pods; this was not "
        "searched exhaustively",
    ),
    INVALID_HYPER_NODES: Code(Stage.NODES, "the HyperNodes form no tree: one contains itself, or is in two others"),
    "NodeUnschedulable": Code(Stage.NODES, "nodes are cordoned"),
    "NodeNotReady": Code(Stage.NODES, "nodes are not ready, or under pressure"),
    "UntoleratedTaint": Code(Stage.NODES, "nodes have taints that its pods do not tolerate"),
    "NodeAffinity": Code(Stage.NODES, "no node matches the node selector or affinity of its pods"),
    "PodAffinity": Code(Stage.NODES, "the pods that its pods must run beside are nowhere"),
    "PodAntiAffinity": Code(Stage.NODES, "pods run on the nodes that must not be beside its pods"),
    "TopologySpread": Code(Stage.NODES, "a topology spread constraint leaves no node"),
    "HostPort": Code(Stage.NODES, "the host ports of its pods are taken"),
    "Volume": Code(Stage.NODES, "its volumes cannot be attached or bound there"),
    "NodeGroup": Code(Stage.NODES, "its queue may not use the nodes, or no more of them"),
    "RevocableZone": Code(Stage.NODES, "the nodes are in a revocable zone that is closed to it"),
    "NodeBusy": Code(Stage.NODES, "nodes are busier than the plugin usage allows"),
    "NodeShard": Code(Stage.NODES, "the nodes belong to the shards of other schedulers"),
    "ResourceClaim": Code(Stage.NODES, "its resource claims cannot be allocated"),
    PLUGIN: Code(Stage.NODES, "a plugin refused the nodes, for the reason in the message"),
    WAITING_FOR_VICTIMS: Code(Stage.VICTIMS, "it has its nodes, and waits until evicted pods have ended there"),
    BIND_REFUSED: Code(Stage.BIND, "the API server refused a bind; it is tried again after a while"),
}

_NODE_REASONS = (
    ("Insufficient ", INSUFFICIENT),
    ("Too many: ", "Volume"),
    ("node(s) pod number exceeded", TOO_MANY_PODS),
    ("node(s) were unschedulable", "NodeUnschedulable"),
    ("node(s) had untolerated taint {node.kubernetes.io/unschedulable", "NodeUnschedulable"),
    ("node(s) had untolerated taint {node.kubernetes.io/", "NodeNotReady"),
    ("node(s) had untolerated taint", "UntoleratedTaint"),
    ("node(s) didn't match Pod's node affinity", "NodeAffinity"),
    ("node(s) didn't match pod affinity", "PodAffinity"),
    ("node(s) didn't match pod anti-affinity", "PodAntiAffinity"),
    ("node(s) didn't satisfy existing pods anti-affinity", "PodAntiAffinity"),
    ("node(s) didn't match pod topology spread", "TopologySpread"),
    ("node(s) didn't have free ports", "HostPort"),
    ("node(s) cannot be given resource claims", "ResourceClaim"),
    ("node(s) are in a revocable zone", "RevocableZone"),
    ("node isn't in scheduler node shard", "NodeShard"),
)
"""Codes by the start of a node's reason; the texts are those of Kubernetes and Volcano."""
_PARTS = (
    ("volume", "Volume"), ("pvc", "Volume"), ("storage", "Volume"),
    ("resourceclaim", "ResourceClaim"), ("resource claim", "ResourceClaim"), ("all claims", "ResourceClaim"),
    ("resource pool", "ResourceClaim"), ("allocate devices", "ResourceClaim"), ("device class", "ResourceClaim"),
    ("all devices", "ResourceClaim"), (" cel runtime error", "ResourceClaim"), (" cel compile error", "ResourceClaim"),
    ("node group", "NodeGroup"), ("nodegroup", "NodeGroup"), ("load of the node", "NodeBusy"),
)  # fmt: skip
"""Codes by a word of a node's reason, for texts that begin in many ways."""


def node_code(reason: str) -> str:
    """Return the code of a node's reason, `RefusedByPlugin` for texts that are not Kubernetes' or Volcano's."""
    for start, code in _NODE_REASONS:
        if reason.startswith(start):
            return code
    lowered = reason.lower()
    return next((code for word, code in _PARTS if word in lowered), PLUGIN)
