"""The case bank of `why`: situations that users ask about, each with its code, evidence and remedies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.architecture import codes_page
from tests.scenario.scheduling.capacity_clusters import NO_RECLAIM_TREE, ROOT
from tests.scenario.scheduling.harness import group, node, pod, pods, priority_class, queue, running
from tests.scenario.scheduling.networks import hyper_node, racks
from tests.scenario.scheduling.node_groups import affine, grouped
from tests.scenario.scheduling.node_groups import conf as node_groups
from tests.scenario.scheduling.podrules import apart, asking, near, spread, term, terminating, zoned
from tests.scenario.scheduling.podrules import gang as ruled
from tests.scenario.scheduling.podrules import running as ruled_running
from tests.scenario.scheduling.quotas import CONF as QUOTAS
from tests.scenario.scheduling.quotas import quota
from tests.scenario.scheduling.storage import THREE, claim, on, storage_class, using, volume
from tests.scenario.scheduling.storage import ZONE as STORAGE_ZONE
from tests.scenario.why.cases import PREEMPT, RECLAIM, SMALLER, Case, busy, changed, evidence, gang, placed, tainted
from volcanoio.model.base import Manifest

DEFAULT = None
"""Volcano's default configuration."""
TWO = (node("n1", cpu="4"), node("n2", cpu="4"))
FOUR = tuple(node(f"n{at}") for at in range(4))
GPU = "nvidia.com/gpu"
ONE_GPU: dict[str, Any] = {GPU: "1"}
TWO_GPUS: dict[str, Any] = {GPU: "2"}
HUGE_PAGES: dict[str, Any] = {"hugepages-2Mi": "8Mi"}
STORAGE: dict[str, Any] = {"ephemeral-storage": "4Gi"}
URGENT = (
    priority_class("high", 100),
    *gang(2, priorityClassName="high", spec={"priorityClassName": "high", "priority": 100}),
)
WAIT = "nothing has to change: it is placed when the pods that end or are evicted for it are gone"
TOPOLOGY = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: network-topology-aware}]
"""
NIGHT = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: tdm, arguments: {tdm.revocable-zone.night: "22:00-22:01"}}]
"""


def closed(name: str) -> Manifest:
    """Return a closed queue."""
    return {**queue(name), "status": {"state": "Closed"}}


def fewer(number: int, instead: int) -> str:
    """Return the remedy of a lower minimum of a PodGroup with minResources."""
    return f"minAvailable {number} instead of {instead}, minResources alike"


def one_more(like: str, amounts: str) -> list[str]:
    """Return the remedies of one more node: one like another, and one with other amounts."""
    return [f"1 more node like {like}", f"one more node like {like} with {amounts}"]


