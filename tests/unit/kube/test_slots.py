"""Two merge patches as one: the same result on every document, or none."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from volcanoio.framework.effects import merge_diff
from volcanoio.kube.object_writer import overlay_merge_patch

KEYS = st.sampled_from("abc")
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers(0, 2), lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=3)


def without_nulls(content: Any) -> Any:
    if not isinstance(content, dict):
        return content
    return {key: without_nulls(value) for key, value in content.items() if value is not None}


def applied(document: Any, patch: Any) -> Any:
    """RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = applied(result.get(key), value)
    return result


@given(OBJECTS.map(without_nulls), OBJECTS, OBJECTS)
def test_one_patch_equals_two(document: Any, older: Any, newer: Any) -> None:
    both = overlay_merge_patch(older, newer)
    if both is not None:
        assert applied(document, both) == applied(applied(document, older), newer)


@given(OBJECTS.map(without_nulls), OBJECTS.map(without_nulls), OBJECTS.map(without_nulls))
def test_differences_that_follow_each_other_go_together(first: Any, second: Any, third: Any) -> None:
    both = overlay_merge_patch(merge_diff(first, second), merge_diff(second, third))
    if both is not None:
        assert applied(first, both) == third
