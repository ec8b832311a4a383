"""ReplicaSets and ReplicationControllers keep their pods."""

from __future__ import annotations

from typing import Any

from tests.contract.kubelet import events_of, kubelet, pods_of, template, until
from tests.contract.support import Namespace, Obj, gone

SETS = "replicasets.v1.apps"


def make(namespace: Namespace, replicas: int = 2, **spec: Any) -> Obj:
    """A ReplicaSet of pods labelled app=rs."""
    body = {
        "metadata": {"name": "rs"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "rs"}}, "template": template(app="rs")},
    }
    body["spec"] |= spec  # type: ignore[operator]  # a dict of dicts
    return namespace.cluster.create(namespace.path(SETS), body).ok()


def test_a_replica_set_makes_pods_and_counts_them(namespace: Namespace) -> None:
    made = make(namespace)
    with kubelet(namespace):
        done = until(namespace, SETS, "rs", lambda one: one["status"].get("availableReplicas") == 2)
    assert done["status"] == {
        "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
        "terminatingReplicas": 0, "observedGeneration": 1,
    }  # fmt: skip
    for pod in pods_of(namespace, app="rs"):
        meta = pod["metadata"]
        assert meta["generateName"] == "rs-"
        assert meta["name"].startswith("rs-")
        assert len(meta["name"]) == len("rs-12345")
        assert meta["ownerReferences"] == [
            {
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": made["metadata"]["uid"],
                "controller": True, "blockOwnerDeletion": True,
            }
        ]  # fmt: skip
    names = [pod["metadata"]["name"] for pod in pods_of(namespace, app="rs")]
    assert events_of(namespace, "ReplicaSet", "SuccessfulCreate", 2) == [f"Created pod: {name}" for name in names]


def test_it_is_scaled_up_and_down(namespace: Namespace) -> None:
    make(namespace, 1)
    path = namespace.path(SETS, "rs")
    with kubelet(namespace):
        until(namespace, SETS, "rs", lambda one: one["status"].get("readyReplicas") == 1)
        namespace.cluster.patch(f"{path}/scale", {"spec": {"replicas": 4}}).ok()
        until(namespace, SETS, "rs", lambda one: one["status"].get("readyReplicas") == 4)
        namespace.cluster.patch(f"{path}/scale", {"spec": {"replicas": 1}}).ok()
        done = until(namespace, SETS, "rs", lambda one: one["status"]["replicas"] == 1)
    assert done["status"]["observedGeneration"] == 3
    assert len(pods_of(namespace, app="rs")) == 1


def test_the_dearer_pod_stays(namespace: Namespace) -> None:
    make(namespace, 3)
    with kubelet(namespace):
        until(namespace, SETS, "rs", lambda one: one["status"].get("readyReplicas") == 3)
        keep = pods_of(namespace, app="rs")[1]["metadata"]["name"]
        note = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "10"}}}
        namespace.cluster.patch(namespace.path("pods", keep), note).ok()
        namespace.cluster.patch(namespace.path(SETS, "rs"), {"spec": {"replicas": 1}}).ok()
        until(namespace, SETS, "rs", lambda one: one["status"]["replicas"] == 1)
    assert [pod["metadata"]["name"] for pod in pods_of(namespace, app="rs")] == [keep]


def test_deleted_or_failed_pods_are_replaced(namespace: Namespace) -> None:
    make(namespace, 2)
    with kubelet(namespace):
        until(namespace, SETS, "rs", lambda one: one["status"].get("readyReplicas") == 2)
        first, second = (pod["metadata"]["name"] for pod in pods_of(namespace, app="rs"))
        namespace.cluster.delete(namespace.path("pods", first)).ok()
        failed = {"status": {"phase": "Failed", "conditions": [{"type": "Ready", "status": "False"}]}}
        namespace.cluster.patch(namespace.path("pods", second, "status"), failed).ok()
        until(
            namespace, SETS, "rs",
            lambda one: one["status"].get("readyReplicas") == 2
            and {first, second}.isdisjoint(
                pod["metadata"]["name"] for pod in pods_of(namespace, app="rs") if pod["status"]["phase"] == "Running"
            ),
        )  # fmt: skip


def test_orphans_are_adopted_and_pods_that_no_longer_match_are_released(namespace: Namespace) -> None:
    orphan = {"metadata": {"name": "orphan", "labels": {"app": "rs"}}, "spec": template()["spec"]}
    namespace.pod("absent")  # waits for the service account
    namespace.cluster.create(namespace.path("pods"), orphan).ok()
    made = make(namespace, 2)
    with kubelet(namespace):
        until(namespace, SETS, "rs", lambda one: one["status"].get("readyReplicas") == 2)
        adopted = until(namespace, "pods", "orphan", lambda one: bool(one["metadata"].get("ownerReferences")))
        assert adopted["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        assert len(pods_of(namespace, app="rs")) == 2
        namespace.cluster.patch(namespace.path("pods", "orphan"), {"metadata": {"labels": {"app": "own"}}}).ok()
        released = until(namespace, "pods", "orphan", lambda one: not one["metadata"].get("ownerReferences"))
        assert released["metadata"]["labels"] == {"app": "own"}
        until(namespace, SETS, "rs", lambda _: len(pods_of(namespace, app="rs")) == 2)


def test_refused_pods_are_reported(namespace: Namespace) -> None:
    spec = template(app="rs")
    spec["spec"]["priorityClassName"] = "no-such-class"
    make(namespace, 1, template=spec)
    done = until(namespace, SETS, "rs", lambda one: bool(one["status"].get("conditions")))
    (condition,) = done["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("ReplicaFailure", "True", "FailedCreate")
    assert "no PriorityClass with name no-such-class was found" in condition["message"]
    (text, *_) = events_of(namespace, "ReplicaSet", "FailedCreate")
    assert text.startswith("Error creating: ")


def test_deleting_it_deletes_its_pods_unless_orphaned(namespace: Namespace) -> None:
    make(namespace, 2)
    until(namespace, SETS, "rs", lambda one: one["status"]["replicas"] == 2)
    namespace.cluster.delete(namespace.path(SETS, "rs"), {"propagationPolicy": "Orphan"}).ok()
    with kubelet(namespace):
        for pod in pods_of(namespace, app="rs"):
            until(namespace, "pods", pod["metadata"]["name"], lambda one: not one["metadata"].get("ownerReferences"))
        gone(namespace.cluster, namespace.path(SETS, "rs"))
        make(namespace, 2)
        until(namespace, SETS, "rs", lambda one: one["status"].get("readyReplicas") == 2)
    assert len(pods_of(namespace, app="rs")) == 2


def test_a_replication_controller_does_the_same(namespace: Namespace) -> None:
    body = {"metadata": {"name": "rc"}, "spec": {"replicas": 1, "template": template(app="rc")}}
    made = namespace.cluster.create(namespace.path("replicationcontrollers"), body).ok()
    assert made["spec"]["selector"] == {"app": "rc"}
    assert made["metadata"]["labels"] == {"app": "rc"}
    with kubelet(namespace):
        done = until(namespace, "replicationcontrollers", "rc", lambda one: one["status"].get("availableReplicas") == 1)
    assert done["status"] == {
        "replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 1,
    }  # fmt: skip