GROUPS = [
    Case(
        name="the queue does not exist",
        cluster=[*TWO, *gang(1, queue="typo", phase="Pending")],
        code="QueueNotFound",
        shows=['queue "typo" does not exist'],
        remedies=["create queue typo"],
    ),
    Case(
        name="the queue does not exist and the cluster is full",
        cluster=[node("n1", cpu="2"), *busy("old", 2, "n1"), *gang(1, queue="typo", phase="Pending")],
        code="QueueNotFound",
        shows=['queue "typo" does not exist'],
        remedies=[],
    ),
    Case(
        name="the PodGroup of a pod does not exist",
        cluster=[*TWO, *pods("p", 1, "lost", cpu="1")],
        job="lost",
        code="PodGroupNotFound",
        shows=['PodGroup "lost" does not exist'],
        remedies=[],
    ),
    Case(
        name="an admitted group has no pods yet",
        cluster=[*TWO, group("g", 3, phase="Inqueue")],
        code="PodsMissing",
        shows=["none of its 3 pods exists"],
        remedies=[],
    ),
    Case(
        name="fewer pods than the minimum exist",
        cluster=[*TWO, *gang(3, 2)],
        code="NotEnoughTasks",
        shows=["valid: 2, min: 3"],
        remedies=["minAvailable 2 instead of 3"],
    ),
    Case(
        name="a task has fewer pods than its minimum",
        cluster=[
            *TWO,
            group("g", 2, phase="Inqueue", minTaskMember={"ps": 1, "worker": 1}),
            *pods("w", 2, "g", role="worker", cpu="1"),
        ],
        code="NotEnoughPodsOfTask",
        shows=["Not enough valid pods of each task"],
        remedies=[],
    ),
    Case(
        name="pods have a scheduling gate",
        cluster=[*TWO, *gang(2, spec={"schedulingGates": [{"name": "acme.io/licence"}]})],
        code="SchedulingGated",
        shows=["acme.io/licence"],
        remedies=["its pods lose the gates acme.io/licence"],
    ),
    Case(
        name="gated pods have two gates",
        cluster=[*TWO, *gang(1, spec={"schedulingGates": [{"name": "b"}, {"name": "a"}]})],
        code="SchedulingGated",
        shows=["a, b"],
        remedies=["its pods lose the gates a, b"],
    ),
]
ENQUEUE = [
    Case(
        name="the queue is closed",
        cluster=[*TWO, closed("q"), *gang(2, queue="q", phase="Pending", minResources={"cpu": "2"})],
        conf=DEFAULT,
        code="QueueClosed",
        shows=["queue q is not open"],
        remedies=["open queue q"],
    ),
    Case(
        name="the minimum is larger than the cluster and no pods exist",
        cluster=[*FOUR, group("g", 99, minResources={"cpu": "99"})],
        conf=DEFAULT,
        code="ClusterInsufficient",
        shows=["needs cpu 99; the cluster has 32, its largest node 8"],
        remedies=["9 more nodes like n0", "one more node like n0 with cpu 67", fewer(32, 99)],
    ),
    Case(
        name="the cluster has none of a resource that is needed",
        cluster=[*TWO, group("g", 2, minResources={GPU: "2"})],
        conf=DEFAULT,
        code="ClusterInsufficient",
        shows=[f"needs {GPU} 2; the cluster has 0"],
        remedies=[f"one more node like n1 with {GPU} 2"],
    ),
    Case(
        name="the cluster is in use",
        cluster=[*TWO, *busy("a", 4, "n1"), *busy("b", 4, "n2"), *gang(4, phase="Pending", minResources={"cpu": "4"})],
        conf=DEFAULT,
        code="ClusterOverused",
        shows=["in use 8"],
        remedies=[*one_more("n1", "cpu 4, pods 4"), "the end of ns/a", "the end of ns/b"],
    ),
    Case(
        name="other jobs are admitted that do not run yet",
        cluster=[
            *TWO,
            group("first", 8, phase="Inqueue", minResources={"cpu": "8"}),
            group("g", 4, minResources={"cpu": "4"}),
        ],
        conf=DEFAULT,
        code="ClusterInsufficient",
        shows=["admitted 8"],
        remedies=one_more("n1", "cpu 4"),
    ),
    Case(
        name="the capability of the queue is too small for the minimum",
        cluster=[
            *FOUR,
            queue("small", capability={"cpu": "2"}),
            *busy("old", 1, "n0", queue="small"),
            *gang(4, queue="small", phase="Pending", minResources={"cpu": "4"}),
        ],
        conf=DEFAULT,
        code="QueueQuotaInsufficient",
        shows=["queue small: needs cpu 4, in use 1", "limit 2"],
        remedies=["capability of queue small: cpu 3 more", fewer(1, 4)],
    ),
    Case(
        name="two resources of the capability are too small",
        cluster=[
            *FOUR,
            queue("small", capability={"cpu": "2", "memory": "1Gi"}),
            *gang(2, queue="small", phase="Pending", minResources={"cpu": "4", "memory": "2Gi"}, cpu="2", memory="1Gi"),
        ],
        conf=DEFAULT,
        code="QueueQuotaInsufficient",
        shows=["insufficient cpu"],
        remedies=["capability of queue small: cpu 2, memory 1Gi more", fewer(1, 2)],
    ),
    Case(
        name="a job of its own queue keeps the quota",
        cluster=[
            *FOUR,
            queue("q", capability={"cpu": "4"}),
            *busy("old", 3, "n0", queue="q", minResources={"cpu": "3"}),
            *gang(2, queue="q", phase="Pending", minResources={"cpu": "2"}),
        ],
        conf=DEFAULT,
        code="QueueQuotaInsufficient",
        shows=["limit 4"],
        remedies=["capability of queue q: cpu 1 more", fewer(1, 2), "the end of ns/old"],
    ),
    Case(
        name="a ResourceQuota has no room",
        cluster=[
            *TWO,
            quota("tight", {"cpu": "4"}, {"cpu": "3"}),
            *gang(2, phase="Pending", minResources={"cpu": "2"}),
        ],
        conf=QUOTAS,
        code="ResourceQuotaInsufficient",
        shows=["requested: cpu=2, used: cpu=3, limited: cpu=4"],
        remedies=["ResourceQuota tight: cpu 1 more", fewer(1, 2)],
    ),
    Case(
        name="the queue has queues below it",
        cluster=[
            ROOT,
            *TWO,
            queue("org", parent="root", capability={"cpu": "4"}),
            queue("team", parent="org", capability={"cpu": "4"}),
            *gang(1, queue="org", phase="Pending", minResources={"cpu": "1"}),
        ],
        conf=NO_RECLAIM_TREE,
        code="QueueNotLeaf",
        shows=["has queues below it", "team"],
        remedies=[],
    ),
    Case(
        name="a queue above its own is full",
        cluster=[
            ROOT,
            *FOUR,
            queue("org", parent="root", capability={"cpu": "4"}),
            queue("a", parent="org", capability={"cpu": "4"}),
            queue("b", parent="org", capability={"cpu": "4"}),
            *busy("old", 3, "n0", queue="a", minResources={"cpu": "3"}),
            *gang(2, queue="b", phase="Pending", minResources={"cpu": "2"}),
        ],
        conf=NO_RECLAIM_TREE,
        code="QueueQuotaInsufficient",
        shows=["org"],
        remedies=["capability of queue org: cpu 1 more", fewer(1, 2), "the end of ns/old"],
    ),
]
QUEUES = [
    Case(
        name="the parent of the queue does not exist",
        cluster=[ROOT, *TWO, queue("q", parent="nowhere"), *gang(1, queue="q")],
        conf=NO_RECLAIM_TREE,
        code="QueueHierarchyBroken",
        shows=['the parent "nowhere", which does not exist'],
        remedies=[],
    ),
    Case(
        name="the queue has more than its share and another waits for its own",
        cluster=[
            node("n1", cpu="8"),
            queue("a"),
            queue("b"),
            *busy("old", 6, "n1", queue="a"),
            *gang(4, name="other", queue="b"),
            *gang(1, queue="a"),
        ],
        conf=DEFAULT,
        code="QueueQuota",
        shows=["queue a: needs cpu 1, in use 6, deserved 4"],
        remedies=["weight 7 of queue a instead of 1", *one_more("n1", "cpu 3"), "the end of ns/old"],
    ),
    Case(
        name="the queue deserves less than the job needs, and another has more than it deserves",
        cluster=[
            node("n1", cpu="4"),
            queue("a", deserved={"cpu": "1"}),
            queue("b", deserved={"cpu": "2"}),
            group("old", 1, phase="Running", queue="b"),
            *running("old", 4, on="n1"),
            *gang(1, queue="a", cpu="2"),
        ],
        conf=RECLAIM,
        code="InsufficientResource",
        remedies=[*one_more("n1", "cpu 2, pods 1"), "the end of ns/old", "deserved of queue a: cpu 1 more"],
    ),
    Case(
        name="an admitted job has no room left in its queue",
        cluster=[*FOUR, queue("q", capability={"cpu": "3"}), *busy("old", 2, "n0", queue="q"), *gang(2, queue="q")],
        conf=DEFAULT,
        code="QueueQuota",
        shows=["has no room left for 1 of its tasks"],
        remedies=["capability of queue q: cpu 1 more", "minAvailable 1 instead of 2", "the end of ns/old"],
    ),
    Case(
        name="the share of the queue is used by the queue itself",
        cluster=[
            node("n1", cpu="8"),
            queue("a"),
            queue("b"),
            *busy("old", 4, "n1", queue="a"),
            *gang(4, name="other", queue="b"),
            *gang(2, queue="a"),
        ],
        conf=DEFAULT,
        code="QueueQuota",
        shows=["deserved 4"],
        remedies=["weight 3 of queue a instead of 1", *one_more("n1", "cpu 2, pods 2"), "the end of ns/old"],
    ),
    Case(
        name="a pod above the minimum has no room in the queue",
        cluster=[*FOUR, queue("q", capability={"cpu": "2"}), *gang(1, 3, queue="q")],
        conf=DEFAULT,
        code="QueueQuota",
        shows=["has no room left"],
        remedies=["capability of queue q: cpu 1 more"],
    ),
]
ROOM = [
    Case(
        name="a single pod is larger than any node",
        cluster=[*TWO, *gang(1, cpu="6")],
        code="LargerThanAnyNode",
        shows=["2 Insufficient cpu", "n1 is short of cpu 2"],
        remedies=["one more node like n1 with cpu 6, pods 1"],
    ),
    Case(
        name="memory is what no node has enough of",
        cluster=[node("n1", memory="8Gi"), *gang(1, cpu="1", memory="16Gi")],
        code="LargerThanAnyNode",
        shows=["n1 is short of memory 8Gi"],
        remedies=["one more node like n1 with cpu 1, memory 16Gi, pods 1"],
    ),
    Case(
        name="no node has a GPU",
        cluster=[*TWO, *gang(1, **ONE_GPU)],
        code="LargerThanAnyNode",
        shows=[f"is short of {GPU} 1"],
        remedies=[f"one more node like n1 with cpu 1, {GPU} 1, pods 1"],
    ),
    Case(
        name="three of eight GPUs are missing",
        cluster=[
            *(node(f"g{at}", **TWO_GPUS) for at in range(4)),
            *busy("old", 2, "g0", **ONE_GPU),
            *gang(4, **TWO_GPUS),
        ],
        code="InsufficientResource",
        shows=[f"4 Insufficient {GPU}", f"g0 is short of {GPU} 2"],
        remedies=[*one_more("g0", f"cpu 1, {GPU} 2, pods 1"), "minAvailable 3 instead of 4", "the end of ns/old"],
    ),
    Case(
        name="all nodes are in use",
        cluster=[*TWO, *busy("a", 4, "n1"), *busy("b", 4, "n2"), *gang(1)],
        code="InsufficientResource",
        shows=["2 Insufficient cpu", "n1 is short of cpu 1"],
        remedies=[*one_more("n1", "cpu 1, pods 1"), "the end of ns/a", "the end of ns/b"],
    ),
    Case(
        name="enough is free in all but not on one node",
        cluster=[*TWO, *busy("a", 3, "n1"), *busy("b", 3, "n2"), *gang(1, cpu="2")],
        code="Fragmented",
        shows=["n1 is short of cpu 1"],
        remedies=[*one_more("n1", "cpu 2, pods 1"), "the end of ns/a", "the end of ns/b"],
    ),
    Case(
        name="a gang does not fit as a whole",
        cluster=[*TWO, *gang(3, cpu="3")],
        code="InsufficientResource",
        shows=["n1 is short of cpu 2"],
        remedies=[*one_more("n1", "cpu 3, pods 1"), "minAvailable 2 instead of 3"],
    ),
    Case(
        name="two jobs must end",
        cluster=[*TWO, *busy("a", 4, "n1"), *busy("b", 4, "n2"), *gang(8)],
        code="InsufficientResource",
        shows=["2 Insufficient cpu"],
        remedies=[
            "2 more nodes like n1",
            "one more node like n1 with cpu 8, pods 8",
            "the end of the 2 oldest running jobs: ns/a, ns/b",
        ],
    ),
    Case(
        name="nodes run as many pods as they may",
        cluster=[node("n1", pods="2"), *busy("a", 2, "n1"), *gang(1)],
        code="TooManyPods",
        shows=["n1 is short of pods 1"],
        remedies=[*one_more("n1", "cpu 1, pods 1"), "the end of ns/a"],
    ),
    Case(
        name="there are no nodes",
        cluster=gang(2),
        code="NoNodes",
        remedies=[],
    ),
    Case(
        name="pods of other schedulers use the node",
        cluster=[
            node("n1", cpu="4"),
            *pods("daemon", 3, "", cpu="1", on="n1", phase="Running", spec={"schedulerName": "default-scheduler"}),
            *gang(1, cpu="2"),
        ],
        code="InsufficientResource",
        shows=["n1 is short of cpu 1"],
        remedies=one_more("n1", "cpu 2, pods 1"),
    ),
    Case(
        name="a job that runs cannot grow",
        cluster=[
            node("n1", cpu="4"),
            group("g", 2, phase="Running"),
            *running("g", 4, on="n1"),
            pod("g-9", "g", cpu="1"),
        ],
        code="InsufficientResource",
        shows=["n1 is short of cpu 1"],
        remedies=one_more("n1", "cpu 1, pods 1"),
    ),
    Case(
        name="a job behind another in its queue gets what is left",
        cluster=[
            node("n1", cpu="4"),
            priority_class("high", 100),
            *gang(3, name="first", priorityClassName="high"),
            *gang(2),
        ],
        code="InsufficientResource",
        shows=["n1 is short of cpu 1"],
        remedies=[*one_more("n1", "cpu 1, pods 1"), "minAvailable 1 instead of 2"],
    ),
    Case(
        name="a job waits behind another that waits too",
        cluster=[
            node("n1", cpu="4"),
            priority_class("high", 100),
            *busy("old", 4, "n1"),
            *gang(4, name="first", priorityClassName="high"),
            *gang(4),
        ],
        code="InsufficientResource",
        shows=["after ns/first"],
        remedies=["2 more nodes like n1", "one more node like n1 with cpu 8, pods 8"],
    ),
    Case(
        name="huge pages are short",
        cluster=[node("n1", **{"hugepages-2Mi": "4Mi"}), *gang(1, **HUGE_PAGES)],
        code="LargerThanAnyNode",
        shows=["Insufficient hugepages-2Mi"],
        remedies=["one more node like n1 with cpu 1, hugepages-2Mi 8Mi, pods 1"],
    ),
    Case(
        name="ephemeral storage is short",
        cluster=[
            node("n1", **{"ephemeral-storage": "10Gi"}),
            *busy("a", 1, "n1", **{"ephemeral-storage": "8Gi"}),
            *gang(1, **STORAGE),
        ],
        code="InsufficientResource",
        shows=["n1 is short of ephemeral-storage 2Gi"],
        remedies=[*one_more("n1", "cpu 1, ephemeral-storage 4Gi, pods 1"), "the end of ns/a"],
    ),
]
RULES = [
    Case(
        name="the nodes with GPUs have a taint and the others no GPUs",
        cluster=[node("cpu"), tainted("gpu", **{GPU: "8"}), *gang(1, **ONE_GPU)],
        code="UntoleratedTaint",
        shows=[f"1 Insufficient {GPU}", "1 node(s) had untolerated taint {dedicated: ml}"],
        remedies=["its pods tolerate the taint dedicated:NoSchedule"],
    ),
    Case(
        name="a node is cordoned as the node controller does it",
        cluster=[
            {
                **tainted("n1", "node.kubernetes.io/unschedulable", ""),
                "spec": {
                    "unschedulable": True,
                    "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
                },
            },
            *gang(1),
        ],
        code="NodeUnschedulable",
        shows=["1 node(s) were unschedulable"],
        remedies=["uncordon n1"],
    ),
    Case(
        name="a node is not ready",
        cluster=[tainted("n1", "node.kubernetes.io/not-ready", ""), *gang(1)],
        code="NodeNotReady",
        shows=["node.kubernetes.io/not-ready"],
        remedies=[],
    ),
    Case(
        name="some pods of a gang have a scheduling gate and others do not exist",
        cluster=[*TWO, *gang(3, 2, spec={"schedulingGates": [{"name": "a"}]})],
        code="SchedulingGated",
        shows=["gates a"],
        remedies=[],
    ),
    Case(
        name="all nodes are cordoned",
        cluster=[node("n1", unschedulable=True), node("n2", unschedulable=True), *gang(1)],
        code="NodeUnschedulable",
        shows=["2 node(s) were unschedulable"],
        remedies=["uncordon n1"],
    ),
    Case(
        name="a gang needs both cordoned nodes",
        cluster=[
            node("n1", cpu="1", unschedulable=True),
            node("n2", cpu="1", unschedulable=True),
            *gang(2),
        ],
        code="NodeUnschedulable",
        shows=["2 node(s) were unschedulable"],
        remedies=["uncordon all 2 cordoned nodes"],
    ),
    Case(
        name="a taint is not tolerated",
        cluster=[tainted("n1"), *gang(2)],
        code="UntoleratedTaint",
        shows=["1 node(s) had untolerated taint {dedicated: ml}"],
        remedies=["its pods tolerate the taint dedicated:NoSchedule"],
    ),
    Case(
        name="one of two taints suffices",
        cluster=[tainted("n1"), tainted("n2", "spot", "true"), *gang(1)],
        code="UntoleratedTaint",
        shows=["1 node(s) had untolerated taint {dedicated: ml}", "{spot: true}"],
        remedies=["its pods tolerate the taint dedicated:NoSchedule", "its pods tolerate the taint spot:NoSchedule"],
    ),
    Case(
        name="the untainted node is too small for the gang",
        cluster=[tainted("n1"), node("n2", cpu="1"), *gang(2)],
        code="InsufficientResource",
        shows=["1 Insufficient cpu", "1 node(s) had untolerated taint {dedicated: ml}", "n2 is short of cpu 1"],
        remedies=[*one_more("n2", "cpu 1, pods 1"), "minAvailable 1 instead of 2"],
    ),
    Case(
        name="the node selector matches no node",
        cluster=[*TWO, *gang(1, spec={"nodeSelector": {"zone": "b"}})],
        code="NodeAffinity",
        shows=["2 node(s) didn't match Pod's node affinity/selector"],
        remedies=[],
    ),
    Case(
        name="the only node that the selector matches is full",
        cluster=[
            node("n1", cpu="4", labels={"zone": "b"}),
            node("n2", cpu="4"),
            *busy("a", 4, "n1"),
            *gang(1, spec={"nodeSelector": {"zone": "b"}}),
        ],
        code="InsufficientResource",
        shows=["n1 is short of cpu 1"],
        remedies=[*one_more("n1", "cpu 1, pods 1"), "the end of ns/a"],
    ),
    Case(
        name="a gang of pods that stay apart is larger than the cluster",
        cluster=[
            zoned("n1"),
            zoned("n2"),
            group("g", 3, phase="Inqueue"),
            *ruled("g", 3, "g", affinity=apart(term(app="a"))),
        ],
        code="PodAntiAffinity",
        shows=["2 node(s) didn't match pod anti-affinity rules"],
        remedies=["1 more node like n1", "minAvailable 2 instead of 3"],
    ),
    Case(
        name="a running pod does not want it beside itself",
        cluster=[
            zoned("n1"),
            ruled_running("guard", "n1", labels={"app": "guard"}, affinity=apart(term(app="a"))),
            group("g", 1, phase="Inqueue"),
            asking("p", "g"),
        ],
        code="PodAntiAffinity",
        shows=["existing pods anti-affinity"],
        remedies=["1 more node like n1"],
    ),
    Case(
        name="the pod that it must run beside is nowhere",
        cluster=[
            zoned("n1"),
            group("g", 1, phase="Inqueue"),
            asking("p", "g", labels={"app": "b"}, affinity=near(term(app="a"))),
        ],
        code="PodAffinity",
        shows=["1 node(s) didn't match pod affinity rules"],
        remedies=[],
    ),
    Case(
        name="no rack has room for all pods",
        cluster=[
            *racks(2, 2, spines=2),
            group("g", 3, phase="Inqueue", networkTopology={"mode": "hard", "highestTierAllowed": 1}),
            *pods("g", 3, "g", cpu="1"),
        ],
        conf=TOPOLOGY,
        code="NetworkTopology",
        shows=["In hyperNode r0: 0/2 nodes are unavailable: 2 Insufficient cpu."],
        remedies=["highestTierAllowed 2 instead of 1", "minAvailable 2 instead of 3"],
    ),
    Case(
        name="a rack may have room for pods of many sizes, but not every assignment was tried",
        cluster=[
            *racks(5, cpu="100"),
            group("g", 11, phase="Inqueue", networkTopology={"mode": "hard", "highestTierAllowed": 1}),
            *[pod(f"g-{size}", "g", cpu=str(size)) for size in range(34, 45)],
        ],
        conf=TOPOLOGY,
        code="NetworkTopologySearchIncomplete",
        shows=["In hyperNode r0: 0/5 nodes are unavailable: 5 Insufficient cpu."],
        remedies=["minAvailable 10 instead of 11"],
    ),
    Case(
        name="HyperNodes contain each other",
        cluster=[
            node("n1"),
            hyper_node("x", 2, "y"),
            hyper_node("y", 3, "x"),
            group("g", 1, phase="Inqueue", networkTopology={"mode": "hard", "highestTierAllowed": 1}),
            *pods("g", 1, "g", cpu="1"),
        ],
        conf=TOPOLOGY,
        code="InvalidHyperNodes",
        shows=['HyperNode "x" contains itself: x in y in x'],
        remedies=[],
    ),
    Case(
        name="a spread constraint leaves no node",
        cluster=[
            zoned("n1", "a", cpu="8"),
            zoned("n2", "b", cpu="1"),
            ruled_running("x", "n1"),
            ruled_running("y", "n2"),
            ruled_running("z", "n1"),
            group("g", 1, phase="Inqueue"),
            asking("p", "g", constraints=(spread(),)),
        ],
        code="InsufficientResource",
        shows=["1 node(s) didn't match pod topology spread constraints"],
        remedies=one_more("n2", "cpu 1, pods 1"),
    ),
    Case(
        name="a host port is taken",
        cluster=[
            node("n1"),
            ruled_running("old", "n1", port={"hostPort": 80}),
            group("g", 1, phase="Inqueue"),
            asking("p", "g", port={"hostPort": 80}),
        ],
        code="HostPort",
        shows=["free ports"],
        remedies=["1 more node like n1"],
    ),
    Case(
        name="a claim has no volume to bind to",
        cluster=[
            node("n1"),
            storage_class(),
            claim("data"),
            group("g", 1, phase="Inqueue"),
            using("p", "g", "data"),
        ],
        code="Volume",
        shows=["didn't find available persistent volumes to bind"],
        remedies=[],
    ),
    Case(
        name="a claim does not exist",
        cluster=[node("n1"), group("g", 1, phase="Inqueue"), using("p", "g", "nope")],
        code="Volume",
        shows=["nope"],
        remedies=[],
    ),
    Case(
        name="the volume is in another zone",
        cluster=[
            *THREE,
            storage_class(),
            claim("data", volume="pv"),
            volume("pv", reach=on(STORAGE_ZONE, "z9")),
            group("g", 1, phase="Inqueue"),
            using("p", "g", "data"),
        ],
        code="Volume",
        shows=["3 node(s) had volume node affinity conflict"],
        remedies=[],
    ),
    Case(
        name="the nodes are in a revocable zone that is closed",
        cluster=[
            node("n1", labels={"volcano.sh/revocable-zone": "night"}),
            group("g", 1, phase="Inqueue"),
            pod("p", "g", cpu="1"),
        ],
        conf=NIGHT,
        code="RevocableZone",
        shows=["node(s) are in a revocable zone"],
        remedies=[],
    ),
    Case(
        name="one node is cordoned and the other full",
        cluster=[node("n1", cpu="4", unschedulable=True), node("n2", cpu="4"), *busy("a", 4, "n2"), *gang(1)],
        code="InsufficientResource",
        shows=["1 Insufficient cpu", "1 node(s) were unschedulable", "n2 is short of cpu 1"],
        remedies=[*one_more("n2", "cpu 1, pods 1"), "uncordon n1", "the end of ns/a"],
    ),
    Case(
        name="the queue may not use the nodes",
        cluster=[
            grouped("n1", "cold"),
            affine("q", required=["hot"]),
            group("g", 1, queue="q", phase="Inqueue"),
            *pods("p", 1, "g", cpu="1"),
        ],
        conf=node_groups(),
        code="NodeGroup",
        shows=["node group"],
        remedies=[],
    ),
]
VICTIMS = [
    Case(
        name="victims still end",
        cluster=[
            node("n1", cpu="4"),
            group("old", 1, phase="Running"),
            *(terminating(each) for each in running("old", 4, on="n1")),
            *gang(2),
        ],
        conf=PREEMPT,
        code="WaitingForVictims",
        shows=["2 of its pods wait for room that is being released"],
        remedies=[WAIT],
    ),
    Case(
        name="a preemptor has just evicted its victims",
        cluster=[
            node("n1", cpu="4"),
            group("old", 1, phase="Running"),
            *running("old", 4, on="n1"),
            *URGENT,
        ],
        conf=PREEMPT,
        code="WaitingForVictims",
        shows=["2 of its pods wait for room"],
        remedies=[WAIT],
    ),
    Case(
        name="pods that may not be preempted keep the node",
        cluster=[
            node("n1", cpu="4"),
            *busy("old", 4, "n1"),
            *URGENT,
        ],
        conf=PREEMPT,
        code="InsufficientResource",
        shows=["n1 is short of cpu 1"],
        remedies=[*one_more("n1", "cpu 2, pods 2"), "the end of ns/old"],
    ),
]
CASES = [*GROUPS, *ENQUEUE, *QUEUES, *ROOM, *RULES, *VICTIMS]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_why(case: Case) -> None:
    found = case.diagnosis()
    assert found.code == case.code, evidence(found)
    assert [part for part in case.shows if part not in evidence(found)] == [], evidence(found)
    assert [each.text for each in case.search(found)] == list(case.remedies)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_job_is_placed_after_each_remedy_and_not_after_a_smaller_one(case: Case) -> None:
    for remedy in case.search(case.diagnosis()):
        assert placed(case, changed(case, remedy)), remedy
        if remedy.kind in SMALLER:
            assert not placed(case, changed(case, SMALLER[remedy.kind](remedy))), remedy


def test_without_a_remedy_no_job_of_the_case_bank_is_placed() -> None:
    waiting = [case for case in CASES if WAIT not in case.remedies]
    assert [case.name for case in waiting if placed(case, case.cluster)] == []


def test_docs_have_the_codes() -> None:
    assert codes_page.PAGE.read_text() == codes_page.written(), "run `make codes`"


def test_cases_have_names_of_their_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
