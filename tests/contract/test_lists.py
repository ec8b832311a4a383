"""Lists: order, selectors, pages and tables."""

from __future__ import annotations

import pytest

from tests.contract.support import TABLE, Cluster, Namespace
from tests.contract.widgets import PLURAL, widget


def names(namespace: Namespace, plural: str, **query: object) -> list[str]:
    return [item["metadata"]["name"] for item in namespace.cluster.get(namespace.path(plural), **query).ok()["items"]]


def ours(namespace: Namespace) -> None:
    namespace.config_map("c", {"tier": "front", "app": "web"})
    namespace.config_map("a", {"tier": "back", "app": "web"})
    namespace.config_map("b", {"app": "db"})


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("app", ["a", "b", "c"]),
        ("app=web", ["a", "c"]),
        ("app==web,tier=front", ["c"]),
        ("app,tier!=front", ["a", "b"]),
        ("tier in (front, back)", ["a", "c"]),
        ("app,tier notin (front)", ["a", "b"]),
        ("tier", ["a", "c"]),
        ("app,!tier", ["b"]),
    ],
)
def test_label_selectors(namespace: Namespace, selector: str, expected: list[str]) -> None:
    ours(namespace)
    assert names(namespace, "configmaps", labelSelector=selector) == expected


def test_field_selectors(namespace: Namespace) -> None:
    namespace.pod("free")
    namespace.pod("bound")
    namespace.bind("bound", "some-node").ok()
    assert names(namespace, "pods", fieldSelector="metadata.name=free") == ["free"]
    assert names(namespace, "pods", fieldSelector="spec.nodeName=some-node") == ["bound"]
    assert names(namespace, "pods", fieldSelector="spec.nodeName=") == ["free"]
    assert names(namespace, "pods", fieldSelector="status.phase=Pending,spec.nodeName!=some-node") == ["free"]


def test_fields_of_kinds_are_selected_by(namespace: Namespace) -> None:
    ports = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    for name, spec in (("inner", ports), ("outer", {"type": "ExternalName", "externalName": "example.org"})):
        namespace.cluster.create(namespace.path("services"), {"metadata": {"name": name}, "spec": spec}).ok()
    assert names(namespace, "services", fieldSelector="spec.type=ExternalName") == ["outer"]
    assert names(namespace, "services", fieldSelector="spec.clusterIP=") == ["outer"]
    pod = {"containers": [{"name": "c", "image": "busybox"}], "restartPolicy": "Never"}
    job = {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}, "suspend": True}}
    namespace.cluster.create(namespace.path("jobs.v1.batch"), job).ok()
    assert names(namespace, "jobs.v1.batch", fieldSelector="status.successful=0") == ["j"]
    assert names(namespace, "replicationcontrollers", fieldSelector="status.replicas=0") == []


@pytest.mark.parametrize(
    ("path", "field", "said"),
    [
        ("/api/v1/nodes", "metadata.namespace", "field label not supported: metadata.namespace"),
        ("/api/v1/namespaces", "metadata.namespace", "field label not supported: metadata.namespace"),
        ("/api/v1/services", "spec.odd", "field label not supported: spec.odd"),
        ("/api/v1/configmaps", "spec.odd", '"spec.odd" is not a known field selector: only "metadata.name"'),
        ("/apis/batch/v1/jobs", "spec.odd", 'field label "spec.odd" not supported for Job'),
    ],
)
def test_unsupported_field_selectors_are_reported(cluster: Cluster, path: str, field: str, said: str) -> None:
    answer = cluster.get(path, fieldSelector=f"{field}=x").refused(400, "BadRequest")
    assert answer["message"].startswith(said)


@pytest.mark.parametrize(
    "query", [{"fieldSelector": "spec.nonsense=1"}, {"labelSelector": "a in ("}, {"fieldSelector": "metadata.name"}]
)
def test_bad_selectors_are_refused(namespace: Namespace, query: dict[str, str]) -> None:
    namespace.cluster.get(namespace.path("pods"), **query).refused(400, "BadRequest")


def test_pages_are_of_one_moment(namespace: Namespace) -> None:
    for name in ("a", "b", "c", "d", "e"):
        namespace.config_map(name, {"page": "yes"})
    query = {"labelSelector": "page", "limit": 2}
    first = namespace.cluster.get(namespace.path("configmaps"), **query).ok()
    namespace.cluster.delete(namespace.path("configmaps", "e")).ok()
    namespace.config_map("ab", {"page": "yes"})
    seen = [item["metadata"]["name"] for item in first["items"]]
    versions = {first["metadata"]["resourceVersion"]}
    token = first["metadata"]["continue"]
    while token:
        page = namespace.cluster.get(namespace.path("configmaps"), **query, **{"continue": token}).ok()
        seen += [item["metadata"]["name"] for item in page["items"]]
        versions.add(page["metadata"]["resourceVersion"])
        token = page["metadata"].get("continue")
    assert seen == ["a", "b", "c", "d", "e"]
    assert len(versions) == 1


def test_a_damaged_continue_token_is_refused(namespace: Namespace) -> None:
    namespace.cluster.get(namespace.path("configmaps"), limit=1, **{"continue": "nonsense"}).refused(400, "BadRequest")


def test_a_list_has_a_version_from_which_to_watch(namespace: Namespace) -> None:
    created = namespace.config_map("a")
    listed = namespace.cluster.get(namespace.path("configmaps")).ok()
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert int(listed["metadata"]["resourceVersion"]) >= int(created["metadata"]["resourceVersion"])


def test_all_namespaces(namespace: Namespace) -> None:
    namespace.config_map("only-here")
    items = namespace.cluster.get("/api/v1/configmaps", fieldSelector="metadata.name=only-here").ok()["items"]
    assert namespace.name in [item["metadata"]["namespace"] for item in items]


def test_a_table_of_pods(namespace: Namespace) -> None:
    namespace.pod("p")
    table = namespace.cluster.get(namespace.path("pods"), accept=TABLE).ok()
    assert table["kind"] == "Table"
    columns = [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]
    assert columns == ["Name", "Ready", "Status", "Restarts", "Age"]
    (row,) = table["rows"]
    assert row["cells"][:3] == ["p", "0/1", "Pending"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert int(table["metadata"]["resourceVersion"]) > 0


def test_a_table_of_custom_resources(namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path(PLURAL), widget("w", size=3)).ok()
    table = namespace.cluster.get(namespace.path(PLURAL, "w"), accept=TABLE, includeObject="None").ok()
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size", "Phase", "Color", "Age"]
    assert table["rows"][0]["cells"][:4] == ["w", 3, None, "red"]
    assert table["rows"][0]["object"] is None
