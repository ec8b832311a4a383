"""What is not served, and methods that a path does not take."""

from __future__ import annotations

import pytest
import yaml

from tests.contract.support import Cluster, Namespace
from tests.contract.widgets import GROUP, PLURAL


@pytest.mark.parametrize(
    "path",
    ["/nope", "/apis/nope", "/apis/nope/v1", "/apis/nope/v1/things", "/healthz/nope", f"/apis/{GROUP}/v2/widgets"],
)
def test_unknown_paths_return_text(cluster: Cluster, path: str) -> None:
    answer = cluster.get(path)
    assert (answer.code, answer.body) == (404, b"404 page not found\n")
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    "path",
    ["/api/v2", "/api/v1/things", "/apis/apps/v9", "/apis/apps/v1/things", "/api/v1/nodes/x/nope", "/api/v1/pods/x"],
)
def test_in_a_group_that_is_served_it_is_a_status(cluster: Cluster, path: str) -> None:
    status = cluster.get(path).refused(404, "NotFound")
    assert status["message"] == "the server could not find the requested resource"
    assert status["details"] == {}


@pytest.mark.parametrize(
    ("method", "plural", "name", "subresource"),
    [
        ("PUT", "configmaps", "", ""),
        ("PATCH", "configmaps", "", ""),
        ("POST", "configmaps", "a", ""),
        ("DELETE", "pods", "a", "status"),
        ("GET", "pods", "a", "binding"),
        ("PUT", "pods", "a", "log"),
    ],
)
def test_methods_that_are_not_taken(
    namespace: Namespace, method: str, plural: str, name: str, subresource: str
) -> None:
    status = namespace.cluster.request(method, namespace.path(plural, name, subresource), {})
    assert status.refused(405, "MethodNotAllowed")["details"] == {}


def test_writes_of_namespaced_kinds_name_a_namespace(cluster: Cluster) -> None:
    for method in ("POST", "DELETE"):
        cluster.request(method, "/api/v1/configmaps", {}).refused(405, "MethodNotAllowed")
        assert cluster.request(method, f"/apis/{GROUP}/v1/widgets", {}).code == 404


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "application/json;as=Foo;v=v1;g=meta.k8s.io"])
def test_unsupported_media_types_are_not_acceptable(namespace: Namespace, accept: str) -> None:
    namespace.config_map("a")
    namespace.cluster.get(namespace.path("configmaps", "a"), accept=accept).refused(406, "NotAcceptable")


def test_yaml_is_returned_on_request(namespace: Namespace) -> None:
    body = b"metadata:\n  name: a\ndata:\n  key: 'yes'\n"
    path = namespace.path("configmaps")
    made = namespace.cluster.request("POST", path, body, content_type="application/yaml", accept="application/yaml")
    assert (made.code, made.headers["content-type"]) == (201, "application/yaml")
    stored = yaml.safe_load(namespace.cluster.get(f"{path}/a", accept="application/yaml").body)
    assert (stored["kind"], stored["metadata"]["name"], stored["data"]) == ("ConfigMap", "a", {"key": "yes"})
    refused = namespace.cluster.get(f"{path}/b", accept="application/yaml")
    assert (refused.code, yaml.safe_load(refused.body)["reason"]) == (404, "NotFound")


def test_bodies_of_other_types_are_refused(namespace: Namespace) -> None:
    path = namespace.path("configmaps")
    namespace.cluster.request("POST", path, b"{}", content_type="text/plain").refused(415, "UnsupportedMediaType")
    namespace.config_map("a")
    namespace.cluster.patch(f"{path}/a", {}, "application/json").refused(415, "UnsupportedMediaType")
    widgets = namespace.path(PLURAL, "w")
    strategic = "application/strategic-merge-patch+json"
    namespace.cluster.patch(widgets, {}, strategic).refused(415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[1]", b'"x"', b'{"kind":"Secret","apiVersion":"v1"}', b'{"kind":"ConfigMap","apiVersion":"apps/v1"}'],
)
def test_bodies_of_another_kind(namespace: Namespace, body: bytes) -> None:
    namespace.cluster.create(namespace.path("configmaps"), body).refused(400, "BadRequest")


def test_objects_need_a_name(namespace: Namespace) -> None:
    status = namespace.cluster.create(namespace.path("configmaps"), b"null").refused(422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "metadata.name"


def test_deleting_a_collection_returns_its_objects(namespace: Namespace) -> None:
    for name in ("a", "b"):
        namespace.config_map(name, {"mine": "yes"})
    answered = namespace.cluster.delete(namespace.path("configmaps"), labelSelector="mine").ok()
    assert (answered["kind"], [one["metadata"]["name"] for one in answered["items"]]) == ("ConfigMapList", ["a", "b"])
