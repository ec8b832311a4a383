"""metadata.managedFields: who is recorded for creates, updates and patches, and how that is reset."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.appliers import apply, config_map, managers
from tests.contract.support import JSON_PATCH, MERGE, STRATEGIC, Namespace, Obj, pod


def test_an_entry(namespace: Namespace) -> None:
    created = namespace.cluster.create(namespace.path("configmaps"), config_map(a="1"), fieldManager="creator").ok()
    (entry,) = created["metadata"]["managedFields"]
    assert entry.pop("time").endswith("Z")
    assert entry == {
        "manager": "creator",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {".": {}, "f:a": {}}},
    }


@pytest.mark.parametrize(
    ("agent", "manager"),
    [("kube-thing/v1.2 (linux/amd64) x", "kube-thing"), ("plain", "plain"), ("", "unknown"), (None, "unknown")],
)
def test_a_manager_is_named_by_the_program(namespace: Namespace, agent: str | None, manager: str) -> None:
    headers = {} if agent is None else {"User-Agent": agent}
    body, path = config_map(a="1"), namespace.path("configmaps")
    created = namespace.cluster.request("POST", path, body, headers=headers).ok()
    assert managers(created) == {(manager, "Update"): {"data", "data.a"}}
    patched = namespace.cluster.request(
        "PATCH", f"{path}/x", {"data": {"a": "2"}}, headers={"User-Agent": "other/1"}, content_type=MERGE
    ).ok()
    assert managers(patched) == {(manager, "Update"): {"data"}, ("other", "Update"): {"data.a"}}


def test_a_pod_is_owned_with_its_defaults(namespace: Namespace) -> None:
    body = pod("x", containers=[{"name": "main", "image": "busybox", "ports": [{"containerPort": 80}]}])
    body["spec"]["automountServiceAccountToken"] = False
    created = namespace.cluster.create(namespace.path("pods"), body, fieldManager="creator").ok()
    container = 'spec.containers.k:{"name":"main"}'
    port = f'{container}.ports.k:{{"containerPort":80,"protocol":"TCP"}}'
    assert managers(created) == {
        ("creator", "Update"): {
            *(container, f"{container}.image", f"{container}.imagePullPolicy", f"{container}.name"),
            *(f"{container}.ports", port, f"{port}.containerPort", f"{port}.protocol", f"{container}.resources"),
            *(f"{container}.terminationMessagePath", f"{container}.terminationMessagePolicy"),
            *("spec.automountServiceAccountToken", "spec.dnsPolicy", "spec.enableServiceLinks", "spec.restartPolicy"),
            *("spec.schedulerName", "spec.securityContext", "spec.terminationGracePeriodSeconds"),
        }
    }


def test_a_status_is_owned_apart(namespace: Namespace) -> None:
    body = pod("x")
    body["spec"]["automountServiceAccountToken"] = False
    namespace.cluster.create(namespace.path("pods"), body, fieldManager="creator").ok()
    path = namespace.path("pods", "x", "status")
    condition = {"type": "Mine", "status": "True"}
    patched = namespace.cluster.patch(
        path, {"status": {"conditions": [condition]}}, STRATEGIC, fieldManager="node"
    ).ok()
    mine = 'status.conditions.k:{"type":"Mine"}'
    assert managers(patched)["node", "Update", "status"] == {
        *("status.conditions", mine, f"{mine}.lastProbeTime", f"{mine}.lastTransitionTime"),
        *(f"{mine}.status", f"{mine}.type"),
    }


@pytest.mark.parametrize(
    ("patch", "kind"),
    [
        ({"data": {"b": "2"}}, MERGE),
        ({"data": {"b": "2"}}, STRATEGIC),
        ([{"op": "add", "path": "/data/b", "value": "2"}], JSON_PATCH),
    ],
)
def test_a_patch_owns_its_changes(namespace: Namespace, patch: Any, kind: str) -> None:
    path = namespace.path("configmaps")
    namespace.cluster.create(path, config_map(a="1", b="1"), fieldManager="creator").ok()
    patched = namespace.cluster.patch(f"{path}/x", patch, kind, fieldManager="editor").ok()
    assert managers(patched) == {("creator", "Update"): {"data", "data.a"}, ("editor", "Update"): {"data.b"}}


def test_writes_without_changes_own_nothing(namespace: Namespace) -> None:
    path = namespace.path("configmaps")
    created = namespace.cluster.create(path, config_map(a="1"), fieldManager="creator").ok()
    assert namespace.cluster.patch(f"{path}/x", {"data": {"a": "1"}}, MERGE, fieldManager="editor").ok() == created
    bare = {**created, "metadata": {key: value for key, value in created["metadata"].items() if key != "managedFields"}}
    assert namespace.cluster.replace(f"{path}/x", bare, fieldManager="editor").ok() == created


def test_removed_fields_have_no_owner(namespace: Namespace) -> None:
    path = namespace.path("configmaps")
    namespace.cluster.create(path, config_map(a="1", b="1"), fieldManager="creator").ok()
    left = namespace.cluster.patch(f"{path}/x", {"data": {"a": None}}, MERGE, fieldManager="editor").ok()
    assert managers(left) == {("creator", "Update"): {"data", "data.b"}}


@pytest.mark.parametrize("reset", [[], [{}]])
def test_managed_fields_are_reset(namespace: Namespace, reset: list[Obj]) -> None:
    path = namespace.path("configmaps")
    stored = namespace.cluster.create(path, config_map(a="1"), fieldManager="creator").ok()
    stored["metadata"]["managedFields"] = reset
    left = namespace.cluster.replace(f"{path}/x", stored).ok()
    assert "managedFields" not in left["metadata"]
    changed = namespace.cluster.patch(f"{path}/x", {"data": {"a": "2"}}, MERGE, fieldManager="editor").ok()
    assert "managedFields" not in changed["metadata"]
    applied = apply(namespace.cluster, f"{path}/x", config_map(b="1")).ok()
    assert managers(applied) == {
        ("before-first-apply", "Update"): {"data", "data.a"},
        ("one", "Apply"): {"data.b"},
    }


def test_managed_fields_are_written_by_clients(namespace: Namespace) -> None:
    """As clients do that move what was applied client-side to server-side apply."""
    path = namespace.path("configmaps")
    stored = namespace.cluster.create(path, config_map(a="1"), fieldManager="creator").ok()
    (entry,) = stored["metadata"]["managedFields"]
    entry |= {"manager": "mover", "operation": "Apply"}
    patch = [
        {"op": "replace", "path": "/metadata/managedFields", "value": [entry]},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": stored["metadata"]["resourceVersion"]},
    ]
    moved = namespace.cluster.patch(f"{path}/x", patch, JSON_PATCH).ok()
    assert managers(moved) == {("mover", "Apply"): {"data", "data.a"}}
    assert moved["data"] == {"a": "1"}
    left = apply(namespace.cluster, f"{path}/x", config_map(b="1"), "mover").ok()
    assert left["data"] == {"b": "1"}


@pytest.mark.parametrize(
    "change",
    [{"operation": "Delete"}, {"apiVersion": ""}, {"fieldsType": "FieldsV2"}, {"fieldsV1": {"x": {}}}],
)
def test_broken_managed_fields_are_ignored(namespace: Namespace, change: Obj) -> None:
    path = namespace.path("configmaps")
    stored = namespace.cluster.create(path, config_map(a="1"), fieldManager="creator").ok()
    entries = [{**stored["metadata"]["managedFields"][0], **change}]
    patched = namespace.cluster.patch(f"{path}/x", {"metadata": {"managedFields": entries}}, MERGE)
    assert patched.code == 200
    assert managers(patched.ok()) == {("creator", "Update"): {"data", "data.a"}}


def test_many_updaters_become_one(namespace: Namespace) -> None:
    path = namespace.path("configmaps")
    namespace.cluster.create(path, config_map(m00="x"), fieldManager="m00").ok()
    for at in range(1, 12):
        patch = {"data": {f"m{at:02}": "x"}}
        namespace.cluster.patch(f"{path}/x", patch, MERGE, fieldManager=f"m{at:02}").ok()
    found = managers(namespace.cluster.get(f"{path}/x").ok())
    assert len(found) == 10
    assert found["ancient-changes", "Update"] >= {"data", "data.m00", "data.m01"}
