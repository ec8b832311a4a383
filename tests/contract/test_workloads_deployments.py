"""Deployments: rollout, rollback, pause and resume."""

from __future__ import annotations

from typing import Any

from tests.contract.kubelet import events_of, kubelet, pods_of, running, template, until
from tests.contract.support import Namespace, Obj

DEPLOYMENTS, SETS = "deployments.v1.apps", "replicasets.v1.apps"
REVISION = "deployment.kubernetes.io/revision"


def make(namespace: Namespace, replicas: int = 3, **spec: Any) -> Obj:
    """A Deployment of pods labelled app=web."""
    selector = {"matchLabels": {"app": "web"}}
    body = {
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": selector, "template": template(app="web"), **spec},
    }
    return namespace.cluster.create(namespace.path(DEPLOYMENTS), body).ok()


def change(namespace: Namespace, **spec: Any) -> Obj:
    """Patch the spec."""
    return namespace.cluster.patch(namespace.path(DEPLOYMENTS, "web"), {"spec": spec}).ok()


def image(name: str) -> Obj:
    """A change of the template."""
    return {"spec": {"containers": [{"name": "main", "image": name}]}}


def complete(one: Obj) -> bool:
    """As `kubectl rollout status` sees it."""
    status, wanted = one["status"], one["spec"]["replicas"]
    return (
        status.get("observedGeneration", 0) >= one["metadata"]["generation"]
        and status.get("updatedReplicas", 0) == wanted == status.get("availableReplicas", 0)
        and status.get("replicas", 0) == wanted
        and condition(one, "Progressing").get("reason") == "NewReplicaSetAvailable"
    )


def condition(one: Obj, type_: str) -> Obj:
    """A condition, {} where there is none."""
    found: Obj = next((c for c in one["status"].get("conditions", []) if c["type"] == type_), {})
    return found


def sets(namespace: Namespace) -> list[Obj]:
    """Its ReplicaSets by revision."""
    listed = namespace.cluster.get(namespace.path(SETS), labelSelector="app=web").ok()["items"]
    return sorted(listed, key=lambda one: int(one["metadata"]["annotations"][REVISION]))


def test_a_new_deployment_becomes_available(namespace: Namespace) -> None:
    make(namespace)
    with kubelet(namespace):
        done = until(namespace, DEPLOYMENTS, "web", complete)
    conditions = {one["type"]: one for one in done["status"].pop("conditions")}
    assert done["status"] == {
        "observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
        "terminatingReplicas": 0,
    }  # fmt: skip
    (owned,) = sets(namespace)
    label = owned["metadata"]["labels"]["pod-template-hash"]
    assert owned["metadata"]["name"] == f"web-{label}"
    assert owned["spec"]["selector"] == {"matchLabels": {"app": "web", "pod-template-hash": label}}
    assert owned["metadata"]["annotations"] == {
        REVISION: "1", "deployment.kubernetes.io/desired-replicas": "3", "deployment.kubernetes.io/max-replicas": "4",
    }  # fmt: skip
    assert done["metadata"]["annotations"] == {REVISION: "1"}
    assert (conditions["Available"]["status"], conditions["Available"]["reason"]) == (
        "True",
        "MinimumReplicasAvailable",
    )
    progress = conditions["Progressing"]
    assert progress["message"] == f'ReplicaSet "web-{label}" has successfully progressed.'
    assert progress["lastUpdateTime"] >= progress["lastTransitionTime"]
    (text,) = events_of(namespace, "Deployment", "ScalingReplicaSet")
    assert text == f"Scaled up replica set web-{label} from 0 to 3"


