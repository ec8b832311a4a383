"""Discovery, version, health and OpenAPI: the documents by which clients find their way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from volcanoio.localcluster.apiserver.apimachinery.clock import WallClock
from volcanoio.localcluster.apiserver.apimachinery.errors import internal
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.apimachinery.resources import CustomResource, Resource
from volcanoio.localcluster.apiserver.apimachinery.served_resources import BUILTINS, Registry
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.http.health import Health, version
from volcanoio.localcluster.apiserver.openapi.discovery import Discovery, version_rank
from volcanoio.localcluster.apiserver.openapi.v2 import OpenApiV2
from volcanoio.localcluster.apiserver.openapi.v3 import OpenApi
from volcanoio.localcluster.apiserver.storage.store import Store
from volcanoio.localcluster.apiserver.streams.pod_connections import unserved

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
WIDGET = Resource(
    group="example.com",
    version="v1beta1",
    kind="Widget",
    plural="widgets",
    singular="widget",
    short_names=("wd",),
    categories=("all",),
    subresources=("status", "scale"),
    custom=CustomResource(
        SCHEMA, prune=lambda _: [], default=lambda _: None, validate=lambda _new, _old, _status, _said: []
    ),
)


def get(path: str, accept: str = "application/json", **query: str) -> ApiRequest:
    return ApiRequest("GET", path, {name: [value] for name, value in query.items()}, {"accept": accept})


async def fetch(route: Any, request: ApiRequest) -> Any:
    answer = await route(request)
    assert isinstance(answer, ApiResponse), request.path
    assert answer.status == 200
    return json.loads(answer.body)


async def test_classic_discovery_lists_groups_and_resources() -> None:
    registry = Registry()
    registry.add_custom(WIDGET)
    discovery = Discovery(registry)
    assert (await fetch(discovery, get("/api")))["versions"] == ["v1"]
    groups = {group["name"]: group for group in (await fetch(discovery, get("/apis")))["groups"]}
    assert groups["example.com"]["preferredVersion"] == {"groupVersion": "example.com/v1beta1", "version": "v1beta1"}
    scheduling = groups["scheduling.k8s.io"]
    assert [one["version"] for one in scheduling["versions"]] == ["v1", "v1beta1"]
    assert scheduling["preferredVersion"]["version"] == "v1"
    core = {row["name"]: row for row in (await fetch(discovery, get("/api/v1")))["resources"]}
    assert core["pods"]["shortNames"] == ["po"]
    assert core["pods"]["categories"] == ["all"]
    assert core["pods/eviction"]["group"] == "policy"
    assert core["pods/eviction"]["kind"] == "Eviction"
    assert core["pods/log"]["verbs"] == ["get"]
    assert core["nodes"]["namespaced"] is False
    custom = await fetch(discovery, get("/apis/example.com/v1beta1"))
    assert [row["name"] for row in custom["resources"]] == ["widgets", "widgets/scale", "widgets/status"]
    assert "/apis/example.com/v1beta1" in (await fetch(discovery, get("/")))["paths"]


@pytest.mark.parametrize("form", ["v2", "v2beta1"])
async def test_aggregated_discovery_is_chosen_by_accept(form: str) -> None:
    discovery = Discovery(Registry([WIDGET, *BUILTINS]))
    answer = await discovery(get("/apis", f"application/json;v=x, {AGGREGATED.format(form)},application/json"))
    assert answer is not None
    assert answer.content_type == "application/json", "the client's first choice was plain JSON"
    answer = await discovery(get("/apis", f"{AGGREGATED.format(form)},application/json"))
    assert answer is not None
    assert answer.content_type == AGGREGATED.format(form)
    document = json.loads(answer.body)
    assert document["apiVersion"] == f"apidiscovery.k8s.io/{form}"
    widgets = document["items"][0]["versions"][0]["resources"][0]
    assert widgets["responseKind"] == {"group": "example.com", "version": "v1beta1", "kind": "Widget"}
    scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert widgets["subresources"][0] == {
        "subresource": "scale",
        "responseKind": scale,
        "verbs": ["get", "patch", "update"],
    }


async def test_a_known_document_is_not_sent_again_until_it_changes() -> None:
    registry = Registry()
    discovery = Discovery(registry)
    first = await discovery(get("/apis"))
    assert first is not None
    again = ApiRequest("GET", "/apis", headers={"if-none-match": first.headers["ETag"]})
    answer = await discovery(again)
    assert answer is not None
    assert (answer.status, answer.body) == (304, b"")
    registry.add_custom(WIDGET)
    answer = await discovery(again)
    assert answer is not None
    assert answer.status == 200


async def test_other_paths_are_not_served_as_discovery() -> None:
    discovery = Discovery(Registry())
    for request in (
        get("/api/v2"),
        get("/apis/no.such.group"),
        get("/apis/apps/v9"),
        get("/api/v1/pods"),
        get("/apis//v1"),
        ApiRequest("POST", "/api"),
    ):
        assert await discovery(request) is None, request.path


def test_versions_are_ranked_as_kubernetes_does() -> None:
    names = ["v1alpha2", "foo", "v2", "v1beta1", "v1", "v11alpha1", "v1beta10", "v10"]
    ranked = sorted(names, key=version_rank, reverse=True)
    assert ranked == ["v10", "v2", "v1", "v1beta10", "v1beta1", "v11alpha1", "v1alpha2", "foo"]


async def test_every_builtin_kind_has_a_schema_and_writable_paths() -> None:
    openapi = OpenApi(Registry())
    root = (await fetch(openapi, get("/openapi/v3")))["paths"]
    for one in BUILTINS:
        prefix = f"apis/{one.group}/{one.version}" if one.group else f"api/{one.version}"
        path, _, digest = root[prefix]["serverRelativeURL"].partition("?hash=")
        document = await fetch(openapi, get(path, hash=digest))
        kind = {"group": one.group, "version": one.version, "kind": one.kind}
        described = [
            schema.get("x-kubernetes-group-version-kind") for schema in document["components"]["schemas"].values()
        ]
        assert [kind] in described
        collection = next(path for path in document["paths"] if path.endswith("/" + one.plural))
        operation = document["paths"][collection]["post"]
        assert operation["x-kubernetes-group-version-kind"] == kind
        assert "fieldValidation" in [parameter["name"] for parameter in operation["parameters"]]


async def test_references_lead_somewhere() -> None:
    openapi = OpenApi(Registry())
    document = await fetch(openapi, get("/openapi/v3/api/v1"))
    schemas = document["components"]["schemas"]
    references: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            references.extend(value[key] for key in ("$ref",) if isinstance(value.get(key), str))
            for one in value.values():
                walk(one)
        elif isinstance(value, list):
            for one in value:
                walk(one)

    walk(document)
    assert references
    assert {reference.removeprefix("#/components/schemas/") for reference in references} <= set(schemas)
    assert schemas["io.k8s.v1.Container"]["required"] == ["name"]


async def test_a_custom_resource_appears_in_openapi_when_it_is_defined() -> None:
    registry = Registry()
    openapi = OpenApi(registry)
    before = await fetch(openapi, get("/openapi/v3"))
    assert await openapi(get("/openapi/v3/apis/example.com/v1beta1")) is None
    registry.add_custom(WIDGET)
    after = await fetch(openapi, get("/openapi/v3"))
    assert set(after["paths"]) - set(before["paths"]) == {"apis/example.com/v1beta1"}
    assert before["paths"].items() <= after["paths"].items(), "hashes of the others stay"
    document = await fetch(openapi, get("/openapi/v3/apis/example.com/v1beta1"))
    schema = document["components"]["schemas"]["com.example.v1beta1.Widget"]
    assert schema["properties"]["spec"] == SCHEMA["properties"]["spec"]  # type: ignore[index]  # a literal above
    assert set(schema["properties"]) == {"spec", "apiVersion", "kind", "metadata"}
    assert set(SCHEMA["properties"]) == {"spec"}, "the definition itself is not touched"


async def test_openapi_v2_is_protobuf_or_nothing() -> None:
    registry = Registry()
    registry.add_custom(WIDGET)
    route = OpenApiV2(registry)
    refused = await route(get("/openapi/v2", "application/json"))
    assert refused is not None
    assert refused.status == 406
    answer = await route(get("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"))
    assert answer is not None
    assert "@" not in answer.content_type
    assert answer.body.startswith(b"\x0a\x032.0"), "field 1, three bytes: the version of the format"
    for text in (
        b"/apis/example.com/v1beta1/namespaces/{namespace}/widgets/{name}",
        b"fieldValidation",
        b"kind: Widget",
    ):
        assert text in answer.body
    assert b"kind: SelfSubjectReview" not in answer.body, "what cannot be patched is left out"


async def test_version_and_health() -> None:
    info = await fetch(version, get("/version"))
    assert (info["major"], info["minor"], info["gitVersion"]) == ("1", "32", "v1.32.0+volcanoio")


async def test_health_asks_the_storage() -> None:
    core = Core(Store(), WallClock(), None, ())
    health = Health(core)
    for path in ("/healthz", "/livez", "/readyz", "/livez/ping", "/readyz/etcd"):
        answer = await health(get(path))
        assert answer is not None
        assert (answer.status, answer.body) == (200, b"ok")
    assert await health(get("/livezz")) is None
    core.check_writable = lambda: (_ for _ in ()).throw(internal("the disk is full"))  # type: ignore[method-assign]  # a disk that fills
    failed = await health(get("/readyz"))
    assert failed is not None
    assert failed.status == 500
    assert b"[-]etcd failed: reason withheld\nreadyz check failed" in failed.body
    without = await health(ApiRequest("GET", "/readyz", {"exclude": ["etcd"]}))
    assert without is not None
    assert without.status == 200


async def test_requests_that_need_a_process_are_refused() -> None:
    for name in ("proxy", "proxy/metrics"):
        answer = await unserved(get(f"/api/v1/namespaces/default/pods/p/{name}"))
        assert answer is not None
        assert answer.status == 501
        assert "status.podIP" in json.loads(answer.body)["message"]
    assert await unserved(get("/api/v1/namespaces/default/pods/p/log")) is None
