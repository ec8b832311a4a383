"""The three patch formats: examples of their specifications, and what must hold for any document."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.localcluster.apiserver.api import CONFIG_MAPS, JSON_PATCH, config_map, running
from volcanoio.framework import effects
from volcanoio.localcluster.apiserver.patches import PatchError, json_patch, strategic

_SCALARS = st.one_of(st.booleans(), st.integers(-5, 5), st.text("xyz", max_size=3))
_KEYS = st.text(alphabet="abcde/~", min_size=1, max_size=3)
DOCUMENTS = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=3)),
    max_leaves=8,
)
OBJECTS = st.dictionaries(_KEYS, DOCUMENTS, max_size=4)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": "foo"}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
    ],
)
def test_merge_patches_of_rfc_7386(target: Any, patch: Any, result: Any) -> None:
    assert effects.apply_merge_patch(deepcopy(target), patch) == result


def difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The merge patch from one object without nulls to another."""
    patch: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    for key, value in after.items():
        known = before.get(key)
        patch[key] = difference(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return patch


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_made_from_a_difference_leads_there(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert effects.apply_merge_patch(deepcopy(before), deepcopy(difference(before, after))) == after


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_is_idempotent(target: dict[str, Any], patch: dict[str, Any]) -> None:
    once = effects.apply_merge_patch(deepcopy(target), deepcopy(patch))
    assert effects.apply_merge_patch(deepcopy(once), deepcopy(patch)) == once


@given(OBJECTS)
def test_an_empty_patch_changes_nothing(target: dict[str, Any]) -> None:
    assert effects.apply_merge_patch(deepcopy(target), {}) == target
    assert strategic.apply(deepcopy(target), {}) == target
    assert json_patch.apply(deepcopy(target), []) == target


@given(OBJECTS, OBJECTS)
def test_without_merge_keys_a_strategic_patch_is_a_merge_patch(target: dict[str, Any], patch: dict[str, Any]) -> None:
    merged = effects.apply_merge_patch(deepcopy(target), deepcopy(patch))
    assert strategic.apply(deepcopy(target), deepcopy(patch)) == merged


@given(OBJECTS, _KEYS, DOCUMENTS)
def test_json_patch_removes_added_values(target: dict[str, Any], key: str, value: Any) -> None:
    pointer = "/" + key.replace("~", "~0").replace("/", "~1")
    added = json_patch.apply(deepcopy(target), [{"op": "add", "path": pointer, "value": value}])
    assert added[key] == value
    removed = json_patch.apply(
        added, [{"op": "test", "path": pointer, "value": value}, {"op": "remove", "path": pointer}]
    )
    assert removed == {name: one for name, one in target.items() if name != key}


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/list/1", "value": 9}], {"list": [1, 9, 2], "map": {"a": 1}}),
        ([{"op": "add", "path": "/list/-", "value": 9}], {"list": [1, 2, 9], "map": {"a": 1}}),
        ([{"op": "replace", "path": "/map/a", "value": 2}], {"list": [1, 2], "map": {"a": 2}}),
        ([{"op": "move", "from": "/map/a", "path": "/b"}], {"list": [1, 2], "map": {}, "b": 1}),
        ([{"op": "copy", "from": "/list", "path": "/map/l"}], {"list": [1, 2], "map": {"a": 1, "l": [1, 2]}}),
    ],
)
def test_json_patch_operations(operations: list[Any], result: Any) -> None:
    assert json_patch.apply({"list": [1, 2], "map": {"a": 1}}, operations) == result


@pytest.mark.parametrize(
    "operations",
    [
        {"op": "add"},
        [{"op": "remove", "path": "/nowhere"}],
        [{"op": "test", "path": "/a", "value": True}],
        [{"op": "add", "path": "/list/7", "value": 1}],
        [{"op": "replace", "path": "a", "value": 1}],
        [{"op": "spin", "path": "/a"}],
        [{"op": "add", "path": "/a/b", "value": 1}],
    ],
)
def test_json_patches_that_do_not_fit(operations: Any) -> None:
    with pytest.raises(PatchError):
        json_patch.apply({"a": 1, "list": []}, operations)


def pod_with(containers: list[Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": containers, **spec}}


A = {"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}]}
B = {"name": "b", "image": "b:1"}


@pytest.mark.parametrize(
    ("patch", "result"),
    [
        ({"spec": {"containers": [{"name": "a", "image": "a:2"}]}}, pod_with([{**A, "image": "a:2"}, B])),
        ({"spec": {"containers": [{"name": "c"}]}}, pod_with([{"name": "c"}, A, B])),
        ({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}, pod_with([B])),
        ({"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}]}}, pod_with([{"name": "c"}])),
        (
            {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": []}},
            pod_with([B, A]),
        ),
        (
            {"spec": {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]}},
            pod_with([{**A, "env": [{"name": "Y", "value": "2"}, *A["env"]]}, B]),
        ),
        ({"spec": {"$patch": "replace", "nodeName": "n"}}, {"spec": {"nodeName": "n"}}),
        ({"spec": {"$retainKeys": ["nodeName"], "nodeName": "n"}}, {"spec": {"nodeName": "n"}}),
        ({"spec": {"tolerations": [{"key": "t"}]}}, pod_with([A, B], tolerations=[{"key": "t"}])),
    ],
)
def test_strategic_merge(patch: Any, result: Any) -> None:
    assert strategic.apply(deepcopy(pod_with([A, B])), deepcopy(patch)) == result


def test_strategic_sets() -> None:
    target = {"metadata": {"finalizers": ["a", "b"]}}
    assert strategic.apply(deepcopy(target), {"metadata": {"finalizers": ["b", "c"]}}) == {
        "metadata": {"finalizers": ["a", "b", "c"]}
    }
    gone = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}
    assert strategic.apply(deepcopy(target), gone) == {"metadata": {"finalizers": ["b"]}}
    with pytest.raises(PatchError, match="merge key name"):
        strategic.apply(pod_with([A]), {"spec": {"containers": [{"image": "x"}]}})


async def test_a_failed_test_is_refused_and_changes_nothing() -> None:
    async with running() as api:
        made = await api.made(CONFIG_MAPS, config_map("a", x="1"))
        operations = [
            {"op": "replace", "path": "/data/x", "value": "2"},
            {"op": "test", "path": "/data/x", "value": "1"},
        ]
        refused = await api("PATCH", f"{CONFIG_MAPS}/a", operations, kind=JSON_PATCH)
        assert (refused.code, refused.reason) == (422, "Invalid")
        assert await api.got(f"{CONFIG_MAPS}/a") == made
