"""The algebra of field sets."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.localcluster.apply.strategies import PATHS
from tests.localcluster.apply.strategies import field_sets as sets_of_paths
from volcanoio.localcluster.apiserver.apply import field_sets
from volcanoio.localcluster.apiserver.apply.field_sets import FieldSet, Path


def members(fields: FieldSet) -> set[Path]:
    return set(field_sets.paths(fields))


@given(sets_of_paths(), sets_of_paths())
def test_sets_of_paths_are_sets(one: FieldSet, other: FieldSet) -> None:
    assert members(field_sets.union(one, other)) == members(one) | members(other)
    assert members(field_sets.intersection(one, other)) == members(one) & members(other)
    assert members(field_sets.difference(one, other)) == members(one) - members(other)


@given(sets_of_paths(), sets_of_paths())
def test_a_field_is_removed_with_its_children(one: FieldSet, other: FieldSet) -> None:
    gone = members(other)
    left = {path for path in members(one) if not any(path[:at] in gone for at in range(1, len(path) + 1))}
    assert members(field_sets.without_below(one, other)) == left


@given(sets_of_paths(), PATHS)
def test_membership(fields: FieldSet, path: Path) -> None:
    assert field_sets.contains(fields, path) == (path in members(fields))
    assert field_sets.contains(field_sets.union(fields, field_sets.of(path)), path)
    assert not field_sets.contains(field_sets.difference(fields, field_sets.of(path)), path)


@given(sets_of_paths(), sets_of_paths())
def test_the_form_is_canonical(one: FieldSet, other: FieldSet) -> None:
    """Equal sets are equal JSON, however they came about; no field is named that has no members."""
    for found in (
        field_sets.union(one, other),
        field_sets.intersection(one, other),
        field_sets.difference(one, other),
        field_sets.without_below(one, other),
    ):
        assert found == field_sets.of(*field_sets.paths(found))
        assert field_sets.parse(found) == found


@given(sets_of_paths(), sets_of_paths())
def test_operands_stay_as_they_are(one: FieldSet, other: FieldSet) -> None:
    before = members(one), members(other)
    field_sets.union(one, other)
    field_sets.intersection(one, other)
    field_sets.difference(one, other)
    assert (members(one), members(other)) == before


def test_steps_are_read_into_one_form() -> None:
    assert field_sets.canonical('k:{"b": 1,  "a":"x"}') == 'k:{"a":"x","b":1}'
    assert field_sets.canonical('v:"a<b"') == 'v:"a\\u003cb"'
    assert field_sets.item({"port": 80, "name": "x"}) == 'k:{"name":"x","port":80}'
    with pytest.raises(ValueError, match="is no step"):
        field_sets.canonical("x:1")
    with pytest.raises(ValueError, match=r"k:\{"):
        field_sets.canonical("k:{")


def test_paths_are_shown_and_sorted_as_conflicts_name_them() -> None:
    found = field_sets.of(
        ("f:spec", 'k:{"port":443}', "f:x"),
        ("f:spec", 'k:{"port":80}', "f:x"),
        ("f:spec",),
        ("f:metadata", "f:finalizers", 'v:"a/b"'),
        ("f:spec", "i:0"),
    )
    assert [field_sets.shown_path(path) for path in field_sets.paths(found)] == [
        ".spec",
        '.metadata.finalizers[="a/b"]',
        ".spec[0]",
        ".spec[port=80].x",
        ".spec[port=443].x",
    ]
