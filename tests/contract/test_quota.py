"""ResourceQuota: what counts, what is refused, and what `status.used` says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.contract.support import Answer, Namespace, Obj, config_map, eventually, pod, unique


def quota(name: str, hard: Obj, **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}


def limited(namespace: Namespace, hard: Obj, name: str = "q", **spec: Any) -> str:
    """Store a quota and wait until it is in force; returns its path."""
    path = namespace.path("resourcequotas", name)
    namespace.cluster.create(namespace.path("resourcequotas"), quota(name, hard, **spec)).ok()
    wait_for_status(
        namespace, path, lambda status: status.get("hard") == hard and set(status.get("used", ())) == set(hard)
    )
    wait_until_admission_knows(namespace)
    return path


def wait_until_admission_knows(namespace: Namespace) -> None:
    """Wait until admission counts for every quota that has a status by now.

    The real server's admission learns of a status by a watch of its own, later than we may, and lets objects pass
    uncounted until then. It learns in the order of the writes: once it refuses for this later quota, it knows those
    before.
    """
    namespace.cluster.create(namespace.path("resourcequotas"), quota("later", {"count/podtemplates": "0"})).ok()
    templates, template = namespace.path("podtemplates"), {"metadata": {"name": "probe"}, "template": pod("probe")}
    eventually(lambda: namespace.cluster.create(templates, template, dryRun="All").code == 403 or None)


def wait_for_status(namespace: Namespace, path: str, done: Any) -> Obj:
    """Return the quota's status once it is as expected, by watching."""
    name = path.rpartition("/")[2]
    with namespace.cluster.watch(namespace.path("resourcequotas"), fieldSelector=f"metadata.name={name}") as events:
        for event in events:
            status: Obj = event["object"].get("status", {})
            if done(status):
                return status
    pytest.fail("the status never came to that")


def used(namespace: Namespace, path: str) -> Obj:
    found: Obj = namespace.cluster.get(path).ok()["status"]["used"]
    return found


def asking(name: str, requests: Obj | None = None, limits: Obj | None = None, **spec: Any) -> Obj:
    body = pod(name, **spec)
    body["spec"]["containers"][0]["resources"] = {"requests": requests or {}, "limits": limits or {}}
    return body


def refusal(answer: Answer) -> str:
    return str(answer.refused(403, "Forbidden")["message"])


def create_pod(namespace: Namespace, body: Obj) -> Answer:
    return namespace.cluster.create(namespace.path("pods"), body)


def test_pods_are_counted_and_released(namespace: Namespace) -> None:
    path = limited(namespace, {"pods": "2", "count/pods": "5"})
    for name in ("a", "b"):
        create_pod(namespace, pod(name)).ok()
    assert used(namespace, path) == {"pods": "2", "count/pods": "2"}
    text = 'pods "c" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
    assert refusal(create_pod(namespace, pod("c"))) == text
    namespace.cluster.patch(namespace.path("pods", "a", "status"), {"status": {"phase": "Succeeded"}}).ok()
    wait_for_status(namespace, path, lambda status: status["used"] == {"pods": "1", "count/pods": "2"})
    # the real server's admission learns of the freed quota a moment after its status is there
    eventually(lambda: create_pod(namespace, pod("c")).code == 201 or None)
    namespace.cluster.delete(namespace.path("pods", "b")).ok()
    wait_for_status(namespace, path, lambda status: status["used"] == {"pods": "1", "count/pods": "2"})


def test_compute_resources(namespace: Namespace) -> None:
    path = limited(namespace, {"requests.cpu": "1", "limits.memory": "1Gi", "requests.nvidia.com/gpu": "1"})
    text = 'pods "a" is forbidden: failed quota: q: must specify limits.memory for: main; requests.cpu for: main'
    assert refusal(create_pod(namespace, pod("a"))) == text
    create_pod(namespace, asking("a", {"cpu": "500m"}, {"memory": "512Mi"})).ok()
    counted = {"requests.cpu": "500m", "limits.memory": "512Mi", "requests.nvidia.com/gpu": "0"}
    assert used(namespace, path) == counted
    answer = create_pod(namespace, asking("b", {"cpu": "600m"}, {"memory": "768Mi"}))
    assert refusal(answer) == (
        'pods "b" is forbidden: exceeded quota: q, requested: limits.memory=768Mi,requests.cpu=600m, '
        "used: limits.memory=512Mi,requests.cpu=500m, limited: limits.memory=1Gi,requests.cpu=1"
    )
    gpus = {"nvidia.com/gpu": "2"}
    answer = create_pod(namespace, asking("b", {"cpu": "1m"} | gpus, {"memory": "1Mi"} | gpus))
    assert "requested: requests.nvidia.com/gpu=2, used: requests.nvidia.com/gpu=0" in refusal(answer)
    assert used(namespace, path) == counted


