"""No configuration, and nothing written into managedFields, makes the server fail: it refuses, or applies."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.contract.gadgets import GROUP, definition, gadget
from tests.examples import examples
from tests.localcluster.apiserver.api import CONFIG_MAPS, DEFINITIONS, PODS, Api, running

APPLY = "application/apply-patch+yaml"
GADGETS = f"/apis/{GROUP}/v1/namespaces/default/gadgets"

_ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, 0, 1.5, "", "x", True, [], [None], [[]], [{}], {}, {"": None}, {"name": 1}]
)

_CONTAINER = {
    "name": "main",
    "image": "i",
    "env": [{"name": "A", "value": "b"}],
    "ports": [{"containerPort": 80}],
    "resources": {"limits": {"cpu": "1"}},
}
_BASES: list[tuple[str, Any]] = [
    (f"{CONFIG_MAPS}/x", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1"}}),
    (
        f"{PODS}/x",
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [_CONTAINER]}},
    ),
    (
        f"{GADGETS}/x",
        gadget(ports=[{"port": 1}], tags=["a"], labels={"a": "b"}, inner={"deep": {"x": "y"}}, free={"a": [1]}),
    ),
]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        found += _places(one, (*path, key))
    return found


@st.composite
def _requests(draw: st.DrawFn) -> tuple[str, Any]:
    """An apply in which up to two values are others."""
    path, base = draw(st.sampled_from(_BASES))
    body = copy.deepcopy(base)
    for _ in range(draw(st.integers(0, 2))):
        places = [place for place in _places(body) if place]
        if not places:
            break
        *parents, last = draw(st.sampled_from(places))
        holder = body
        for key in parents:
            holder = holder[key]
        holder[last] = copy.deepcopy(draw(_ODD))
    return path, body


def _not_our_fault(answer: Any, asked: Any) -> None:
    """Kubernetes answers 500 without a reason for what does not fit the schema; with one it would be a crash."""
    assert answer.code < 500 or "reason" not in answer.body, (asked, answer)


async def _prepared(api: Api) -> None:
    await api.made(DEFINITIONS, definition())


@examples(25)
@given(st.lists(_requests(), min_size=1, max_size=6))
async def test_invalid_configurations(requests: list[tuple[str, Any]]) -> None:
    async with running() as api:
        await _prepared(api)
        for at, (path, body) in enumerate(requests):
            query = {"fieldManager": f"m{at % 2}", "force": "true" if at % 3 else "false"}
            _not_our_fault(await api("PATCH", path, body, kind=APPLY, **query), body)


_ENTRY = {
    "manager": "m",
    "operation": "Update",
    "apiVersion": "v1",
    "time": "2030-01-01T00:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:data": {".": {}, "f:a": {}}},
}


@examples(40)
@given(st.data())
async def test_invalid_managed_fields(data: st.DataObject) -> None:
    entries = [copy.deepcopy(_ENTRY)]
    for _ in range(data.draw(st.integers(1, 2))):
        *parents, last = data.draw(st.sampled_from([place for place in _places(entries) if place]))
        holder: Any = entries
        for key in parents:
            holder = holder[key]
        holder[last] = copy.deepcopy(data.draw(_ODD))
    path, config = _BASES[0]
    async with running() as api:
        await api("PATCH", path, config, kind=APPLY, fieldManager="m")
        patch = {"metadata": {"managedFields": entries}, "data": {"b": "1"}}
        _not_our_fault(await api("PATCH", path, patch, kind="application/merge-patch+json"), entries)
        created = {**config, "metadata": {"name": "y", "managedFields": entries}}
        _not_our_fault(await api("POST", CONFIG_MAPS, created, fieldManager="m"), entries)
        _not_our_fault(await api("PATCH", path, config, kind=APPLY, fieldManager="m2", force="true"), entries)
