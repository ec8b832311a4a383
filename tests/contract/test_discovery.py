"""A client finds out what is served."""

from __future__ import annotations

import pytest

from tests.contract.discoveries import ADDED, AGGREGATED, NOT_SERVED, builtins, recorded
from tests.contract.support import Cluster, eventually
from tests.contract.widgets import GROUP


def test_groups_and_versions(cluster: Cluster) -> None:
    assert "v1" in cluster.get("/api").ok()["versions"]
    groups = {group["name"] for group in cluster.get("/apis").ok()["groups"]}
    assert {"apps", "batch", "scheduling.k8s.io", "apiextensions.k8s.io", GROUP} <= groups


def test_resources_of_a_group(cluster: Cluster) -> None:
    rows = {row["name"]: row for row in cluster.get("/api/v1").ok()["resources"]}
    assert (rows["pods"]["kind"], rows["pods"]["namespaced"], rows["pods"]["shortNames"]) == ("Pod", True, ["po"])
    assert rows["nodes"]["namespaced"] is False
    assert {"pods/status", "pods/binding", "pods/log"} <= set(rows)
    custom = {row["name"] for row in cluster.get(f"/apis/{GROUP}/v1").ok()["resources"]}
    assert custom == {"widgets", "widgets/status", "widgets/scale"}


def test_aggregated_discovery(cluster: Cluster) -> None:
    document = cluster.get("/apis", accept=AGGREGATED).ok()
    assert document["kind"] == "APIGroupDiscoveryList"
    group = next(item for item in document["items"] if item["metadata"]["name"] == GROUP)
    (widgets,) = group["versions"][0]["resources"]
    assert widgets["shortNames"] == ["wdg"]
    assert {"create", "list", "watch"} <= set(widgets["verbs"])


def test_an_unchanged_document_is_not_sent_again(cluster: Cluster) -> None:
    first = cluster.get("/apis", accept=AGGREGATED)
    again = cluster.get("/apis", accept=AGGREGATED, headers={"If-None-Match": first.headers["etag"]})
    assert (again.code, again.body) == (304, b"")


def test_openapi_describes_custom_resources(cluster: Cluster) -> None:
    paths = eventually(lambda: cluster.get("/openapi/v3").ok()["paths"].get(f"apis/{GROUP}/v1"))
    schemas = cluster.get(paths["serverRelativeURL"]).ok()["components"]["schemas"]
    (schema,) = [schema for name, schema in schemas.items() if name.endswith(".v1.Widget")]
    assert schema["properties"]["spec"]["properties"]["size"]["minimum"] == 1


def test_version(cluster: Cluster) -> None:
    version = cluster.get("/version").ok()
    assert version["major"] == "1"
    assert version["gitVersion"].startswith("v1.")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health(cluster: Cluster, path: str) -> None:
    answer = cluster.get(path)
    assert (answer.code, answer.body) == (200, b"ok")


def test_authorised_clients(cluster: Cluster) -> None:
    if "Authorization" not in cluster.headers:
        pytest.skip("this cluster is not entered with a token")
    answer = cluster.get("/api/v1/namespaces", headers={"Authorization": "Bearer wrong"})
    answer.refused(401, "Unauthorized")


@pytest.mark.parametrize("path", ["/apis/no.such.group/v1/things", "/api/v1/namespaces/default/things"])
def test_unserved_groups_are_not_found(cluster: Cluster, path: str) -> None:
    answer = cluster.get(path)
    assert answer.code == 404


def test_discovery_equals_the_real_server_except_for_listed_differences(cluster: Cluster) -> None:
    served, real = builtins(cluster), recorded()
    assert set(served) - set(real) <= set(ADDED)
    if set(real) != set(served):  # the embedded server
        missing = {name for name in real if any(f"{name}/".startswith(f"{one}/") for one in NOT_SERVED)}
        assert set(real) - set(served) == missing
    assert {name: row for name, row in served.items() if name in real} == {
        name: real[name] for name in served if name in real
    }


@pytest.mark.parametrize("path", ["/livez/ping", "/readyz/ping", "/livez?verbose", "/readyz/etcd", "/healthz/etcd"])
def test_single_checks_of_health(cluster: Cluster, path: str) -> None:
    answer = cluster.get(path)
    assert answer.code == 200
    assert b"ok" in answer.body
    assert cluster.request("HEAD", path).code == 200


def test_a_check_that_is_not_there(cluster: Cluster) -> None:
    assert cluster.get("/readyz/nonsense").code == 404


def test_every_group_has_a_document_with_schemas(cluster: Cluster) -> None:
    paths = cluster.get("/openapi/v3").ok()["paths"]
    for group in ("api/v1", "apis/apps/v1", "apis/batch/v1", "apis/events.k8s.io/v1", "apis/resource.k8s.io/v1"):
        document = cluster.get(paths[group]["serverRelativeURL"]).ok()
        kinds = {
            kind["kind"]
            for schema in document["components"]["schemas"].values()
            for kind in schema.get("x-kubernetes-group-version-kind", ())
        }
        assert len(kinds) >= 1, group
