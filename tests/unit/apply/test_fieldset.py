"""The algebra of field sets."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.unit.apply.strategies import PATHS, field_sets
from volcanoio.localcluster.apiserver.apply import elements, fieldset
from volcanoio.localcluster.apiserver.apply.fieldset import FieldSet, Path


def members(fields: FieldSet) -> set[Path]:
    return set(fieldset.paths(fields))


@given(field_sets(), field_sets())
def test_sets_of_paths_are_sets(one: FieldSet, other: FieldSet) -> None:
    assert members(fieldset.union(one, other)) == members(one) | members(other)
    assert members(fieldset.intersection(one, other)) == members(one) & members(other)
    assert members(fieldset.difference(one, other)) == members(one) - members(other)


@given(field_sets(), field_sets())
def test_a_field_goes_with_what_is_below_it(one: FieldSet, other: FieldSet) -> None:
    gone = members(other)
    left = {path for path in members(one) if not any(path[:at] in gone for at in range(1, len(path) + 1))}
    assert members(fieldset.without_below(one, other)) == left


@given(field_sets(), PATHS)
def test_membership(fields: FieldSet, path: Path) -> None:
    assert fieldset.contains(fields, path) == (path in members(fields))
    assert fieldset.contains(fieldset.union(fields, fieldset.of(path)), path)
    assert not fieldset.contains(fieldset.difference(fields, fieldset.of(path)), path)


@given(field_sets(), field_sets())
def test_the_form_is_canonical(one: FieldSet, other: FieldSet) -> None:
    """Equal sets are equal JSON, however they came about; no field is named that has no members."""
    for found in (
        fieldset.union(one, other),
        fieldset.intersection(one, other),
        fieldset.difference(one, other),
        fieldset.without_below(one, other),
    ):
        assert found == fieldset.of(*fieldset.paths(found))
        assert fieldset.parse(found) == found


@given(field_sets(), field_sets())
def test_operands_stay_as_they_are(one: FieldSet, other: FieldSet) -> None:
    before = members(one), members(other)
    fieldset.union(one, other)
    fieldset.intersection(one, other)
    fieldset.difference(one, other)
    assert (members(one), members(other)) == before


def test_steps_are_read_into_one_form() -> None:
    assert elements.canonical('k:{"b": 1,  "a":"x"}') == 'k:{"a":"x","b":1}'
    assert elements.canonical('v:"a<b"') == 'v:"a\\u003cb"'
    assert elements.item({"port": 80, "name": "x"}) == 'k:{"name":"x","port":80}'
    with pytest.raises(ValueError, match="is no step"):
        elements.canonical("x:1")
    with pytest.raises(ValueError, match=r"k:\{"):
        elements.canonical("k:{")


def test_paths_are_shown_and_sorted_as_conflicts_name_them() -> None:
    found = fieldset.of(
        ("f:spec", 'k:{"port":443}', "f:x"),
        ("f:spec", 'k:{"port":80}', "f:x"),
        ("f:spec",),
        ("f:metadata", "f:finalizers", 'v:"a/b"'),
        ("f:spec", "i:0"),
    )
    assert [fieldset.shown(path) for path in fieldset.paths(found)] == [
        ".spec",
        '.metadata.finalizers[="a/b"]',
        ".spec[0]",
        ".spec[port=80].x",
        ".spec[port=443].x",
    ]
