"""Disruption budgets: what may be evicted, and when."""

from __future__ import annotations

from typing import Any

from tests.contract.kubelet import kubelet, pods_of, running, template, until
from tests.contract.support import Answer, Namespace, Obj

BUDGETS, SETS = "poddisruptionbudgets.v1.policy", "replicasets.v1.apps"


def budget(namespace: Namespace, **spec: Any) -> Obj:
    """A budget for pods labelled app=rs."""
    body = {"metadata": {"name": "pdb"}, "spec": {"selector": {"matchLabels": {"app": "rs"}}, **spec}}
    return namespace.cluster.create(namespace.path(BUDGETS), body).ok()


def replica_set(namespace: Namespace, replicas: int) -> Obj:
    """Pods labelled app=rs."""
    selector = {"matchLabels": {"app": "rs"}}
    spec = {"replicas": replicas, "selector": selector, "template": template(app="rs")}
    return namespace.cluster.create(namespace.path(SETS), {"metadata": {"name": "rs"}, "spec": spec}).ok()


def evict(namespace: Namespace, name: str) -> Answer:
    """Ask for a pod's eviction."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return namespace.cluster.create(namespace.path("pods", name, "eviction"), body)


def counts(one: Obj) -> tuple[int, ...]:
    """Healthy, desired, expected and allowed."""
    names = ("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed")
    return tuple(one.get("status", {}).get(name, -1) for name in names)


def test_a_budget_counts_healthy_pods(namespace: Namespace) -> None:
    replica_set(namespace, 3)
    budget(namespace, maxUnavailable=1)
    until(namespace, BUDGETS, "pdb", lambda one: counts(one) == (0, 2, 3, 0))
    with kubelet(namespace):
        done = until(namespace, BUDGETS, "pdb", lambda one: counts(one) == (3, 2, 3, 1))
    (condition,) = done["status"]["conditions"]
    condition.pop("lastTransitionTime")
    assert condition == {
        "type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "",
        "observedGeneration": 1,
    }  # fmt: skip
    assert done["status"]["observedGeneration"] == 1


def test_an_eviction_waits_for_the_replacement(namespace: Namespace) -> None:
    replica_set(namespace, 2)
    budget(namespace, minAvailable="50%")
    with kubelet(namespace):
        until(namespace, BUDGETS, "pdb", lambda one: counts(one) == (2, 1, 2, 1))
    first, second = pods_of(namespace, app="rs")
    evict(namespace, first["metadata"]["name"]).ok()
    until(namespace, BUDGETS, "pdb", lambda one: counts(one) == (1, 1, 2, 0))
    refused = evict(namespace, second["metadata"]["name"]).refused(429, "TooManyRequests")
    assert "retryAfterSeconds" not in refused["details"]  # clients say why they wait
    (cause,) = refused["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == "The disruption budget pdb needs 1 healthy pods and has 1 currently"
    with kubelet(namespace):
        until(namespace, BUDGETS, "pdb", lambda one: counts(one) == (2, 1, 2, 1))
    evict(namespace, second["metadata"]["name"]).ok()


def test_a_change_of_the_budget_or_of_the_scale_counts(namespace: Namespace) -> None:
    replica_set(namespace, 2)
    budget(namespace, minAvailable=2)
    with kubelet(namespace):
        until(namespace, BUDGETS, "pdb", lambda one: counts(one) == (2, 2, 2, 0))
        change = {"spec": {"minAvailable": 1}}
        namespace.cluster.patch(namespace.path(BUDGETS, "pdb"), change).ok()
        until(namespace, BUDGETS, "pdb", lambda one: counts(one) == (2, 1, 2, 1))
        namespace.cluster.patch(namespace.path(SETS, "rs"), {"spec": {"replicas": 4}}).ok()
        until(namespace, BUDGETS, "pdb", lambda one: counts(one) == (4, 1, 4, 3))


def test_unhealthy_pods_may_go_where_that_is_wanted(namespace: Namespace) -> None:
    replica_set(namespace, 1)
    budget(namespace, minAvailable=1, unhealthyPodEvictionPolicy="AlwaysAllow")

    def unready(pod: Obj) -> Obj:
        status = running(pod)
        status["conditions"][0]["status"] = "False"
        return status

    with kubelet(namespace, unready):
        until(namespace, SETS, "rs", lambda one: one["status"]["replicas"] == 1)
        until(namespace, BUDGETS, "pdb", lambda one: counts(one) == (0, 1, 1, 0))
        (pod,) = pods_of(namespace, app="rs")
        until(namespace, "pods", pod["metadata"]["name"], lambda one: one["status"]["phase"] == "Running")
        evict(namespace, pod["metadata"]["name"]).ok()


def test_a_budget_without_pods_allows_nothing(namespace: Namespace) -> None:
    budget(namespace, maxUnavailable=1)
    until(namespace, BUDGETS, "pdb", lambda one: counts(one) == (0, 0, 0, 0))
