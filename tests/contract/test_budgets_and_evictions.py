"""PodDisruptionBudgets' rules, and evictions that no budget holds up."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.support import Namespace, Obj, pod

BUDGETS = "poddisruptionbudgets.v1.policy"


def eviction(name: str, **options: Any) -> Obj:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return body | ({"deleteOptions": options} if options else {})


@pytest.mark.parametrize(
    ("spec", "broken"),
    [
        ({"minAvailable": 1, "maxUnavailable": 1}, "spec"),
        ({"minAvailable": -1}, "spec.minAvailable"),
        ({"minAvailable": "x%"}, "spec.minAvailable"),
        ({"maxUnavailable": "120%"}, "spec.maxUnavailable"),
        ({"unhealthyPodEvictionPolicy": "Some"}, "spec.unhealthyPodEvictionPolicy"),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Some"}]}},
            "spec.selector.matchExpressions[0].operator",
        ),
    ],
)
def test_rules_of_budgets(namespace: Namespace, spec: Obj, broken: str) -> None:
    answer = namespace.cluster.create(namespace.path(BUDGETS), {"metadata": {"name": "b"}, "spec": spec})
    status = answer.refused(422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == [broken]


def test_an_eviction_names_its_pod(namespace: Namespace) -> None:
    namespace.pod("p")
    path = namespace.path("pods", "p", "eviction")
    for name in ("", "q"):
        status = namespace.cluster.create(path, eviction(name)).refused(400, "BadRequest")
        assert status["message"] == "name in URL does not match name in Eviction object"
    absent = namespace.path("pods", "absent", "eviction")
    namespace.cluster.create(absent, eviction("absent")).refused(404, "NotFound")


def test_an_eviction_that_is_only_tried(namespace: Namespace) -> None:
    namespace.pod("p")
    path = namespace.path("pods", "p", "eviction")
    assert namespace.cluster.create(path, eviction("p"), dryRun="All").code == 201
    assert namespace.cluster.create(path, eviction("p", dryRun=["All"])).code == 201
    other = eviction("p", preconditions={"uid": "11111111-2222-3333-4444-555555555555"})
    namespace.cluster.create(path, other).refused(409, "Conflict")
    assert "deletionTimestamp" not in namespace.cluster.get(namespace.path("pods", "p")).ok()["metadata"]


def test_an_eviction_deletes(namespace: Namespace) -> None:
    namespace.pod("p")
    namespace.bind("p", "node-1").ok()
    path = namespace.path("pods", "p", "eviction")
    answer = namespace.cluster.create(path, eviction("p", gracePeriodSeconds=7))
    assert (answer.code, answer.body["status"]) == (201, "Success")
    ending = namespace.cluster.get(namespace.path("pods", "p")).ok()
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 7
    (target,) = [one for one in ending["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")
    namespace.cluster.delete(namespace.path("pods", "p"), {"gracePeriodSeconds": 0}).ok()


def test_a_budget_does_not_protect_pending_pods(namespace: Namespace) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
    namespace.cluster.create(namespace.path(BUDGETS), {"metadata": {"name": "b"}, "spec": spec}).ok()
    body = pod("p")
    body["metadata"]["labels"] = {"app": "a"}
    namespace.cluster.create(namespace.path("pods"), body).ok()
    assert namespace.cluster.create(namespace.path("pods", "p", "eviction"), eviction("p")).code == 201
