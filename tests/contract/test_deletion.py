"""Deleting: at once, after finalizers, after a grace period, with preconditions, and with an owner."""

from __future__ import annotations

from typing import Any

from tests.contract.support import Answer, Namespace, Obj, config_map, gone, unique


def options(**fields: Any) -> Obj:
    return {"kind": "DeleteOptions", "apiVersion": "v1", **fields}


def test_a_deletion_answers_with_status_and_uid(namespace: Namespace) -> None:
    created = namespace.config_map("a")
    status = namespace.cluster.delete(namespace.path("configmaps", "a")).ok()
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"]["uid"] == created["metadata"]["uid"]
    namespace.cluster.get(namespace.path("configmaps", "a")).refused(404, "NotFound")


def test_preconditions(namespace: Namespace) -> None:
    created = namespace.config_map("a")
    path = namespace.path("configmaps", "a")

    def delete_if(**conditions: str) -> Answer:
        return namespace.cluster.delete(path, options(preconditions=conditions))

    delete_if(uid="11111111-2222-3333-4444-555555555555").refused(409, "Conflict")
    delete_if(resourceVersion="1").refused(409, "Conflict")
    delete_if(uid=created["metadata"]["uid"], resourceVersion=created["metadata"]["resourceVersion"]).ok()
    namespace.cluster.get(path).refused(404, "NotFound")


