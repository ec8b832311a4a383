"""Merges and owners: what holds whatever is applied."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from tests.localcluster.apply.strategies import CONFIGS, GADGET
from volcanoio.localcluster.apiserver.apply import field_sets, managed_fields, ownership
from volcanoio.localcluster.apiserver.apply.managed_fields import Owners
from volcanoio.localcluster.apiserver.apply.ownership import Conflicts
from volcanoio.localcluster.apiserver.apply.typed_values import compare, fields_of, merge, remove
from volcanoio.localcluster.apiserver.apply.types import Type
from volcanoio.model.base import Manifest


def type_of(version: str) -> Type | None:
    return GADGET if version == "v1" else None


TERMS = ownership.Terms("v1", type_of, {})
EMPTY: Manifest = {"apiVersion": "v1", "kind": "Gadget", "metadata": {}}
LATER = "2030-01-01T00:00:00Z"


def apply(live: Manifest, config: Manifest, known: Owners, manager: str, *, force: bool = False) -> tuple[Any, Owners]:
    found = ownership.apply(
        TERMS, live, config, known, managed_fields.Author(managed_fields.applier(manager), LATER, force)
    )
    return (live if found.obj is None else found.obj), found.owners


@given(CONFIGS, CONFIGS)
def test_merging_twice_is_merging_once(live: Manifest, config: Manifest) -> None:
    merged = merge(GADGET, live, config)
    assert merge(GADGET, merged, config) == merged


@given(CONFIGS, CONFIGS)
def test_applied_fields_are_set(live: Manifest, config: Manifest) -> None:
    changes = compare(GADGET, config, merge(GADGET, live, config))
    assert not field_sets.intersection(fields_of(GADGET, config), field_sets.union(changes.removed, changes.modified))


@given(CONFIGS)
def test_an_object_equals_itself(obj: Manifest) -> None:
    assert compare(GADGET, obj, obj) == ({}, {}, {})


@given(CONFIGS, CONFIGS)
def test_a_comparison_turned_round(one: Manifest, other: Manifest) -> None:
    there, back = compare(GADGET, one, other), compare(GADGET, other, one)
    assert (there.removed, there.modified, there.added) == (back.added, back.modified, back.removed)


@given(CONFIGS)
def test_owned_fields_can_be_removed(config: Manifest) -> None:
    left = remove(GADGET, config, fields_of(GADGET, config))
    gone = field_sets.intersection(fields_of(GADGET, left or {}), fields_of(GADGET, config))
    assert not [path for path in field_sets.paths(gone) if "f:spec" in path and path[-1] != "f:spec" and left]


@given(CONFIGS, CONFIGS)
def test_applying_again_changes_nothing(live: Manifest, config: Manifest) -> None:
    merged, known = apply(live, config, {}, "one")
    again = ownership.apply(TERMS, merged, config, known, managed_fields.Author(managed_fields.applier("one"), LATER))
    assert again.obj is None
    assert again.owners == known


@given(CONFIGS, CONFIGS)
def test_appliers_of_different_fields_commute(first: Manifest, second: Manifest) -> None:
    disjoint = not field_sets.intersection(fields_of(GADGET, first), fields_of(GADGET, second))
    one_way = apply_both(first, second)
    other_way = apply_both(second, first, names=("two", "one"))
    if disjoint and one_way is not None and other_way is not None:
        assert compare(GADGET, one_way[0], other_way[0]) == ({}, {}, {}) or _order_alone(one_way[0], other_way[0])
        assert {who: owned.fields for who, owned in one_way[1].items()} == {
            who: owned.fields for who, owned in other_way[1].items()
        }


def apply_both(first: Manifest, second: Manifest, names: tuple[str, str] = ("one", "two")) -> tuple[Any, Owners] | None:
    merged, known = apply(EMPTY, first, {}, names[0])
    try:
        return apply(merged, second, known, names[1])
    except Conflicts:
        return None


def _order_alone(one: Any, other: Any) -> bool:
    """Whether two objects differ in the order of their lists at most."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_order_alone(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return sorted(map(repr, one)) == sorted(map(repr, other))
    return bool(one == other)


@given(CONFIGS, CONFIGS, CONFIGS)
def test_force_takes_over(live: Manifest, first: Manifest, second: Manifest) -> None:
    merged, known = apply(live, first, {}, "one")
    forced, after = apply(merged, second, known, "two", force=True)
    mine = after.get(managed_fields.applier("two"))
    assert (mine.fields if mine else {}) == field_sets.difference(
        fields_of(GADGET, second), field_sets.of(("f:apiVersion",), ("f:kind",), ("f:metadata",))
    )
    changes = compare(GADGET, merged, forced)
    taken = field_sets.union(changes.modified, changes.added)
    others = [owned.fields for who, owned in after.items() if who != managed_fields.applier("two")]
    assert not any(field_sets.intersection(fields, taken) for fields in others)


