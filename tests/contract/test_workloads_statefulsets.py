"""StatefulSets: order, names, claims, updates from the end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.kubelet import events_of, kubelet, pods_of, running, template, until
from tests.contract.support import Namespace, Obj, gone

SETS, REVISIONS = "statefulsets.v1.apps", "controllerrevisions.v1.apps"


def make(namespace: Namespace, replicas: int = 2, **spec: Any) -> Obj:
    """A StatefulSet of pods labelled app=db."""
    base = {"replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}}
    body = {"metadata": {"name": "db"}, "spec": {**base, "template": template(app="db"), **spec}}
    return namespace.cluster.create(namespace.path(SETS), body).ok()


def image(name: str) -> Obj:
    """A change of the template."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}}


def change(namespace: Namespace, patch: Obj) -> Obj:
    """Patch it."""
    return namespace.cluster.patch(namespace.path(SETS, "db"), patch).ok()


def ready(number: int) -> Any:
    """So many pods are ready, as of the newest spec."""
    return lambda one: (
        one["status"].get("readyReplicas", 0) == number == one["status"]["replicas"]
        and one["status"]["observedGeneration"] == one["metadata"]["generation"]
    )


def updated(one: Obj) -> bool:
    """As `kubectl rollout status` sees it."""
    status = one["status"]
    return bool(
        ready(one["spec"]["replicas"])(one) and status["currentRevision"] == status["updateRevision"]
        and status.get("updatedReplicas") == one["spec"]["replicas"]
    )  # fmt: skip


def names(namespace: Namespace) -> list[str]:
    """The names of its pods."""
    return [pod["metadata"]["name"] for pod in pods_of(namespace, app="db")]


def test_pods_are_made_one_after_the_other(namespace: Namespace) -> None:
    made = make(namespace, 3)
    seen: list[list[str]] = []

    def watched(pod: Obj) -> Obj:
        seen.append(names(namespace))
        return running(pod)

    with kubelet(namespace, watched):
        done = until(namespace, SETS, "db", ready(3))
    assert seen == [["db-0"], ["db-0", "db-1"], ["db-0", "db-1", "db-2"]]
    revision = done["status"]["currentRevision"]
    assert done["status"] == {
        "replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "currentReplicas": 3, "updatedReplicas": 3,
        "currentRevision": revision, "updateRevision": revision, "collisionCount": 0, "observedGeneration": 1,
    }  # fmt: skip
    pod = pods_of(namespace, app="db")[1]
    assert pod["metadata"]["labels"] == {
        "app": "db", "apps.kubernetes.io/pod-index": "1", "controller-revision-hash": revision,
        "statefulset.kubernetes.io/pod-name": "db-1",
    }  # fmt: skip
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-1", "db")
    assert pod["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert events_of(namespace, "StatefulSet", "SuccessfulCreate", 3) == [
        f"Create Pod db-{number} in StatefulSet db successful" for number in range(3)
    ]
    (kept,) = namespace.cluster.get(namespace.path(REVISIONS)).ok()["items"]
    assert (kept["metadata"]["name"], kept["revision"]) == (revision, 1)
    assert kept["data"]["spec"]["template"]["$patch"] == "replace"
    assert kept["metadata"]["labels"] == {"app": "db", "controller.kubernetes.io/hash": revision.removeprefix("db-")}


def test_a_parallel_set_does_not_wait(namespace: Namespace) -> None:
    make(namespace, 3, podManagementPolicy="Parallel")
    until(namespace, SETS, "db", lambda one: one["status"]["replicas"] == 3)
    assert names(namespace) == ["db-0", "db-1", "db-2"]


def test_the_last_pod_is_deleted_first(namespace: Namespace) -> None:
    make(namespace, 3, ordinals={"start": 5})
    with kubelet(namespace):
        until(namespace, SETS, "db", ready(3))
        assert names(namespace) == ["db-5", "db-6", "db-7"]
        namespace.cluster.patch(namespace.path(SETS, "db", "scale"), {"spec": {"replicas": 1}}).ok()
        until(namespace, SETS, "db", ready(1))
    assert names(namespace) == ["db-5"]
    assert events_of(namespace, "StatefulSet", "SuccessfulDelete", 2) == [
        f"Delete Pod db-{number} in StatefulSet db successful" for number in (6, 7)
    ]