def test_finalizers_hold_an_object(namespace: Namespace) -> None:
    body = config_map("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    namespace.cluster.create(namespace.path("configmaps"), body).ok()
    path = namespace.path("configmaps", "a")
    held = namespace.cluster.delete(path).ok()
    assert held["metadata"]["deletionTimestamp"]
    assert namespace.cluster.get(path).ok()["metadata"]["finalizers"] == ["example.com/hold"]
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    namespace.cluster.patch(path, more).refused(422, "Invalid")
    namespace.cluster.patch(path, {"metadata": {"finalizers": None}}).ok()
    namespace.cluster.get(path).refused(404, "NotFound")


def test_an_unbound_pod_is_deleted_at_once(namespace: Namespace) -> None:
    namespace.pod("p")
    namespace.cluster.delete(namespace.path("pods", "p")).ok()
    namespace.cluster.get(namespace.path("pods", "p")).refused(404, "NotFound")


def test_a_bound_pod_is_given_its_grace_period(namespace: Namespace) -> None:
    namespace.pod("p", terminationGracePeriodSeconds=20)
    namespace.bind("p", "node-1").ok()
    path = namespace.path("pods", "p")
    deleting = namespace.cluster.delete(path).ok()
    assert deleting["metadata"]["deletionTimestamp"]
    assert deleting["metadata"]["deletionGracePeriodSeconds"] == 20
    namespace.bind("p", "node-2").refused(409, "Conflict")
    shorter = namespace.cluster.delete(path, options(gracePeriodSeconds=5)).ok()
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    uid = deleting["metadata"]["uid"]
    namespace.cluster.delete(path, options(gracePeriodSeconds=0, preconditions={"uid": uid})).ok()
    namespace.cluster.get(path).refused(404, "NotFound")


def test_a_collection_by_selector(namespace: Namespace) -> None:
    namespace.config_map("a", {"drop": "yes"})
    namespace.config_map("b", {"drop": "no"})
    namespace.cluster.delete(namespace.path("configmaps"), labelSelector="drop=yes").ok()
    namespace.cluster.get(namespace.path("configmaps", "a")).refused(404, "NotFound")
    namespace.cluster.get(namespace.path("configmaps", "b")).ok()


def test_owned_objects_are_deleted_with_their_owner(namespace: Namespace) -> None:
    owner = namespace.config_map("owner")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    child = config_map("child")
    child["metadata"]["ownerReferences"] = [reference]
    namespace.cluster.create(namespace.path("configmaps"), child).ok()
    namespace.cluster.delete(namespace.path("configmaps", "owner"), options(propagationPolicy="Background")).ok()
    gone(namespace.cluster, namespace.path("configmaps", "child"))


def test_objects_with_an_owner_of_unknown_kind_are_kept(namespace: Namespace) -> None:
    """Only of a kind that is served can it be known that an owner is not there."""
    missing = unique("missing")
    for name, api_version, kind in (("kept", "ray.io/v1", "RayCluster"), ("lost", "v1", "ConfigMap")):
        child = config_map(name)
        child["metadata"]["ownerReferences"] = [
            {"apiVersion": api_version, "kind": kind, "name": missing, "uid": "11111111-1111-1111-1111-111111111111"}
        ]
        namespace.cluster.create(namespace.path("configmaps"), child).ok()
    gone(namespace.cluster, namespace.path("configmaps", "lost"))
    namespace.cluster.get(namespace.path("configmaps", "kept")).ok()


def test_orphans_stay(namespace: Namespace) -> None:
    owner = namespace.config_map("owner")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    child = config_map("child")
    child["metadata"]["ownerReferences"] = [reference]
    namespace.cluster.create(namespace.path("configmaps"), child).ok()
    namespace.cluster.delete(namespace.path("configmaps", "owner"), options(propagationPolicy="Orphan")).ok()
    gone(namespace.cluster, namespace.path("configmaps", "owner"))
    assert not namespace.cluster.get(namespace.path("configmaps", "child")).ok()["metadata"].get("ownerReferences")


def test_a_namespace_is_deleted_with_its_objects(namespace: Namespace) -> None:
    name = unique("deleted")
    cluster = namespace.cluster
    cluster.create("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
    cluster.create(f"/api/v1/namespaces/{name}/configmaps", config_map("a")).ok()
    cluster.delete(f"/api/v1/namespaces/{name}").ok()
    gone(namespace.cluster, f"/api/v1/namespaces/{name}")
    assert cluster.get("/api/v1/configmaps", fieldSelector=f"metadata.namespace={name}").ok()["items"] == []


def test_a_pod_of_a_missing_node_is_deleted_at_once(namespace: Namespace) -> None:
    start = namespace.pod("p")["metadata"]["resourceVersion"]
    with namespace.cluster.watch(namespace.path("pods"), resourceVersion=start) as events:
        answered = namespace.cluster.delete(namespace.path("pods", "p")).ok()
        seen = [next(events) for _ in range(2)]
    assert answered["kind"] == "Pod", "a Pod answers with its last state, where other kinds answer with a Status"
    assert [event["type"] for event in seen] == ["MODIFIED", "DELETED"]
    for event in seen:
        assert event["object"]["metadata"]["deletionGracePeriodSeconds"] == 0
        assert event["object"]["metadata"]["deletionTimestamp"] == answered["metadata"]["deletionTimestamp"]


def test_a_second_deletion_shortens_the_grace_period(namespace: Namespace) -> None:
    namespace.pod("p")
    namespace.bind("p", "node-1").ok()
    path = namespace.path("pods", "p")
    start = namespace.cluster.get(path).ok()["metadata"]["resourceVersion"]
    with namespace.cluster.watch(namespace.path("pods"), resourceVersion=start) as events:
        for grace in (20, 30, 10, 0):
            namespace.cluster.delete(path, {"gracePeriodSeconds": grace}).ok()
        seen = [next(events) for _ in range(4)]
    reported = [(event["type"], event["object"]["metadata"]["deletionGracePeriodSeconds"]) for event in seen]
    assert reported == [("MODIFIED", 20), ("MODIFIED", 10), ("MODIFIED", 0), ("DELETED", 0)], "30 changes nothing"


def test_a_terminating_object_blocks_its_name(namespace: Namespace) -> None:
    held = config_map("a")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    namespace.cluster.create(namespace.path("configmaps"), held).ok()
    namespace.cluster.delete(namespace.path("configmaps", "a")).ok()
    status = namespace.cluster.create(namespace.path("configmaps"), config_map("a")).refused(409, "AlreadyExists")
    assert status["message"] == 'object is being deleted: configmaps "a" already exists'
    namespace.cluster.patch(namespace.path("configmaps", "a"), {"metadata": {"finalizers": None}}).ok()
