"""DaemonSets: a pod a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.kubelet import kubelet, pods_of, running, template, until
from tests.contract.support import Namespace, Obj, unique

SETS = "daemonsets.v1.apps"


@pytest.fixture
def nodes(namespace: Namespace) -> Iterator[list[str]]:
    """Two nodes that only the test's daemons select."""
    names = [unique("wl-daemon") for _ in range(2)]
    for name in names:
        body = {"metadata": {"name": name, "labels": {"wl-daemon": namespace.name}}}
        namespace.cluster.create("/api/v1/nodes", body).ok()
    yield names
    for name in names:
        namespace.cluster.delete(f"/api/v1/nodes/{name}")


def make(namespace: Namespace, **spec: Any) -> Obj:
    """A DaemonSet of pods labelled app=ds."""
    pod = template(app="ds")
    pod["spec"]["nodeSelector"] = {"wl-daemon": namespace.name}
    pod["spec"]["tolerations"] = [{"operator": "Exists"}]
    base = {"selector": {"matchLabels": {"app": "ds"}}, "template": pod}
    return namespace.cluster.create(namespace.path(SETS), {"metadata": {"name": "ds"}, "spec": base | spec}).ok()


def ready(number: int) -> Any:
    """So many nodes have a ready pod of the newest template."""
    return lambda one: (
        one["status"].get("numberAvailable", 0) == one["status"].get("updatedNumberScheduled", 0) == number
        and one["status"]["observedGeneration"] == one["metadata"]["generation"]
    )


def test_each_node_has_a_pod(namespace: Namespace, nodes: list[str]) -> None:
    made = make(namespace)
    with kubelet(namespace):
        done = until(namespace, SETS, "ds", ready(2))
    assert done["status"] == {
        "currentNumberScheduled": 2, "desiredNumberScheduled": 2, "numberMisscheduled": 0, "numberReady": 2,
        "numberAvailable": 2, "updatedNumberScheduled": 2, "observedGeneration": 1,
    }  # fmt: skip
    tied = []
    for pod in pods_of(namespace, app="ds"):
        required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        ((field,),) = [term["matchFields"] for term in required["nodeSelectorTerms"]]
        assert (field["key"], field["operator"]) == ("metadata.name", "In")
        tied += field["values"]
        assert pod["metadata"]["labels"]["pod-template-generation"] == "1"
        assert pod["metadata"]["labels"]["controller-revision-hash"]
        assert pod["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        tolerations = {(one.get("key"), one.get("effect")) for one in pod["spec"]["tolerations"]}
        assert ("node.kubernetes.io/unschedulable", "NoSchedule") in tolerations
    assert sorted(tied) == sorted(nodes)


def test_it_follows_the_nodes(namespace: Namespace, nodes: list[str]) -> None:
    make(namespace)

    def bound(pod: Obj) -> Obj:
        required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (node,) = required["nodeSelectorTerms"][0]["matchFields"][0]["values"]
        namespace.bind(pod["metadata"]["name"], node).ok()
        return running(pod)

    with kubelet(namespace, bound):
        until(namespace, SETS, "ds", ready(2))
        other = {"metadata": {"labels": {"wl-daemon": "absent"}}}
        namespace.cluster.patch(f"/api/v1/nodes/{nodes[0]}", other).ok()
        until(namespace, SETS, "ds", lambda one: one["status"]["desiredNumberScheduled"] == 1 and ready(1)(one))
    (left,) = pods_of(namespace, app="ds")
    assert left["spec"]["nodeName"] == nodes[1]


@pytest.mark.usefixtures("nodes")
def test_an_update_replaces_one_after_the_other(namespace: Namespace) -> None:
    make(namespace)
    with kubelet(namespace):
        until(namespace, SETS, "ds", ready(2))
        change = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "two"}]}}}}
        namespace.cluster.patch(namespace.path(SETS, "ds"), change).ok()
        until(namespace, SETS, "ds", ready(2))
    assert {pod["spec"]["containers"][0]["image"] for pod in pods_of(namespace, app="ds")} == {"two"}
    revisions = namespace.cluster.get(namespace.path("controllerrevisions.v1.apps")).ok()["items"]
    assert sorted(one["revision"] for one in revisions) == [1, 2]