@given(CONFIGS, CONFIGS)
def test_dropped_fields_are_removed(first: Manifest, second: Manifest) -> None:
    merged, known = apply(EMPTY, first, {}, "one")
    after, _ = apply(merged, second, known, "one")
    left = fields_of(GADGET, after)
    assert not [
        path
        for path in field_sets.paths(field_sets.difference(left, fields_of(GADGET, second)))
        if path[0] == "f:spec" and field_sets.contains(fields_of(GADGET, first), path)
    ]


@given(CONFIGS)
def test_shared_fields_are_kept_until_both_drop_them(shared: Manifest) -> None:
    merged, known = apply(EMPTY, shared, {}, "one")
    merged, known = apply(merged, shared, known, "two")
    after, known = apply(merged, EMPTY, known, "one")
    assert compare(GADGET, after, merged) == ({}, {}, {})
    gone, _ = apply(after, EMPTY, known, "two")
    assert not gone.get("spec")


@given(CONFIGS, CONFIGS)
def test_an_update_owns_what_it_changes(live: Manifest, new: Manifest) -> None:
    _, known = apply(EMPTY, live, {}, "one")
    after = ownership.update(TERMS, live, new, known, managed_fields.Author(managed_fields.updater("up", "v1"), LATER))
    changes = compare(GADGET, live, new)
    changed = field_sets.union(changes.modified, changes.added)
    mine = after.get(managed_fields.updater("up", "v1"))
    assert (mine.fields if mine else {}) == changed
    theirs = after.get(managed_fields.applier("one"))
    if theirs is not None:
        assert not field_sets.intersection(theirs.fields, field_sets.union(changed, changes.removed))


def test_lists_keep_the_live_order_around_what_is_applied() -> None:
    def ports(*numbers: int) -> Manifest:
        return {**EMPTY, "spec": {"ports": [{"port": number, "protocol": "TCP"} for number in numbers]}}

    merged = merge(GADGET, ports(1, 2, 3), {**EMPTY, "spec": {"ports": [{"port": 3}, {"port": 2}, {"port": 9}]}})
    assert [port["port"] for port in merged["spec"]["ports"]] == [1, 3, 2, 9]


def test_items_are_distinguished_by_defaulted_keys() -> None:
    config = {**EMPTY, "spec": {"ports": [{"port": 1, "host": "a"}]}}
    merged = merge(GADGET, {**EMPTY, "spec": {"ports": [{"port": 1, "protocol": "TCP"}]}}, config)
    assert merged["spec"]["ports"] == [{"port": 1, "protocol": "TCP", "host": "a"}]
    assert list(fields_of(GADGET, config)["f:spec"]["f:ports"]) == ['k:{"port":1,"protocol":"TCP"}']


def test_old_updates_become_one_entry() -> None:
    known: Owners = {
        managed_fields.updater(f"m{at:02}", "v1"): managed_fields.Owned(
            field_sets.of((f"f:{at}",)), "v1", f"2030-01-01T00:00:{at:02}Z"
        )
        for at in range(12)
    }
    capped = managed_fields.cap_updaters(known)
    assert len(capped) == managed_fields.MAX_UPDATERS
    bucket = capped[managed_fields.updater(managed_fields.OLD_UPDATES, "v1")]
    assert bucket.fields == field_sets.of(("f:0",), ("f:1",), ("f:2",))
    assert bucket.time == "2030-01-01T00:00:02Z"


def test_entries_go_there_and_back() -> None:
    entries = managed_fields.encode(
        {
            managed_fields.applier("a", "status"): managed_fields.Owned(field_sets.of(("f:x",)), "v1", LATER),
            managed_fields.updater("b", "v1"): managed_fields.Owned(field_sets.of(("f:y", "f:z")), "v1"),
        }
    )
    assert [entry["manager"] for entry in entries] == ["a", "b"]
    assert managed_fields.encode(managed_fields.decode(entries)) == entries
    assert managed_fields.stated(entries) == managed_fields.decode(entries)


@pytest.mark.parametrize(
    "entries",
    [
        {},
        [{"operation": "Delete", "apiVersion": "v1", "fieldsType": "FieldsV1"}],
        [{"operation": "Apply", "fieldsType": "FieldsV1"}],
        [{"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV2"}],
        [{"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}}],
    ],
)
def test_entries_that_are_none(entries: Any) -> None:
    assert managed_fields.stated(entries) is None
