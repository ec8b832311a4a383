"""Server-side apply: creating, merging, conflicts, taking over, giving back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.appliers import APPLY, apply, config_map, managers
from tests.contract.gadgets import GROUP, PLURAL, gadget, with_gadgets
from tests.contract.support import MERGE, Cluster, Namespace, Obj, unique


@pytest.fixture(scope="session")
def gadget_cluster(cluster: Cluster) -> Cluster:
    """The cluster, with gadgets served."""
    return with_gadgets(cluster)


def test_a_missing_object_is_created(namespace: Namespace) -> None:
    path = namespace.path("configmaps", "x")
    created = apply(namespace.cluster, path, config_map(a="1"))
    assert created.code == 201
    assert managers(created.ok()) == {("one", "Apply"): {"data.a"}}
    changed = apply(namespace.cluster, path, config_map(a="2"))
    assert (changed.code, changed.ok()["data"]) == (200, {"a": "2"})


def test_fields_that_are_not_applied_are_kept(namespace: Namespace) -> None:
    namespace.config_map("x", kept="1")
    merged = apply(namespace.cluster, namespace.path("configmaps", "x"), config_map(a="1")).ok()
    assert merged["data"] == {"kept": "1", "a": "1"}


def test_yaml_is_read(namespace: Namespace) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n  a: '1'\n"
    path = namespace.path("configmaps", "x")
    assert apply(namespace.cluster, path, text).ok()["data"] == {"a": "1"}


def test_applying_the_same_again_writes_nothing(namespace: Namespace) -> None:
    path = namespace.path("configmaps", "x")
    first = apply(namespace.cluster, path, config_map(a="1")).ok()
    assert apply(namespace.cluster, path, config_map(a="1")).ok() == first


def test_a_dry_run_creates_and_changes_nothing(namespace: Namespace) -> None:
    path = namespace.path("configmaps", "x")
    assert apply(namespace.cluster, path, config_map(a="1"), dryRun="All").code == 201
    namespace.cluster.get(path).refused(404, "NotFound")
    stored = apply(namespace.cluster, path, config_map(a="1")).ok()
    assert apply(namespace.cluster, path, config_map(a="2"), dryRun="All").ok()["data"] == {"a": "2"}
    assert namespace.cluster.get(path).ok() == stored


def test_another_value_of_anothers_field_is_a_conflict(namespace: Namespace) -> None:
    path = namespace.path("configmaps", "x")
    stored = apply(namespace.cluster, path, config_map(a="1")).ok()
    status = apply(namespace.cluster, path, config_map(a="2", b="1"), "two").refused(409, "Conflict")
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}
    assert status["details"] == {"causes": [cause]}
    assert namespace.cluster.get(path).ok() == stored


def test_conflicts_are_listed_by_manager(namespace: Namespace) -> None:
    path = namespace.path("configmaps", "x")
    apply(namespace.cluster, path, config_map(a="1", b="1")).ok()
    namespace.cluster.patch(path, {"data": {"c": "1"}}, MERGE, fieldManager="editor").ok()
    status = apply(namespace.cluster, path, config_map(a="2", b="2", c="2"), "two").refused(409, "Conflict")
    assert status["message"] == (
        'Apply failed with 3 conflicts: conflicts with "editor" using v1:\n- .data.c\n'
        'conflicts with "one":\n- .data.a\n- .data.b'
    )


def test_the_same_value_is_shared(namespace: Namespace) -> None:
    path = namespace.path("configmaps", "x")
    apply(namespace.cluster, path, config_map(a="1")).ok()
    shared = apply(namespace.cluster, path, config_map(a="1"), "two").ok()
    assert managers(shared) == {("one", "Apply"): {"data.a"}, ("two", "Apply"): {"data.a"}}
    left = apply(namespace.cluster, path, config_map(b="1"), "one").ok()
    assert left["data"] == {"a": "1", "b": "1"}
    gone = apply(namespace.cluster, path, config_map(), "two").ok()
    assert gone["data"] == {"b": "1"}


def test_force_takes_over(namespace: Namespace) -> None:
    path = namespace.path("configmaps", "x")
    apply(namespace.cluster, path, config_map(a="1", b="1")).ok()
    forced = apply(namespace.cluster, path, config_map(a="2"), "two", force=True).ok()
    assert forced["data"] == {"a": "2", "b": "1"}
    assert managers(forced) == {("one", "Apply"): {"data.b"}, ("two", "Apply"): {"data.a"}}


def test_dropped_fields_are_removed_unless_shared(namespace: Namespace) -> None:
    path = namespace.path("configmaps", "x")
    apply(namespace.cluster, path, config_map(labels={"l": "1"}, a="1", b="1")).ok()
    namespace.cluster.patch(path, {"data": {"b": "2"}}, MERGE, fieldManager="editor").ok()
    left = apply(namespace.cluster, path, config_map(), "one").ok()
    assert left["data"] == {"b": "2"}
    assert "labels" not in left["metadata"]
    assert managers(left) == {("editor", "Update"): {"data.b"}}


def test_an_update_owns_its_changes_exclusively(namespace: Namespace) -> None:
    path = namespace.path("configmaps", "x")
    stored = apply(namespace.cluster, path, config_map(a="1", b="1")).ok()
    stored["data"]["b"] = "2"
    replaced = namespace.cluster.replace(path, stored, fieldManager="editor").ok()
    assert managers(replaced) == {("one", "Apply"): {"data.a"}, ("editor", "Update"): {"data.b"}}
    assert apply(namespace.cluster, path, config_map(a="2"), "one").code == 200


def _pod(image: str = "busybox", **container: Any) -> Obj:
    spec = {"containers": [{"name": "main", "image": image, **container}], "schedulerName": "contract-tests"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}


def test_items_of_lists_are_merged_by_their_keys(namespace: Namespace) -> None:
    template = {"spec": {"containers": [{"name": "a", "image": "i", "ports": [{"containerPort": 80}]}]}}
    base = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}}
    path = namespace.path("podtemplates", "x")
    apply(namespace.cluster, path, {**base, "template": template}).ok()
    port = {"containerPort": 80, "name": "http"}
    other = {"spec": {"containers": [{"name": "b", "image": "i"}, {"name": "a", "ports": [port]}]}}
    merged = apply(namespace.cluster, path, {**base, "template": other}, "two").ok()
    containers = merged["template"]["spec"]["containers"]
    assert [one["name"] for one in containers] == ["b", "a"]
    assert containers[1]["image"] == "i"
    assert containers[1]["ports"] == [{"containerPort": 80, "name": "http", "protocol": "TCP"}]
    mine = 'template.spec.containers.k:{"name":"a"}.ports.k:{"containerPort":80,"protocol":"TCP"}'
    assert {f"{mine}.name", mine} <= managers(merged)["two", "Apply"]
    left = apply(namespace.cluster, path, {**base, "template": template}, "one").ok()
    assert [one["name"] for one in left["template"]["spec"]["containers"]] == ["b", "a"]


def test_duplicate_items_are_refused(namespace: Namespace) -> None:
    config = _pod(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])
    answer = apply(namespace.cluster, namespace.path("pods", "x"), config)
    assert answer.code == 500
    assert answer.body["message"] == (
        "failed to create typed patch object (/x; /v1, Kind=Pod): "
        '.spec.containers[name="main"].env: duplicate entries for key [name="A"]'
    )


def test_finalizers_are_a_set(namespace: Namespace) -> None:
    path = namespace.path("configmaps", "x")
    mine, theirs = config_map(), config_map()
    mine["metadata"]["finalizers"], theirs["metadata"]["finalizers"] = ["x/a", "x/b"], ["x/b", "x/c"]
    apply(namespace.cluster, path, mine).ok()
    both = apply(namespace.cluster, path, theirs, "two").ok()
    left = apply(namespace.cluster, path, config_map()).ok()
    namespace.cluster.patch(path, {"metadata": {"finalizers": None}}).ok()
    assert set(both["metadata"]["finalizers"]) == {"x/a", "x/b", "x/c"}
    assert set(left["metadata"]["finalizers"]) == {"x/b", "x/c"}


def test_a_status_is_applied_apart(gadget_cluster: Cluster, namespace: Namespace) -> None:
    path = namespace.path(PLURAL, "x")
    config = gadget(color="blue") | {"status": {"replicas": 3}}
    created = apply(gadget_cluster, path, config).ok()
    assert "status" not in created
    config["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    config["spec"]["color"] = "red"
    written = apply(gadget_cluster, f"{path}/status", config, "reporter").ok()
    assert (written["spec"]["color"], written["status"]["replicas"]) == ("blue", 3)
    assert managers(written)["reporter", "Apply", "status"] == {
        "status.replicas",
        *(f'status.conditions.k:{{"type":"Ready"}}{part}' for part in ("", ".status", ".type")),
    }


def test_a_status_that_others_have_written_before(gadget_cluster: Cluster, namespace: Namespace) -> None:
    """A controller may apply what it applied before, although others have updated the rest of the status."""
    path = namespace.path(PLURAL, "x")
    apply(gadget_cluster, path, gadget(), "user").ok()
    status = gadget() | {"status": {"replicas": 1}}
    apply(gadget_cluster, f"{path}/status", status, "controller").ok()
    stored = gadget_cluster.get(path).ok()
    stored["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    gadget_cluster.replace(f"{path}/status", stored, fieldManager="scheduler").ok()
    status["status"]["replicas"] = 2
    written = apply(gadget_cluster, f"{path}/status", status, "controller").ok()
    assert written["status"] == {"replicas": 2, "conditions": [{"type": "Ready", "status": "True"}]}


def test_the_status_of_a_missing_object_is_not_found(gadget_cluster: Cluster, namespace: Namespace) -> None:
    apply(gadget_cluster, namespace.path(PLURAL, "x", "status"), gadget()).refused(404, "NotFound")


def test_replicas_are_applied_through_the_scale(namespace: Namespace) -> None:
    cluster, path = namespace.cluster, namespace.path("replicasets.v1.apps", "x")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "x"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    apply(cluster, path, replica_set).ok()
    scale: Obj = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "x", "namespace": namespace.name},
    }
    scale["spec"] = {"replicas": 3}
    refused = apply(cluster, f"{path}/scale", scale, "scaler").refused(409, "Conflict")
    assert refused["message"] == 'Apply failed with 1 conflict: conflict with "one": .spec.replicas'
    assert apply(cluster, f"{path}/scale", scale, "scaler", force=True).ok()["spec"] == {"replicas": 3}
    scaled = cluster.get(path).ok()
    assert scaled["spec"]["replicas"] == 3
    assert managers(scaled)["scaler", "Apply", "scale"] == {"spec.replicas"}
    assert "spec.replicas" not in managers(scaled)["one", "Apply"]


def test_granular_and_atomic_parts(gadget_cluster: Cluster, namespace: Namespace) -> None:
    path = namespace.path(PLURAL, "x")
    config = gadget(whole={"a": "1"}, labels={"a": "1"}, steps=["a"], tags=["a"], free={"a": {"b": 1}})
    created = apply(gadget_cluster, path, config).ok()
    assert managers(created)["one", "Apply"] == {
        *("spec.whole", "spec.labels.a", "spec.steps", 'spec.tags.v:"a"', "spec.free.a", "spec.free.a.b"),
    }
    other = gadget(labels={"b": "1"}, tags=["b"], free={"a": {"c": 1}})
    merged = apply(gadget_cluster, path, other, "two").ok()["spec"]
    assert merged["labels"] == {"a": "1", "b": "1"}
    assert set(merged["tags"]) == {"a", "b"}
    assert merged["free"] == {"a": {"b": 1, "c": 1}}
    for atomic in ({"whole": {"b": "1"}}, {"steps": ["b"]}):
        apply(gadget_cluster, path, gadget(**atomic), "three").refused(409, "Conflict")


def test_versions_of_a_custom_resource(gadget_cluster: Cluster, namespace: Namespace) -> None:
    """A box is one value in v1, and has fields in v2."""
    old, new = namespace.path(PLURAL, "x"), namespace.path(PLURAL.replace(".v1.", ".v2."), "x")
    apply(gadget_cluster, old, gadget(box={"height": 1})).ok()
    config = gadget(box={"width": 2}) | {"apiVersion": f"{GROUP}/v2"}
    refused = apply(gadget_cluster, new, config, "two").refused(409, "Conflict")
    assert refused["message"] == 'Apply failed with 1 conflict: conflict with "one": .spec.box'
    merged = apply(gadget_cluster, new, config, "two", force=True).ok()
    assert (merged["apiVersion"], merged["spec"]["box"]) == (f"{GROUP}/v2", {"height": 1, "width": 2})
    assert managers(merged) == {("two", "Apply"): {"spec.box.width"}}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"apiVersion": "v1", "kind": "Pod"}, "invalid object type: /v1, Kind=Pod"),
        ({"data": {}}, "invalid object type: /, Kind="),
        ([], "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array"),
        (
            b"a: [b",
            "error decoding YAML: error converting YAML to JSON: yaml: line 1: did not find expected ',' or ']'",
        ),
        (config_map("y"), "the name of the object (y) does not match the name on the URL (x)"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "the name of the object (x based on URL) was undeterminable"),
    ],
)
def test_bad_configurations(namespace: Namespace, config: Any, message: str) -> None:
    answer = apply(namespace.cluster, namespace.path("configmaps", "x"), config)
    assert message in answer.refused(400, "BadRequest")["message"]


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"data": {"a": 1}}, ".data.a: expected string, got &value.valueUnstructured{Value:1}"),
        ({"data": []}, ".data: expected map, got"),
        ({"immutable": "yes"}, ".immutable: expected boolean, got"),
        ({"unknown": 1}, ".unknown: field not declared in schema"),
    ],
)
def test_schema_violations(namespace: Namespace, part: Obj, problem: str) -> None:
    answer = apply(namespace.cluster, namespace.path("configmaps", "x"), {**config_map(), **part})
    assert answer.code == 500
    assert f"failed to create typed patch object (/x; /v1, Kind=ConfigMap): {problem}" in answer.body["message"]


def test_keys_that_are_there_twice(namespace: Namespace) -> None:
    path = namespace.path("configmaps", "x")
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1"},"data":{"a":"1"}}'
    text = 'line 1: key "data" already set in map'
    strict = apply(namespace.cluster, path, body, fieldValidation="Strict").refused(400, "BadRequest")
    assert text in strict["message"]
    warned = apply(namespace.cluster, path, body, fieldValidation="Warn")
    headers = {name.lower(): value for name, value in warned.headers.items()}
    assert text in headers["warning"].replace("\\", "")


def test_a_stated_version_must_hold(namespace: Namespace) -> None:
    path = namespace.path("configmaps", "x")
    apply(namespace.cluster, path, config_map(a="1")).ok()
    config = config_map(a="2")
    config["metadata"]["resourceVersion"] = "1"
    assert "the object has been modified" in apply(namespace.cluster, path, config).refused(409, "Conflict")["message"]
    config["metadata"] = {"name": "x", "uid": "other"}
    assert "metadata.uid: Invalid value" in apply(namespace.cluster, path, config).refused(422, "Invalid")["message"]
    config["metadata"] = {"name": "y", "uid": "other"}
    refused = apply(namespace.cluster, namespace.path("configmaps", "y"), config).refused(409, "Conflict")
    assert "uid mismatch" in refused["message"]


def test_managers_and_force_are_checked(namespace: Namespace) -> None:
    path = namespace.path("configmaps", "x")
    unnamed = namespace.cluster.request("PATCH", path, config_map(), content_type=APPLY).refused(422, "Invalid")
    assert "fieldManager: Required value: is required for apply patch" in unnamed["message"]
    for name in ("x" * 129, "a\nb"):
        apply(namespace.cluster, path, config_map(), name).refused(422, "Invalid")
    refused = namespace.cluster.patch(path, {}, MERGE, force="true").refused(422, "Invalid")
    assert "force: Forbidden: may not be specified for non-apply patch" in refused["message"]


def test_managed_fields_are_not_applied(namespace: Namespace) -> None:
    config = config_map()
    config["metadata"]["managedFields"] = []
    refused = apply(namespace.cluster, namespace.path("configmaps", "x"), config).refused(400, "BadRequest")
    assert refused["message"] == "metadata.managedFields must be nil"


def test_a_namespace_is_ignored_for_cluster_scoped_kinds(cluster: Cluster) -> None:
    name = unique("applied")
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}"
    meta = {"name": name, "namespace": "elsewhere"}
    config = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": meta, "rules": []}
    assert "namespace" not in apply(cluster, path, config).ok()["metadata"]
    cluster.delete(path).ok()
