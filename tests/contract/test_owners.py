"""What is owned goes with its owner, before or after it, or stays; and namespaces, which own all that is in them."""

from __future__ import annotations

from typing import Any

from tests.contract.support import Namespace, Obj, gone, unique


def owned(namespace: Namespace, name: str, owner: Obj, **more: Any) -> Obj:
    """A Secret with an owner."""
    meta = owner["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": meta["name"], "uid": meta["uid"], **more}
    body = {"metadata": {"name": name, "ownerReferences": [reference]}}
    return namespace.cluster.create(namespace.path("secrets"), body).ok()


def test_background_deletion_removes_the_owner_first(namespace: Namespace) -> None:
    owner = namespace.config_map("owner")
    owned(namespace, "a", owner)
    answered = namespace.cluster.delete(namespace.path("configmaps", "owner"), {"propagationPolicy": "Background"})
    assert answered.ok()["status"] == "Success"
    assert namespace.cluster.get(namespace.path("configmaps", "owner")).code == 404
    gone(namespace.cluster, namespace.path("secrets", "a"))


def test_foreground_deletion_removes_the_owner_last(namespace: Namespace) -> None:
    owner = namespace.config_map("owner")
    held = owned(namespace, "a", owner, blockOwnerDeletion=True)
    change = {"metadata": {"finalizers": ["example.com/hold"]}}
    namespace.cluster.patch(namespace.path("secrets", "a"), change).ok()
    path = namespace.path("configmaps", "owner")
    answered = namespace.cluster.delete(path, {"propagationPolicy": "Foreground"}).ok()
    assert answered["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert answered["metadata"]["deletionTimestamp"]
    query = {"fieldSelector": "metadata.name=a", "resourceVersion": held["metadata"]["resourceVersion"]}
    with namespace.cluster.watch(namespace.path("secrets"), **query) as events:
        assert any(event["object"]["metadata"].get("deletionTimestamp") for event in events)
    assert namespace.cluster.get(path).code == 200, "it waits for what it owns"
    namespace.cluster.patch(namespace.path("secrets", "a"), {"metadata": {"finalizers": None}}).ok()
    gone(namespace.cluster, path)


def test_orphans_lose_their_reference(namespace: Namespace) -> None:
    owner = namespace.config_map("owner")
    start = owned(namespace, "a", owner)["metadata"]["resourceVersion"]
    namespace.cluster.delete(namespace.path("configmaps", "owner"), {"propagationPolicy": "Orphan"}).ok()
    query = {"fieldSelector": "metadata.name=a", "resourceVersion": start}
    with namespace.cluster.watch(namespace.path("secrets"), **query) as events:
        event = next(events)
    assert (event["type"], event["object"]["metadata"].get("ownerReferences")) == ("MODIFIED", None)
    gone(namespace.cluster, namespace.path("configmaps", "owner"))
    assert namespace.cluster.get(namespace.path("secrets", "a")).code == 200


def test_one_owner_of_two_is_enough(namespace: Namespace) -> None:
    first, second = namespace.config_map("first"), namespace.config_map("second")
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": one["metadata"]["name"], "uid": one["metadata"]["uid"]}
        for one in (first, second)
    ]
    body = {"metadata": {"name": "a", "ownerReferences": references}}
    start = namespace.cluster.create(namespace.path("secrets"), body).ok()["metadata"]["resourceVersion"]
    namespace.cluster.delete(namespace.path("configmaps", "first")).ok()
    query = {"fieldSelector": "metadata.name=a", "resourceVersion": start}
    with namespace.cluster.watch(namespace.path("secrets"), **query) as events:
        event = next(events)
    assert event["type"] == "MODIFIED"
    assert [one["name"] for one in event["object"]["metadata"]["ownerReferences"]] == ["second"]


def test_objects_of_a_missing_owner_are_deleted(namespace: Namespace) -> None:
    never = {"metadata": {"name": "never", "uid": "11111111-2222-3333-4444-555555555555"}}
    owned(namespace, "a", never)
    gone(namespace.cluster, namespace.path("secrets", "a"))


def test_a_namespace_ends_in_order(namespace: Namespace) -> None:
    cluster, name = namespace.cluster, unique("ending")
    path = f"/api/v1/namespaces/{name}"
    made = cluster.create("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
    assert (made["spec"]["finalizers"], made["status"]["phase"]) == (["kubernetes"], "Active")
    assert made["metadata"]["labels"]["kubernetes.io/metadata.name"] == name
    held = {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}}
    cluster.create(f"{path}/configmaps", held).ok()
    ending = cluster.delete(path).ok()
    assert (ending["status"]["phase"], ending["spec"]["finalizers"]) == ("Terminating", ["kubernetes"])
    refused = cluster.create(f"{path}/configmaps", {"metadata": {"name": "late"}}).refused(403, "Forbidden")
    assert refused["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    with cluster.watch(f"{path}/configmaps", fieldSelector="metadata.name=a") as events:
        assert any(event["object"]["metadata"].get("deletionTimestamp") for event in events)
    assert cluster.get(path).code == 200
    cluster.patch(f"{path}/configmaps/a", {"metadata": {"finalizers": None}}).ok()
    gone(cluster, path)


def test_writes_do_not_change_the_finalizers_of_a_namespace(namespace: Namespace) -> None:
    patched = namespace.cluster.patch(f"/api/v1/namespaces/{namespace.name}", {"spec": {"finalizers": []}}).ok()
    assert patched["spec"]["finalizers"] == ["kubernetes"]


def test_the_default_namespace_stays(namespace: Namespace) -> None:
    status = namespace.cluster.delete("/api/v1/namespaces/default").refused(403, "Forbidden")
    assert "this namespace may not be deleted" in status["message"]
