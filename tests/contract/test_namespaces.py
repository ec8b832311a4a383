"""Namespaces from their first object to their last: what a new one has, and what holds one that shall go."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.support import Cluster, Namespace, Obj, config_map, gone, unique

NAMESPACES = "/api/v1/namespaces"


@pytest.fixture
def name(cluster: Cluster) -> Iterator[str]:
    """A namespace that a test deletes by itself."""
    found = unique("space")
    yield found
    cluster.delete(f"{NAMESPACES}/{found}")


def until(cluster: Cluster, name: str, type_: str, status: str) -> Obj:
    """A condition of a namespace, once it has this status."""
    with cluster.watch(NAMESPACES, fieldSelector=f"metadata.name={name}") as events:
        for event in events:
            for one in event["object"].get("status", {}).get("conditions", ()):
                if (one["type"], one["status"]) == (type_, status):
                    return dict(one)
    pytest.fail("the condition never came")


def test_a_new_namespace(cluster: Cluster, name: str) -> None:
    made = cluster.create(NAMESPACES, {"metadata": {"name": name}}).ok()
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["status"] == {"phase": "Active"}
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": name}


def test_an_object_with_a_finalizer_keeps_its_namespace(cluster: Cluster, name: str) -> None:
    cluster.create(NAMESPACES, {"metadata": {"name": name}}).ok()
    body = config_map("held")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.create(f"{NAMESPACES}/{name}/configmaps", body).ok()
    deleting = cluster.delete(f"{NAMESPACES}/{name}").ok()
    assert deleting["status"]["phase"] == "Terminating"
    remaining = until(cluster, name, "NamespaceContentRemaining", "True")
    assert remaining["reason"] == "SomeResourcesRemain"
    assert remaining["message"] == "Some resources are remaining: configmaps. has 1 resource instances"
    held = until(cluster, name, "NamespaceFinalizersRemaining", "True")
    assert held["reason"] == "SomeFinalizersRemain"
    text = "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    assert held["message"] == text
    refused = cluster.create(f"{NAMESPACES}/{name}/configmaps", config_map("late")).refused(403, "Forbidden")
    assert refused["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    cluster.patch(f"{NAMESPACES}/{name}/configmaps/held", {"metadata": {"finalizers": None}}).ok()
    gone(cluster, f"{NAMESPACES}/{name}")


def test_finalizers_of_the_spec(cluster: Cluster, name: str) -> None:
    """A namespace with another finalizer waits until its owner removes it."""
    made = cluster.create(NAMESPACES, {"metadata": {"name": name}, "spec": {"finalizers": ["example.com/mine"]}}).ok()
    assert set(made["spec"]["finalizers"]) == {"kubernetes", "example.com/mine"}
    cluster.delete(f"{NAMESPACES}/{name}").ok()
    with cluster.watch(NAMESPACES, fieldSelector=f"metadata.name={name}") as events:
        left = next(one["object"] for one in events if one["object"]["spec"]["finalizers"] == ["example.com/mine"])
    assert left["status"]["phase"] == "Terminating"
    body = {"metadata": {"name": name}, "spec": {"finalizers": []}}
    cluster.replace(f"{NAMESPACES}/{name}/finalize", body).ok()
    gone(cluster, f"{NAMESPACES}/{name}")


def test_finalize_changes_finalizers_alone(namespace: Namespace) -> None:
    cluster, path = namespace.cluster, f"{NAMESPACES}/{namespace.name}"
    added = ["kubernetes", "example.com/mine"]
    metadata = {"name": namespace.name, "labels": {"not": "stored"}}
    changed = cluster.replace(f"{path}/finalize", {"metadata": metadata, "spec": {"finalizers": added}}).ok()
    assert changed["spec"]["finalizers"] == added
    wrong = cluster.replace(f"{path}/finalize", {"metadata": metadata, "spec": {"finalizers": ["mine"]}})
    assert wrong.refused(422, "Invalid")["details"]["causes"][0]["field"].startswith("spec.finalizers")
    cluster.patch(path, {"spec": {"finalizers": []}}).ok()
    assert cluster.get(path).ok()["spec"]["finalizers"] == added
    cluster.replace(f"{path}/finalize", {"metadata": metadata, "spec": {"finalizers": ["kubernetes"]}}).ok()


def test_some_namespaces_stay(cluster: Cluster) -> None:
    for one in ("default", "kube-system", "kube-public"):
        status = cluster.delete(f"{NAMESPACES}/{one}", dryRun="All").refused(403, "Forbidden")
        assert status["message"] == f'namespaces "{one}" is forbidden: this namespace may not be deleted'