def test_a_lost_pod_is_created_with_the_same_name(namespace: Namespace) -> None:
    make(namespace, 2)
    with kubelet(namespace):
        until(namespace, SETS, "db", ready(2))
        old = namespace.cluster.delete(namespace.path("pods", "db-0")).ok()
        until(namespace, "pods", "db-0", lambda one: one["metadata"]["uid"] != old["metadata"]["uid"])
        until(namespace, SETS, "db", ready(2))


def test_an_update_begins_at_the_end(namespace: Namespace) -> None:
    make(namespace, 3)
    order: list[str] = []

    def watched(pod: Obj) -> Obj:
        if pod["spec"]["containers"][0]["image"] == "two":
            order.append(pod["metadata"]["name"])
        return running(pod)

    with kubelet(namespace, watched):
        until(namespace, SETS, "db", ready(3))
        change(namespace, image("two"))
        done = until(namespace, SETS, "db", updated)
    assert order == ["db-2", "db-1", "db-0"]
    numbers = {
        one["metadata"]["name"]: one["revision"]
        for one in namespace.cluster.get(namespace.path(REVISIONS)).ok()["items"]
    }
    assert sorted(numbers.values()) == [1, 2]
    assert numbers[done["status"]["currentRevision"]] == 2


def test_an_update_stops_at_its_partition_and_can_be_undone(namespace: Namespace) -> None:
    make(namespace, 3, updateStrategy={"rollingUpdate": {"partition": 2}})
    with kubelet(namespace):
        until(namespace, SETS, "db", ready(3))
        change(namespace, image("two"))
        part = until(namespace, SETS, "db", lambda one: ready(3)(one) and one["status"].get("updatedReplicas") == 1)
        assert part["status"]["currentReplicas"] == 2
        assert part["status"]["currentRevision"] != part["status"]["updateRevision"]
        images = [pod["spec"]["containers"][0]["image"] for pod in pods_of(namespace, app="db")]
        assert images == ["one", "one", "two"]
        change(namespace, image("one"))
        until(namespace, SETS, "db", updated)
    newest = max(namespace.cluster.get(namespace.path(REVISIONS)).ok()["items"], key=lambda one: int(one["revision"]))
    assert newest["revision"] == 3
    assert newest["metadata"]["name"] == part["status"]["currentRevision"]


def test_on_delete_leaves_pods_to_their_owner(namespace: Namespace) -> None:
    make(namespace, 2, updateStrategy={"type": "OnDelete"})
    with kubelet(namespace):
        until(namespace, SETS, "db", ready(2))
        change(namespace, image("two"))
        until(namespace, SETS, "db", lambda one: one["status"]["observedGeneration"] == 2)
        namespace.cluster.delete(namespace.path("pods", "db-1")).ok()
        until(namespace, SETS, "db", lambda one: one["status"].get("updatedReplicas") == 1 and ready(2)(one))
    assert [pod["spec"]["containers"][0]["image"] for pod in pods_of(namespace, app="db")] == ["one", "two"]


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_each_pod_has_claims_of_its_own(namespace: Namespace, policy: str) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    keeping = {"whenDeleted": policy}
    make(
        namespace, 2, volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": spec}],
        persistentVolumeClaimRetentionPolicy=keeping,
    )  # fmt: skip
    with kubelet(namespace):
        until(namespace, SETS, "db", ready(2))
    pod = pods_of(namespace, app="db")[1]
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}} in pod["spec"]["volumes"]
    listed = namespace.cluster.get(namespace.path("persistentvolumeclaims")).ok()["items"]
    assert [one["metadata"]["name"] for one in listed] == ["data-db-0", "data-db-1"]
    assert listed[0]["metadata"]["labels"] == {"app": "db"}
    assert bool(listed[0]["metadata"].get("ownerReferences")) is (policy == "Delete")
    assert "Create Claim data-db-0 Pod db-0 in StatefulSet db success" in events_of(
        namespace, "StatefulSet", "SuccessfulCreate", 4
    )


def test_claims_are_deleted_on_scale_down_if_configured(namespace: Namespace) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    make(
        namespace, 2, volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": spec}],
        persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"},
    )  # fmt: skip
    with kubelet(namespace):
        until(namespace, SETS, "db", ready(2))
        namespace.cluster.patch(namespace.path(SETS, "db", "scale"), {"spec": {"replicas": 1}}).ok()
        gone(namespace.cluster, namespace.path("persistentvolumeclaims", "data-db-1"))
        until(namespace, SETS, "db", ready(1))
    assert namespace.cluster.get(namespace.path("persistentvolumeclaims", "data-db-0")).code == 200
