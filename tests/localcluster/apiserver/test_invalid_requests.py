"""Whatever a client sends, the server answers: no request may raise, and a refusal is a Status."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import msgspec
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.examples import examples
from tests.localcluster.apiserver.api import (
    CONFIG_MAPS,
    DEFINITIONS,
    JSON_PATCH,
    MERGE,
    NAMESPACES,
    PODS,
    STRATEGIC,
    WIDGETS,
    Api,
    config_map,
    pod,
    running,
    widget,
    widget_definition,
)
from volcanoio.model.base import Manifest

_POD = pod(
    tolerations=[{"key": "a", "operator": "Exists"}],
    volumes=[{"name": "v", "emptyDir": {}}],
    nodeSelector={"a": "b"},
    affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}},
    schedulingGates=[{"name": "g"}],
)
_POD["metadata"] |= {"labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["a/b"], "ownerReferences": []}
_POD["spec"]["containers"][0] |= {
    "env": [{"name": "A", "value": "b"}],
    "ports": [{"containerPort": 1, "name": "p"}],
    "resources": {"limits": {"cpu": "1"}},
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
}
_BUDGET = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}
_SERVICE = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}
_CLAIM = {"metadata": {"name": "c"}, "spec": {"accessModes": ["a"], "resources": {"requests": {"storage": "1"}}}}
_BINDING = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
_EVICTION = {"apiVersion": "policy/v1", "metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 1}}

_REQUESTS: list[tuple[str, str, str, Any]] = [
    ("POST", PODS, "application/json", _POD),
    ("PUT", f"{PODS}/kept", "application/json", {**_POD, "metadata": {**_POD["metadata"], "name": "kept"}}),
    ("PATCH", f"{PODS}/kept", STRATEGIC, _POD),
    ("PATCH", f"{PODS}/kept/status", STRATEGIC, {"status": {"phase": "Running", "conditions": [{"type": "Ready"}]}}),
    ("PATCH", f"{PODS}/kept", JSON_PATCH, [{"op": "add", "path": "/metadata/labels/x", "value": "y"}]),
    ("POST", f"{PODS}/kept/binding", "application/json", _BINDING),
    ("POST", f"{PODS}/kept/eviction", "application/json", _EVICTION),
    ("POST", CONFIG_MAPS, "application/json", config_map("a", {"x": "y"}, k="v")),
    ("POST", NAMESPACES, "application/json", {"metadata": {"name": "n", "labels": {"a": "b"}}}),
    ("POST", "/api/v1/nodes", "application/json", {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1"}}}),
    ("POST", "/api/v1/namespaces/default/services", "application/json", _SERVICE),
    ("POST", "/api/v1/namespaces/default/secrets", "application/json", {"metadata": {}, "stringData": {"a": "b"}}),
    ("POST", "/api/v1/namespaces/default/persistentvolumeclaims", "application/json", _CLAIM),
    ("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", "application/json", _BUDGET),
    ("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", "application/json", {"metadata": {"name": "p"}, "value": 1}),
    ("POST", "/apis/apps/v1/namespaces/default/deployments", "application/json", {"spec": {"template": _POD}}),
    ("POST", DEFINITIONS, "application/json", widget_definition()),
    ("POST", WIDGETS, "application/json", widget("x", parts=[{"name": "a"}])),
    ("PATCH", f"{WIDGETS}/kept", MERGE, widget("kept")),
    ("PATCH", f"{WIDGETS}/kept/scale", MERGE, {"spec": {"replicas": 1}}),
    ("DELETE", f"{PODS}/kept", "application/json", {"gracePeriodSeconds": 1, "preconditions": {"uid": "x"}}),
]

_ODD: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 2**40, 1.5, "", "x", "/", "a/b/c", "1x", "é", [], {}, [[]], [None], {"": None}, {"a": {}}]),
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything inside a JSON value, itself included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in inner for place in _places(one, (*path, key)))]


def _changed(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    copy = deepcopy(value)
    parent = copy
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = odd
    return copy


@st.composite
def odd_requests(draw: st.DrawFn) -> tuple[str, str, str, Any]:
    """A request with one or two parts of its body replaced by something odd."""
    method, path, kind, body = draw(st.sampled_from(_REQUESTS))
    for _ in range(draw(st.integers(1, 2))):
        body = _changed(body, draw(st.sampled_from(_places(body))), deepcopy(draw(_ODD)))
    return method, path, kind, body


@given(st.lists(odd_requests(), min_size=1, max_size=10))
@examples(150, suppress_health_check=[HealthCheck.too_slow])
def test_invalid_bodies_are_answered(requests: list[tuple[str, str, str, Any]]) -> None:
    asyncio.run(_send(requests))


async def _send(requests: list[tuple[str, str, str, Any]]) -> None:
    async with running() as api:
        await api.made(DEFINITIONS, widget_definition())
        await api.made(WIDGETS, widget("kept"))
        await api.made(PODS, pod("kept"))
        for method, path, kind, body in requests:
            answer = await api(method, path, msgspec.json.encode(body), kind=kind)
            assert answer.code < 500 or "reason" not in answer.body, (method, path, body, answer.body)
            assert answer.code < 300 or answer.body["kind"] == "Status"
        await _everything_can_be_read(api)


async def _everything_can_be_read(api: Api) -> None:
    for resource in api.server.registry.resources():
        if "list" in resource.verbs:
            root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
            listed: Manifest = await api.got(f"{root}/{resource.plural}")
            assert listed["kind"] == resource.list_kind


async def test_broken_encodings_are_bad_requests() -> None:
    async with running() as api:
        for body in (b'{"metadata":{"name":"\xff"}}', b"[" * 5000, b'{"a":1}{', b"3"):
            answer = await api("POST", CONFIG_MAPS, body)
            assert (answer.code, answer.reason) == (400, "BadRequest"), body[:20]
        assert (await api("POST", CONFIG_MAPS, b"a: [", kind="application/yaml")).code == 400