def test_a_rollout_respects_its_limits(namespace: Namespace) -> None:
    make(namespace, 4, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
    most = 0

    def watched(pod: Obj) -> Obj:
        nonlocal most
        most = max(most, len(pods_of(namespace, app="web")))
        return running(pod)

    with kubelet(namespace, watched):
        until(namespace, DEPLOYMENTS, "web", complete)
        change(namespace, template=image("two"))
        done = until(namespace, DEPLOYMENTS, "web", complete)
    assert done["metadata"]["annotations"][REVISION] == "2"
    old, new = sets(namespace)
    assert (old["spec"]["replicas"], new["spec"]["replicas"]) == (0, 4)
    assert {pod["spec"]["containers"][0]["image"] for pod in pods_of(namespace, app="web")} == {"two"}
    assert most <= 5


def test_an_update_is_undone_by_its_old_template(namespace: Namespace) -> None:
    make(namespace, 2)
    with kubelet(namespace):
        until(namespace, DEPLOYMENTS, "web", complete)
        change(namespace, template=image("two"))
        until(namespace, DEPLOYMENTS, "web", complete)
        change(namespace, template=image("one"))
        done = until(namespace, DEPLOYMENTS, "web", complete)
    assert done["metadata"]["annotations"][REVISION] == "3"
    second, third = sets(namespace)
    assert third["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
    assert (second["spec"]["replicas"], third["spec"]["replicas"]) == (0, 2)


def test_recreate_has_no_two_versions_at_once(namespace: Namespace) -> None:
    make(namespace, 2, strategy={"type": "Recreate"})
    images: set[frozenset[str]] = set()

    def watched(pod: Obj) -> Obj:
        images.add(frozenset(one["spec"]["containers"][0]["image"] for one in pods_of(namespace, app="web")))
        return running(pod)

    with kubelet(namespace, watched):
        until(namespace, DEPLOYMENTS, "web", complete)
        change(namespace, template=image("two"))
        until(namespace, DEPLOYMENTS, "web", complete)
    assert images <= {frozenset({"one"}), frozenset({"two"}), frozenset()}


def test_a_paused_deployment_scales_without_a_rollout(namespace: Namespace) -> None:
    make(namespace, 1)
    with kubelet(namespace):
        until(namespace, DEPLOYMENTS, "web", complete)
        change(namespace, paused=True)
        until(
            namespace, DEPLOYMENTS, "web", lambda one: condition(one, "Progressing").get("reason") == "DeploymentPaused"
        )
        change(namespace, replicas=2, template=image("two"))
        until(
            namespace, DEPLOYMENTS, "web",
            lambda one: one["status"].get("availableReplicas") == 2 and one["status"]["observedGeneration"] == 3,
        )  # fmt: skip
        assert len(sets(namespace)) == 1
        change(namespace, paused=False)
        until(namespace, DEPLOYMENTS, "web", complete)
    assert {pod["spec"]["containers"][0]["image"] for pod in pods_of(namespace, app="web")} == {"two"}


def test_a_rollout_without_progress_is_reported(namespace: Namespace) -> None:
    make(namespace, 1, progressDeadlineSeconds=1)
    stuck = until(
        namespace, DEPLOYMENTS, "web",
        lambda one: condition(one, "Progressing").get("reason") == "ProgressDeadlineExceeded",
    )  # fmt: skip
    progress = condition(stuck, "Progressing")
    assert progress["status"] == "False"
    assert progress["message"].endswith("has timed out progressing.")
    assert condition(stuck, "Available")["reason"] == "MinimumReplicasUnavailable"
    assert stuck["status"]["unavailableReplicas"] == 1


def test_history_is_as_long_as_wanted(namespace: Namespace) -> None:
    make(namespace, 1, revisionHistoryLimit=1)
    with kubelet(namespace):
        until(namespace, DEPLOYMENTS, "web", complete)
        for name in ("two", "three", "four"):
            change(namespace, template=image(name))
            until(namespace, DEPLOYMENTS, "web", complete)
        until(namespace, DEPLOYMENTS, "web", lambda _: len(sets(namespace)) <= 2)
    assert [one["metadata"]["annotations"][REVISION] for one in sets(namespace)] == ["3", "4"]


def test_scaling_amid_a_rollout_is_proportional(namespace: Namespace) -> None:
    make(namespace, 10, strategy={"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}})

    def only_old(pod: Obj) -> Obj | None:
        return running(pod) if pod["spec"]["containers"][0]["image"] == "one" else None

    with kubelet(namespace, only_old):
        until(namespace, DEPLOYMENTS, "web", complete)
        change(namespace, template=image("two"))
        until(namespace, DEPLOYMENTS, "web", lambda one: one["status"].get("replicas") == 13)
        until(namespace, DEPLOYMENTS, "web", lambda _: [one["spec"]["replicas"] for one in sets(namespace)] == [8, 5])
        change(namespace, replicas=15)
        until(namespace, DEPLOYMENTS, "web", lambda _: [one["spec"]["replicas"] for one in sets(namespace)] == [11, 7])


def test_an_old_replica_set_is_adopted(namespace: Namespace) -> None:
    body = {
        "metadata": {"name": "old", "labels": {"app": "web"}, "annotations": {REVISION: "7"}},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template(app="web")},
    }
    namespace.cluster.create(namespace.path(SETS), body).ok()
    until(namespace, SETS, "old", lambda one: one.get("status", {}).get("observedGeneration"))  # controllers know it
    make(namespace, 1)
    with kubelet(namespace):
        until(namespace, DEPLOYMENTS, "web", complete)
    (adopted,) = sets(namespace)
    assert adopted["metadata"]["name"] == "old"
    assert adopted["metadata"]["ownerReferences"][0]["name"] == "web"
