"""Quick answers about types and numbers are never other than the thorough ones."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.localcluster.apiserver.apimachinery.objects import decode, encode
from volcanoio.localcluster.apiserver.schema.builtin_types import check_part, is_exact
from volcanoio.localcluster.apiserver.schema.equality import write_whole_floats

VALUES = st.none() | st.booleans() | st.integers(0, 2) | st.just(1.0) | st.sampled_from(["", "a"])
OWNERS = st.lists(st.dictionaries(st.sampled_from(["name", "controller", "x"]), VALUES, max_size=2), max_size=2)
METADATA: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(["name", "generation", "labels", "ownerReferences", "managedFields", "unknown"]),
    VALUES
    | st.dictionaries(st.sampled_from(["a", "b"]), VALUES, max_size=2)
    | OWNERS
    | st.lists(st.fixed_dictionaries({"fieldsV1": st.just({"f:a": {}})}), max_size=1),
    max_size=3,
)


@given(METADATA)
def test_exact_types_have_no_errors(metadata: dict[str, Any]) -> None:
    if is_exact(metadata, "V1ObjectMeta"):
        before = copy.deepcopy(metadata)
        assert check_part(metadata, "V1ObjectMeta", "metadata") == ([], [])
        assert metadata == before


@pytest.mark.parametrize("text", ["[1.0]", '{"a":1.0}', '{"a": -12.00}', '{"a":1e3}', '{"a":[0,2.5E+1]}', "[ 3.0 ]"])
def test_whole_floats_are_found(text: str) -> None:
    obj = decode(text.encode())
    write_whole_floats({"root": obj}, text.encode())
    assert b"." not in encode(obj)


def test_digits_of_a_uid_are_no_number() -> None:
    obj = {"uid": "b45518e1-5fa6", "n": 1.0}
    write_whole_floats(obj, encode({"uid": "b45518e1-5fa6"}))
    assert obj["n"].__class__ is float  # not even looked at
