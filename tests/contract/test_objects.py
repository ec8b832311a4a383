"""Creating, reading, replacing and patching one object."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.support import JSON_PATCH, MERGE, STRATEGIC, Namespace, config_map, pod, unique
from tests.contract.widgets import PLURAL, widget


def test_fields_set_by_a_create(namespace: Namespace) -> None:
    created = namespace.config_map("a", key="value")
    metadata = created["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("a", namespace.name)
    assert metadata["uid"]
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["creationTimestamp"].endswith("Z")
    assert namespace.cluster.get(namespace.path("configmaps", "a")).ok() == created


def test_a_generated_name(namespace: Namespace) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}}
    names = {namespace.cluster.create(namespace.path("configmaps"), body).ok()["metadata"]["name"] for _ in range(2)}
    assert len(names) == 2
    assert all(name.startswith("gen-") and len(name) == len("gen-") + 5 for name in names)


def test_a_name_is_taken_once(namespace: Namespace) -> None:
    namespace.config_map("a")
    status = namespace.cluster.create(namespace.path("configmaps"), config_map("a")).refused(409, "AlreadyExists")
    assert status["details"] == {"name": "a", "kind": "configmaps"}


def test_missing_objects_are_not_found(namespace: Namespace) -> None:
    status = namespace.cluster.get(namespace.path("configmaps", "absent")).refused(404, "NotFound")
    assert status["message"] == 'configmaps "absent" not found'
    namespace.cluster.delete(namespace.path("configmaps", "absent")).refused(404, "NotFound")
    namespace.cluster.patch(namespace.path("configmaps", "absent"), {}).refused(404, "NotFound")


def test_an_update_gets_a_later_version(namespace: Namespace) -> None:
    stored = namespace.config_map("a", key="1")
    stored["data"]["key"] = "2"
    replaced = namespace.cluster.replace(namespace.path("configmaps", "a"), stored).ok()
    assert replaced["data"] == {"key": "2"}
    assert int(replaced["metadata"]["resourceVersion"]) > int(stored["metadata"]["resourceVersion"])
    assert replaced["metadata"]["uid"] == stored["metadata"]["uid"]


def test_an_update_that_changes_nothing_is_no_new_version(namespace: Namespace) -> None:
    stored = namespace.config_map("a", key="1")
    for answer in (
        namespace.cluster.replace(namespace.path("configmaps", "a"), stored),
        namespace.cluster.patch(namespace.path("configmaps", "a"), {"data": {"key": "1"}}),
    ):
        assert answer.ok()["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]


def test_a_stale_update_is_a_conflict(namespace: Namespace) -> None:
    stale = namespace.config_map("a", key="1")
    namespace.cluster.patch(namespace.path("configmaps", "a"), {"data": {"key": "2"}}).ok()
    status = namespace.cluster.replace(namespace.path("configmaps", "a"), stale).refused(409, "Conflict")
    assert status["details"]["name"] == "a"
    version = {"metadata": {"resourceVersion": stale["metadata"]["resourceVersion"]}, "data": {"key": "3"}}
    namespace.cluster.patch(namespace.path("configmaps", "a"), version).refused(409, "Conflict")
    assert namespace.cluster.get(namespace.path("configmaps", "a")).ok()["data"] == {"key": "2"}


def test_generation_counts_changes_of_the_spec(namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path(PLURAL), widget("w")).ok()
    path = namespace.path(PLURAL, "w")
    generations = [
        namespace.cluster.patch(path, change).ok()["metadata"]["generation"]
        for change in ({"metadata": {"labels": {"a": "b"}}}, {"spec": {"size": 2}}, {"spec": {"size": 2}})
    ]
    assert generations == [1, 2, 2]


def test_merge_patch(namespace: Namespace) -> None:
    namespace.config_map("a", keep="1", drop="2")
    patched = namespace.cluster.patch(namespace.path("configmaps", "a"), {"data": {"drop": None, "new": "3"}}, MERGE)
    assert patched.ok()["data"] == {"keep": "1", "new": "3"}


def test_json_patch(namespace: Namespace) -> None:
    namespace.config_map("a", key="1")
    path = namespace.path("configmaps", "a")
    operations = [{"op": "test", "path": "/data/key", "value": "1"}, {"op": "add", "path": "/data/new", "value": "2"}]
    assert namespace.cluster.patch(path, operations, JSON_PATCH).ok()["data"] == {"key": "1", "new": "2"}
    failing = [{"op": "test", "path": "/data/key", "value": "other"}, {"op": "remove", "path": "/data/key"}]
    namespace.cluster.patch(path, failing, JSON_PATCH).refused(422, "Invalid")
    assert namespace.cluster.get(path).ok()["data"] == {"key": "1", "new": "2"}


def test_strategic_merge_patch_merges_lists_by_key(namespace: Namespace) -> None:
    namespace.pod("p")
    change = {"spec": {"containers": [{"name": "main", "image": "alpine"}]}}
    patched = namespace.cluster.patch(namespace.path("pods", "p"), change, STRATEGIC).ok()
    (container,) = patched["spec"]["containers"]
    assert (container["image"], container["command"]) == ("alpine", ["sleep", "3600"])


def test_strategic_merge_patch_is_for_builtins_only(namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path(PLURAL), widget("w")).ok()
    answer = namespace.cluster.patch(namespace.path(PLURAL, "w"), {"spec": {"size": 2}}, STRATEGIC)
    assert MERGE in answer.refused(415, "UnsupportedMediaType")["message"]


def test_a_dry_run_stores_nothing(namespace: Namespace) -> None:
    path = namespace.path("configmaps")
    assert namespace.cluster.create(path, config_map("a"), dryRun="All").ok()["metadata"]["name"] == "a"
    namespace.cluster.get(f"{path}/a").refused(404, "NotFound")
    namespace.config_map("b", key="1")
    assert namespace.cluster.patch(f"{path}/b", {"data": {"key": "2"}}, dryRun="All").ok()["data"] == {"key": "2"}
    namespace.cluster.delete(f"{path}/b", {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}).ok()
    assert namespace.cluster.get(f"{path}/b").ok()["data"] == {"key": "1"}


def test_unknown_fields_by_field_validation(namespace: Namespace) -> None:
    path = namespace.path("pods")
    body = pod("p", priorityClass="high")
    strict = namespace.cluster.create(path, body, fieldValidation="Strict").refused(400, "BadRequest")
    assert 'unknown field "spec.priorityClass"' in strict["message"]
    warned = namespace.cluster.create(path, body, fieldValidation="Warn")
    assert 'unknown field "spec.priorityClass"' in warned.headers["warning"].replace("\\", "")
    assert "priorityClass" not in warned.ok()["spec"]


def _without(body: dict[str, Any], *path: str) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(body))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return copy


@pytest.mark.parametrize(
    ("plural", "body", "code", "reason"),
    [
        ("configmaps", b"{", 400, "BadRequest"),
        ("configmaps", b"[]", 400, "BadRequest"),
        ("configmaps", config_map("Not_A_Name"), 422, "Invalid"),
        ("configmaps", _without(config_map("a"), "metadata", "name"), 422, "Invalid"),
        ("configmaps", pod("p"), 400, "BadRequest"),
        ("configmaps", {**config_map("a"), "metadata": {"name": "a", "namespace": "elsewhere"}}, 400, "BadRequest"),
        ("configmaps", {**config_map("a"), "data": {"key": 1}}, 400, "BadRequest"),
        ("pods", _without(pod("p"), "spec", "containers"), 422, "Invalid"),
        ("pods", pod("p", containers=[{"image": "busybox"}]), 422, "Invalid"),
        (PLURAL, _without(widget("w"), "spec", "size"), 422, "Invalid"),
        (PLURAL, widget("w", size=0), 422, "Invalid"),
        (PLURAL, widget("w", size="large"), 422, "Invalid"),
        (PLURAL, widget("w", color="green"), 422, "Invalid"),
    ],
)
def test_bad_requests_are_refused(namespace: Namespace, plural: str, body: Any, code: int, reason: str) -> None:
    namespace.cluster.create(namespace.path(plural), body).refused(code, reason)
    assert namespace.cluster.get(namespace.path(plural), labelSelector="!kubernetes").code == 200


def test_an_invalid_object_names_its_fields(namespace: Namespace) -> None:
    status = namespace.cluster.create(namespace.path(PLURAL), widget("w", size=0)).refused(422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.size"]
    assert "spec.size" in status["message"]


def test_a_namespace_must_exist(namespace: Namespace) -> None:
    path = f"/api/v1/namespaces/{unique('absent')}/configmaps"
    namespace.cluster.create(path, config_map("a")).refused(404, "NotFound")


def test_a_large_body_is_refused(namespace: Namespace) -> None:
    answer = namespace.cluster.create(namespace.path("configmaps"), config_map("a", key="x" * 4_000_000))
    assert answer.code in {413, 422}, "a real server takes requests up to 3 MiB, and then refuses the ConfigMap"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"metadata":{"name":"d"},"data":{"a":"1","a":"2"}}', 'duplicate field "data.a"'),
        (b'{"metadata":{"name":"c","name":"d"}}', 'duplicate field "metadata.name"'),
    ],
)
def test_a_duplicate_field_is_refused_under_strict_validation(namespace: Namespace, body: bytes, said: str) -> None:
    path = namespace.path("configmaps")
    status = namespace.cluster.create(path, body, fieldValidation="Strict").refused(400, "BadRequest")
    assert said in status["message"]
    assert namespace.cluster.create(path, body, fieldValidation="Ignore").ok()["metadata"]["name"] == "d"


def test_an_empty_object_is_refused(namespace: Namespace) -> None:
    status = namespace.cluster.create(namespace.path("jobs.v1.batch"), {}).refused(422, "Invalid")
    assert "metadata.name" in {cause["field"] for cause in status["details"]["causes"]}