def test_a_dry_run_is_checked_against_quotas_and_not_counted(namespace: Namespace) -> None:
    path = limited(namespace, {"secrets": "1"})
    secrets = namespace.path("secrets")
    namespace.cluster.create(secrets, {"metadata": {"name": "a"}}, dryRun="All").ok()
    namespace.cluster.create(secrets, {"metadata": {"name": "a"}}).ok()
    answer = namespace.cluster.create(secrets, {"metadata": {"name": "b"}}, dryRun="All")
    assert "exceeded quota: q, requested: secrets=1, used: secrets=1, limited: secrets=1" in refusal(answer)
    assert used(namespace, path) == {"secrets": "1"}


def test_objects_of_any_kind_are_counted(namespace: Namespace) -> None:
    name = "count/widgets.contract.volcanoio.dev"
    hard = {"count/leases.coordination.k8s.io": "1", name: "0"}
    path = limited(namespace, hard)
    leases = namespace.path("leases.v1.coordination.k8s.io")
    namespace.cluster.create(leases, {"metadata": {"name": "a"}}).ok()
    assert "exceeded quota" in refusal(namespace.cluster.create(leases, {"metadata": {"name": "b"}}))
    assert used(namespace, path)["count/leases.coordination.k8s.io"] == "1"
    namespace.cluster.delete(f"{leases}/a").ok()
    wait_for_status(namespace, path, lambda status: status["used"]["count/leases.coordination.k8s.io"] == "0")


def claim(name: str, storage: str, class_: str = "none") -> Obj:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": class_}
    return {"metadata": {"name": name}, "spec": spec | {"resources": {"requests": {"storage": storage}}}}


def test_storage(namespace: Namespace) -> None:
    per_class = "fast.storageclass.storage.k8s.io/requests.storage"
    path = limited(namespace, {"requests.storage": "3Gi", "persistentvolumeclaims": "2", per_class: "1Gi"})
    claims = namespace.path("persistentvolumeclaims")
    assert "requested: requests.storage=4Gi" in refusal(namespace.cluster.create(claims, claim("a", "4Gi")))
    assert f"requested: {per_class}=2Gi" in refusal(namespace.cluster.create(claims, claim("a", "2Gi", "fast")))
    namespace.cluster.create(claims, claim("a", "1Gi", "fast")).ok()
    namespace.cluster.create(claims, claim("b", "1Gi")).ok()
    assert used(namespace, path) == {"requests.storage": "2Gi", "persistentvolumeclaims": "2", per_class: "1Gi"}
    assert "persistentvolumeclaims=1" in refusal(namespace.cluster.create(claims, claim("c", "1Mi")))


def test_services(namespace: Namespace) -> None:
    path = limited(namespace, {"services": "2", "services.nodeports": "1", "services.loadbalancers": "0"})
    services = namespace.path("services")

    def service(name: str, type_: str, ports: int) -> Obj:
        found = [{"port": 80 + at, "name": f"p{at}"} for at in range(ports)]
        return {"metadata": {"name": name}, "spec": {"type": type_, "ports": found}}

    namespace.cluster.create(services, service("a", "ClusterIP", 3)).ok()
    assert used(namespace, path)["services.nodeports"] == "0"
    assert "services.nodeports=2" in refusal(namespace.cluster.create(services, service("b", "NodePort", 2)))
    assert "services.loadbalancers=1" in refusal(namespace.cluster.create(services, service("b", "LoadBalancer", 1)))


SCOPES: list[tuple[Obj, Obj, bool]] = [
    ({"scopes": ["BestEffort"]}, {}, True),
    ({"scopes": ["NotBestEffort"]}, {}, False),
    ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 60}, True),
    ({"scopes": ["NotTerminating"]}, {"activeDeadlineSeconds": 60}, False),
]


