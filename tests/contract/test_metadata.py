"""What metadata may say, on create and later."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.appliers import APPLY
from tests.contract.support import JSON_PATCH, MERGE, STRATEGIC, Cluster, Namespace, Obj, config_map, unique
from tests.contract.widgets import PLURAL, widget

UID, OTHER = "11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-000000000000"


def owner(**fields: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": UID, **fields}


def fields(status: Obj) -> list[str]:
    return [cause["field"] for cause in status["details"]["causes"]]


@pytest.mark.parametrize(
    ("metadata", "broken"),
    [
        ({"name": "A_b"}, ["metadata.name"]),
        ({"name": ""}, ["metadata.name"]),
        ({"generateName": "A_"}, ["metadata.generateName"]),
        ({"labels": {"a b": "c"}}, ["metadata.labels"]),
        ({"labels": {"a": "b c"}}, ["metadata.labels"]),
        ({"annotations": {"a b": "c"}}, ["metadata.annotations"]),
        ({"annotations": {"a": "b" * 300_000}}, ["metadata.annotations"]),
        ({"finalizers": ["x y/z"]}, ["metadata.finalizers"]),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, ["metadata.finalizers"]),
        ({"ownerReferences": [owner(uid="")]}, ["metadata.ownerReferences.uid"]),
        ({"ownerReferences": [owner(apiVersion="a/b/c")]}, ["metadata.ownerReferences.apiVersion"]),
        ({"ownerReferences": [owner(kind="Event")]}, ["metadata.ownerReferences"]),
        (
            {"ownerReferences": [owner(controller=True), owner(controller=True, uid=OTHER)]},
            ["metadata.ownerReferences"],
        ),
    ],
)
@pytest.mark.parametrize("plural", ["configmaps", PLURAL])
def test_rules_for_all_kinds(namespace: Namespace, plural: str, metadata: Obj, broken: list[str]) -> None:
    body = widget("m") if plural == PLURAL else config_map("m")
    body["metadata"] = {"name": "m", **metadata}
    assert fields(namespace.cluster.create(namespace.path(plural), body).refused(422, "Invalid")) == broken


def test_a_finalizer_of_a_built_in_kind_has_a_domain(namespace: Namespace) -> None:
    body = config_map("m")
    body["metadata"]["finalizers"] = ["mine"]
    status = namespace.cluster.create(namespace.path("configmaps"), body).refused(422, "Invalid")
    assert fields(status) == ["metadata.finalizers[0]"]


def test_a_new_object_has_no_version(namespace: Namespace) -> None:
    body = config_map("m")
    body["metadata"]["resourceVersion"] = "5"
    answer = namespace.cluster.create(namespace.path("configmaps"), body)
    assert (answer.code, answer.body["message"]) == (500, "resourceVersion should not be set on objects to be created")
    body["metadata"]["resourceVersion"] = "0"
    assert namespace.cluster.create(namespace.path("configmaps"), body).code == 201


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
@pytest.mark.parametrize(
    ("metadata", "code", "said"),
    [
        ({"name": "z"}, 400, "the name of the object (z) does not match the name on the URL (a)"),
        ({"name": None}, 400, "the name of the object (a based on URL) was undeterminable: name must be provided"),
        (
            {"namespace": "z"},
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        ({"uid": UID}, 422, "field is immutable"),
        ({"resourceVersion": "1"}, 409, "the object has been modified"),
        ({"resourceVersion": "abc"}, 500, 'strconv.ParseUint: parsing "abc": invalid syntax'),
    ],
)
def test_a_patch_keeps_the_identity_of_the_object(
    namespace: Namespace, content_type: str, metadata: Obj, code: int, said: str
) -> None:
    namespace.config_map("a")
    answer = namespace.cluster.patch(namespace.path("configmaps", "a"), {"metadata": metadata}, content_type)
    assert answer.code == code, answer.body
    assert said in answer.body["message"]


@pytest.mark.parametrize("content_type", [MERGE, APPLY])
def test_another_uid_is_reported_with_all_other_errors(namespace: Namespace, content_type: str) -> None:
    namespace.config_map("a")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": UID}, "data": {"bad key": "x"}}
    path = namespace.path("configmaps", "a")
    query: dict[str, Any] = {"fieldManager": "me", "force": "true"} if content_type == APPLY else {}
    status = namespace.cluster.request("PATCH", path, body, content_type=content_type, **query).refused(422, "Invalid")
    assert {cause["field"] for cause in status["details"]["causes"]} == {"metadata.uid", "data[bad key]"}
    alone = namespace.cluster.patch(path, {"metadata": {"uid": UID}}, MERGE).refused(422, "Invalid")
    assert {cause["field"] for cause in alone["details"]["causes"]} == {"metadata.uid"}


def test_a_replacement_is_of_the_object_at_the_path(namespace: Namespace) -> None:
    created = namespace.config_map("a")
    path = namespace.path("configmaps", "a")
    namespace.cluster.replace(path, config_map("b")).refused(400, "BadRequest")
    namespace.cluster.replace(path, {"metadata": {}}).refused(400, "BadRequest")
    other = config_map("a")
    other["metadata"] |= {"uid": UID}
    namespace.cluster.replace(path, other).refused(409, "Conflict")
    same = config_map("a", key="2")
    same["metadata"] |= {"uid": created["metadata"]["uid"], "creationTimestamp": "2000-01-01T00:00:00Z"}
    replaced = namespace.cluster.replace(path, same).ok()
    assert replaced["metadata"]["creationTimestamp"] == created["metadata"]["creationTimestamp"]


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        ({}, JSON_PATCH, 400),
        ([], MERGE, 400),
        ("x", STRATEGIC, 400),
        ([{"op": "test", "path": "/metadata/name", "value": "b"}], JSON_PATCH, 422),
        ([{"op": "remove", "path": "/data/none"}], JSON_PATCH, 422),
        ([{"op": "replace", "path": "/none/x", "value": 1}], JSON_PATCH, 422),
        ([{"op": "add", "path": "/data/key", "value": 5}], JSON_PATCH, 422),
        ({"data": {"key": 5}}, MERGE, 422),
        ({"kind": "Secret"}, MERGE, 422),
        ({"apiVersion": "v2"}, MERGE, 422),
        (None, STRATEGIC, 200),
        ({"kind": "Secret"}, STRATEGIC, 200),
    ],
)
def test_patches_that_do_not_fit(namespace: Namespace, body: Any, content_type: str, code: int) -> None:
    namespace.config_map("a", key="1")
    sent = b"null" if body is None else body
    answer = namespace.cluster.patch(namespace.path("configmaps", "a"), sent, content_type)
    assert answer.code == code, answer.body
    stored = namespace.cluster.get(namespace.path("configmaps", "a")).ok()
    assert (stored["kind"], stored["data"]) == ("ConfigMap", {"key": "1"})


def test_generated_names(namespace: Namespace) -> None:
    body = {"metadata": {"generateName": "g-"}}
    names = {namespace.cluster.create(namespace.path("configmaps"), body).ok()["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("g-") and len(name) == len("g-") + 5 for name in names)
    long = namespace.cluster.create(namespace.path("configmaps"), {"metadata": {"generateName": "x" * 80}}).ok()
    assert long["metadata"]["name"].startswith("x" * 58)
    assert len(long["metadata"]["name"]) == 63
    assert long["metadata"]["generateName"] == "x" * 80


def test_finalizers_of_runtime_classes_need_no_domain(cluster: Cluster) -> None:
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    body = {"metadata": {"name": unique("runtime"), "finalizers": ["plain"]}, "handler": "kata"}
    cluster.create(path, body, dryRun="All").ok()
