"""Taints of nodes: what conditions and cordons put on them, and which pods they drive off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.kubelet import now
from tests.contract.support import Cluster, Namespace, Obj, unique


@pytest.fixture
def node(cluster: Cluster) -> Iterator[str]:
    """Create a node whose status says that it is ready."""
    name = unique("wl-node")
    cluster.create("/api/v1/nodes", {"metadata": {"name": name}}).ok()
    condition(cluster, name, "True")
    yield name
    cluster.delete(f"/api/v1/nodes/{name}")


def condition(cluster: Cluster, name: str, ready: str) -> Obj:
    """Say that the node is ready, or not."""
    moment = now()
    one = {"type": "Ready", "status": ready, "lastHeartbeatTime": moment, "lastTransitionTime": moment}
    return cluster.patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [one]}}).ok()


def tainted(cluster: Cluster, name: str, *wanted: tuple[str, str]) -> Obj:
    """Return the node once it has exactly these taints; NoExecute taints are ignored, as their time varies."""
    query = {"fieldSelector": f"metadata.name={name}"}
    last: Obj = {}
    with cluster.watch("/api/v1/nodes", timeoutSeconds=20, **query) as events:
        for event in events:
            last = event["object"]
            taints = last.get("spec", {}).get("taints", [])
            if {(one["key"], one["effect"]) for one in taints if one["effect"] == "NoSchedule"} == set(wanted):
                return last
    raise AssertionError(last.get("spec"))


def test_a_cordon_is_a_taint(cluster: Cluster, node: str) -> None:
    tainted(cluster, node)
    cluster.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}}).ok()
    done = tainted(cluster, node, ("node.kubernetes.io/unschedulable", "NoSchedule"))
    assert done["spec"]["taints"][0]["timeAdded"]
    cluster.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}}).ok()
    tainted(cluster, node)


def test_a_node_that_is_not_ready_is_tainted_and_keeps_other_taints(cluster: Cluster, node: str) -> None:
    other = unique("wl-other")
    cluster.create("/api/v1/nodes", {"metadata": {"name": other}}).ok()
    condition(cluster, other, "True")
    mine = {"key": "example.org/mine", "value": "v", "effect": "NoSchedule"}
    cluster.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": [mine]}}).ok()
    condition(cluster, node, "False")
    not_ready = "node.kubernetes.io/not-ready"
    tainted(cluster, node, (not_ready, "NoSchedule"), ("example.org/mine", "NoSchedule"))
    condition(cluster, node, "True")
    tainted(cluster, node, ("example.org/mine", "NoSchedule"))
    cluster.delete(f"/api/v1/nodes/{other}").ok()


def test_pods_are_driven_off_when_their_tolerance_ends(namespace: Namespace, node: str) -> None:
    cluster = namespace.cluster
    forever = {"key": "example.org/out", "operator": "Exists", "effect": "NoExecute"}
    pods = {
        "none": [],
        "some": [{**forever, "tolerationSeconds": 1}],
        "wrong": [{"key": "example.org/out", "value": "no", "effect": "NoExecute"}],
        "all": [forever],
        "any": [{"operator": "Exists"}],
    }
    for name, tolerations in pods.items():
        namespace.pod(name, nodeName=node, tolerations=tolerations)
    out = {"key": "example.org/out", "value": "yes", "effect": "NoExecute", "timeAdded": now()}
    cluster.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": [out]}}).ok()
    for name in ("none", "wrong", "some"):
        with cluster.watch(namespace.path("pods"), fieldSelector=f"metadata.name={name}", timeoutSeconds=20) as events:
            gone = next(event["object"] for event in events if event["object"]["metadata"].get("deletionTimestamp"))
        reported = [one for one in gone["status"]["conditions"] if one["type"] == "DisruptionTarget"]
        assert reported[0]["reason"] == "DeletionByTaintManager"
        assert reported[0]["message"] == "Taint manager: deleting due to NoExecute taint"
    for name in ("all", "any"):
        assert not cluster.get(namespace.path("pods", name)).ok()["metadata"].get("deletionTimestamp")
