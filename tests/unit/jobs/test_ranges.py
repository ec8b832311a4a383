"""Index ranges as they are stored."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from volcanoio.engine.jobs.ranges import compact, expand


def test_ranges_are_short() -> None:
    assert compact([3, 0, 1, 2, 7]) == "0-3,7"
    assert compact([]) == ""


@given(st.sets(st.integers(0, 200)))
def test_what_was_compacted_comes_back(indexes: set[int]) -> None:
    assert expand(compact(indexes)) == sorted(indexes)


@given(st.text())
def test_garbage_is_no_index(text: str) -> None:
    assert all(index >= 0 for index in expand(text.replace("-", "x")))
