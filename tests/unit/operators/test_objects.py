"""What plans say of objects: applied, statuses, conditions; what is said twice is said once."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.framework.effects import Create, Patch, apply_merge_patch, merge_diff
from volcanoio.framework.operators import create_or_patch, delete, differences, patch_status, set_condition
from volcanoio.model import kinds
from volcanoio.model.base import Manifest, ObjectMeta
from volcanoio.model.custom import CustomObject, custom_kind
from volcanoio.model.scheduling import PodGroup

WIDGET = custom_kind("example.com", "v1", "Widget")


def group(**spec: Any) -> Manifest:
    return {"metadata": {"name": "g", "namespace": "ns", "labels": {"a": "1"}}, "spec": spec}


def stored(manifest: Manifest, **more: Any) -> PodGroup:
    """As the server has it, with defaults and what others wrote."""
    return msgspec.convert({**manifest, **more}, PodGroup)


def test_missing_objects_are_created_and_equal_ones_kept() -> None:
    wanted = group(minMember=2, queue="q")
    assert create_or_patch(kinds.POD_GROUP, wanted, None) == Create(resource=kinds.POD_GROUP.resource, manifest=wanted)
    there = stored(group(minMember=2, queue="q", priorityClassName="theirs"), status={"phase": "Running"})
    assert create_or_patch(kinds.POD_GROUP, wanted, there) is None


def test_only_given_fields_that_differ_are_patched() -> None:
    there = stored(group(minMember=2, queue="q", priorityClassName="theirs"))
    wanted = {"metadata": {"name": "g", "labels": {"a": "2"}, "annotations": {"b": "1"}}, "spec": {"minMember": 3}}
    patch = create_or_patch(kinds.POD_GROUP, wanted, there)
    assert isinstance(patch, Patch)
    assert patch.patch == {"spec": {"minMember": 3}, "metadata": {"labels": {"a": "2"}, "annotations": {"b": "1"}}}


def test_a_zero_is_a_value_like_any() -> None:
    """Structs leave defaults out: neither is it written again and again, nor is it lost."""
    assert create_or_patch(kinds.POD_GROUP, group(minMember=0), stored(group())) is None
    patch = create_or_patch(kinds.POD_GROUP, group(minMember=0), stored(group(minMember=2)))
    assert isinstance(patch, Patch)
    assert patch.patch == {"spec": {"minMember": 0}}


def test_fields_that_are_not_read_are_preserved() -> None:
    assert create_or_patch(kinds.POD_GROUP, group(somethingNew=1), stored(group())) is None


def test_a_status_is_written_once_and_to_where_it_belongs() -> None:
    widget = CustomObject(metadata=ObjectMeta(name="w", namespace="ns", uid="u", resource_version="7"), status={"a": 1})
    patch = patch_status(WIDGET, widget, {"a": 1, "b": 0, "c": None})
    assert isinstance(patch, Patch)
    assert (patch.subresource, patch.resource_version, patch.patch) == ("status", "7", {"status": {"b": 0}})
    again = msgspec.structs.replace(widget, status={"a": 1, "b": 0})
    assert patch_status(WIDGET, again, {"a": 1, "b": 0, "c": None}) is None
    removed = patch_status(WIDGET, again, {"a": None})
    assert isinstance(removed, Patch)
    assert removed.patch == {"status": {"a": None}}
    assert patch_status(kinds.POD_GROUP, stored(group()), {"running": 0}) is None
    plain = patch_status(kinds.POD_GROUP, stored(group()), {"running": 1})
    assert isinstance(plain, Patch)
    assert plain.subresource == ""


def test_a_conditions_time_moves_with_its_status_only() -> None:
    first = set_condition([], "Ready", False, "Pending", "1 of 2", now=0.0)
    later = set_condition(first, "Ready", False, "Pending", "2 of 3", now=60.0)
    assert later[0]["lastTransitionTime"] == first[0]["lastTransitionTime"] == "1970-01-01T00:00:00Z"
    ready = set_condition([*later, {"type": "Other", "status": "True"}], "Ready", True, "Ready", now=60.0)
    assert [(each["type"], each.get("lastTransitionTime")) for each in ready] == [
        ("Other", None), ("Ready", "1970-01-01T00:01:00Z"),
    ]  # fmt: skip


def test_terminating_objects_are_not_deleted_again() -> None:
    widget = CustomObject(metadata=ObjectMeta(name="w", uid="u"))
    assert delete(WIDGET, widget) is not None
    going = CustomObject(metadata=ObjectMeta(name="w", uid="u", deletion_timestamp="2026-01-01T00:00:00Z"))
    assert delete(WIDGET, going) is None


_json = st.recursive(
    st.integers(0, 3) | st.sampled_from(["", "a"]) | st.lists(st.integers(0, 2), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
_objects = st.dictionaries(st.sampled_from("abc"), _json, max_size=3)


@given(_objects, _objects)
def test_a_patch_sets_the_fields_and_no_others(said: Manifest, have: Manifest) -> None:
    patch = differences(said, said, have)
    after = apply_merge_patch(have, patch)
    assert differences(said, said, after) == {}
    assert merge_diff(apply_merge_patch(have, said), after) == {}
