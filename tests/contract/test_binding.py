"""Binding a pod to a node happens once."""

from __future__ import annotations

import pytest

from tests.contract.support import Namespace, Obj, pod


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


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({"kind": "Node", "name": ""}, "target.name: Required value"),
        ({"kind": "Pod", "name": "n"}, 'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"'),
    ],
)
def test_a_binding_names_a_node(namespace: Namespace, target: Obj, said: str) -> None:
    namespace.pod("p")
    answer = namespace.cluster.create(namespace.path("pods", "p", "binding"), binding("p", target))
    assert (answer.code, answer.body["message"], "reason" in answer.body) == (500, said, False)


def test_a_binding_names_the_pod(namespace: Namespace) -> None:
    namespace.pod("p")
    path = namespace.path("pods", "p", "binding")
    for name in ("", "q"):
        status = namespace.cluster.create(path, binding(name)).refused(400, "BadRequest")
        assert status["message"] == "name in URL does not match name in Binding object"
    elsewhere = binding("p")
    elsewhere["metadata"]["namespace"] = "elsewhere"
    assert "does not match" in namespace.cluster.create(path, elsewhere).refused(400, "BadRequest")["message"]


def test_a_binding_may_go_to_the_collection(namespace: Namespace) -> None:
    namespace.pod("p")
    path = namespace.path("bindings")
    assert namespace.cluster.create(path, binding("")).refused(400, "BadRequest")
    namespace.cluster.create(path, binding("absent")).refused(404, "NotFound")
    assert namespace.cluster.create(path, binding("p")).ok()["status"] == "Success"
    status = namespace.cluster.create(path, binding("p", {"name": "other"})).refused(409, "Conflict")
    assert status["details"] == {"name": "p", "kind": "pods/binding"}
    assert status["message"].endswith('"p": pod p is already assigned to node "node-1"')


def test_a_pod_that_ends_is_not_bound(namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path("pods"), finalized(pod("p"))).ok()
    namespace.cluster.delete(namespace.path("pods", "p")).ok()
    status = namespace.bind("p", "node-1").refused(409, "Conflict")
    assert status["message"].endswith("pod p is being deleted, cannot be assigned to a host")
    namespace.cluster.patch(namespace.path("pods", "p"), {"metadata": {"finalizers": None}}).ok()


def binding(name: str, target: Obj | None = None) -> Obj:
    """A Binding to node-1, or to `target`."""
    return {"metadata": {"name": name}, "target": target or {"kind": "Node", "name": "node-1"}}


def finalized(body: Obj) -> Obj:
    """The object with a finalizer."""
    return body | {"metadata": body["metadata"] | {"finalizers": ["example.com/wait"]}}


def test_the_node_is_not_changed_by_other_writes(namespace: Namespace) -> None:
    namespace.pod("p")
    namespace.bind("p", "node-1").ok()
    path = namespace.path("pods", "p")
    namespace.cluster.patch(path, {"spec": {"nodeName": "node-2"}}).refused(422, "Invalid")


def test_a_gated_pod_is_not_bound(namespace: Namespace) -> None:
    gated = namespace.pod("p", schedulingGates=[{"name": "example.com/wait"}])
    (condition,) = gated["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")
    status = namespace.bind("p", "node-1").refused(409, "Conflict")
    assert status["message"].endswith("pod p has non-empty .spec.schedulingGates")
    assert "nodeName" not in namespace.cluster.get(namespace.path("pods", "p")).ok()["spec"]