@pytest.mark.parametrize(("scopes", "spec", "counts"), SCOPES)
def test_scopes(namespace: Namespace, scopes: Obj, spec: Obj, counts: bool) -> None:
    path = limited(namespace, {"pods": "0"}, **scopes)
    answer = create_pod(namespace, pod("a", **spec))
    assert (answer.code == 403) == counts, answer.body
    assert used(namespace, path) == {"pods": "0"}


def test_a_scope_of_priority_classes(namespace: Namespace) -> None:
    expression = {"scopeName": "PriorityClass", "operator": "In", "values": ["system-cluster-critical"]}
    limited(namespace, {"pods": "0"}, scopeSelector={"matchExpressions": [expression]})
    create_pod(namespace, pod("a")).ok()
    answer = create_pod(namespace, pod("b", priorityClassName="system-cluster-critical"))
    assert "exceeded quota: q" in refusal(answer)


def test_existing_objects_count(namespace: Namespace) -> None:
    namespace.config_map("a")
    namespace.pod("p")
    path = namespace.path("resourcequotas", "late")
    namespace.cluster.create(namespace.path("resourcequotas"), quota("late", {"pods": "1"})).ok()
    wait_for_status(namespace, path, lambda status: status.get("used") == {"pods": "1"})
    wait_until_admission_knows(namespace)
    answer = create_pod(namespace, pod("q"))
    assert "exceeded quota: late" in refusal(answer)
    wait_for_status(namespace, path, lambda status: status.get("used") == {"pods": "1"})
    namespace.cluster.patch(path, {"spec": {"hard": {"pods": "2"}}}).ok()
    wait_for_status(namespace, path, lambda status: status.get("hard") == {"pods": "2"})
    create_pod(namespace, pod("q")).ok()
    namespace.cluster.delete(path).ok()
    for _ in range(100):  # the real server learns of it a moment later
        if create_pod(namespace, pod(unique("free"))).code == 201:
            return
    pytest.fail("a deleted quota is still in force")


def test_creates_at_once_never_exceed_a_quota_together(namespace: Namespace) -> None:
    path = limited(namespace, {"count/leases.coordination.k8s.io": "7"})
    leases = namespace.path("leases.v1.coordination.k8s.io")

    def create(at: int) -> int:
        return namespace.cluster.create(leases, {"metadata": {"name": f"a{at}"}}).code

    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(create, range(24)))
    assert sorted(set(codes)) == [201, 403]
    assert codes.count(201) == 7
    assert used(namespace, path) == {"count/leases.coordination.k8s.io": "7"}


WRONG: list[tuple[Obj, str]] = [
    ({"hard": {"foo": "1"}}, "spec.hard[foo]"),
    ({"hard": {"pods": "1500m"}}, "spec.hard[pods]"),
    ({"hard": {"pods": "-1"}}, "spec.hard[pods]"),
    ({"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort"]}, "spec.scopes"),
    ({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]}, "spec.scopes"),
    ({"hard": {"pods": "1"}, "scopes": ["Other"]}, "spec.scopes"),
    (
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}},
        "spec.scopeSelector.matchExpressions.values",
    ),
    (
        {"scopeSelector": {"matchExpressions": [{"scopeName": "BestEffort", "operator": "DoesNotExist"}]}},
        "spec.scopeSelector.matchExpressions.operator",
    ),
]


@pytest.mark.parametrize(("spec", "field"), WRONG)
def test_a_quota_must_be_right(namespace: Namespace, spec: Obj, field: str) -> None:
    answer = namespace.cluster.create(namespace.path("resourcequotas"), {"metadata": {"name": "q"}, "spec": spec})
    assert answer.refused(422, "Invalid")["details"]["causes"][0]["field"] == field


def test_scopes_stay(namespace: Namespace) -> None:
    path = limited(namespace, {"pods": "1"})
    answer = namespace.cluster.patch(path, {"spec": {"scopes": ["BestEffort"]}})
    [cause] = answer.refused(422, "Invalid")["details"]["causes"]
    assert (cause["field"], cause["message"]) == ("spec.scopes", 'Invalid value: ["BestEffort"]: field is immutable')


def test_no_quota_no_limit(namespace: Namespace) -> None:
    assert namespace.cluster.create(namespace.path("configmaps"), config_map("a")).code == 201
