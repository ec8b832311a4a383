"""Binding a pod to a node happens once."""

from __future__ import annotations

from tests.contract.support import Namespace


def test_a_binding_sets_the_node(namespace: Namespace) -> None:
    namespace.pod("p")
    answer = namespace.bind("p", "node-1")
    assert (answer.code, answer.body["kind"], answer.body["status"]) == (201, "Status", "Success")
    bound = namespace.cluster.get(namespace.path("pods", "p")).ok()
    assert bound["spec"]["nodeName"] == "node-1"
    conditions = {one["type"]: one["status"] for one in bound["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"


def test_a_second_binding_is_a_conflict(namespace: Namespace) -> None:
    namespace.pod("p")
    namespace.bind("p", "node-1").ok()
    for node in ("node-1", "node-2"):
        namespace.bind("p", node).refused(409, "Conflict")
    assert namespace.cluster.get(namespace.path("pods", "p")).ok()["spec"]["nodeName"] == "node-1"


def test_a_binding_for_another_pod_of_that_name_is_a_conflict(namespace: Namespace) -> None:
    namespace.pod("p")
    namespace.bind("p", "node-1", uid="11111111-2222-3333-4444-555555555555").refused(409, "Conflict")
    assert "nodeName" not in namespace.cluster.get(namespace.path("pods", "p")).ok()["spec"]


def test_a_binding_carries_annotations(namespace: Namespace) -> None:
    namespace.pod("p")
    namespace.bind("p", "node-1", annotations={"example.com/cores": "0-3"}).ok()
    bound = namespace.cluster.get(namespace.path("pods", "p")).ok()
    assert bound["metadata"]["annotations"]["example.com/cores"] == "0-3"


def test_only_an_existing_pod_is_bound(namespace: Namespace) -> None:
    namespace.bind("absent", "node-1").refused(404, "NotFound")


def test_a_binding_needs_a_node(namespace: Namespace) -> None:
    namespace.pod("p")
    answer = namespace.bind("p", "")
    assert answer.code in {400, 422}


def test_the_node_is_not_changed_by_other_writes(namespace: Namespace) -> None:
    namespace.pod("p")
    namespace.bind("p", "node-1").ok()
    path = namespace.path("pods", "p")
    namespace.cluster.patch(path, {"spec": {"nodeName": "node-2"}}).refused(422, "Invalid")


def test_a_gated_pod_is_not_bound(namespace: Namespace) -> None:
    namespace.pod("p", schedulingGates=[{"name": "example.com/wait"}])
    answer = namespace.bind("p", "node-1")
    assert answer.code >= 400
    assert "nodeName" not in namespace.cluster.get(namespace.path("pods", "p")).ok()["spec"]
