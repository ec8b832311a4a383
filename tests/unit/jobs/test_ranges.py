"""Index ranges as they are stored."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from volcanoio.engine.jobs.ranges import compact, expand


def test_ranges_are_short() -> None:
    assert compact([3, 0, 1, 2, 7]) == "0-3,7"
    assert compact([]) == ""


@given(st.sets(st.integers(0, 400)))
def test_what_was_compacted_comes_back(indexes: set[int]) -> None:
    assert expand(compact(indexes)) == sorted(indexes)


def test_scattered_indexes_are_a_bitmap_that_grows_with_the_task_alone() -> None:
    text = compact(range(0, 60_000, 2))
    assert text.startswith("bits:")
    assert len(text) <= 60_000 / 6 + 10
    assert expand(text) == list(range(0, 60_000, 2))


def test_no_text_makes_more_indexes_than_a_task_can_have() -> None:
    assert expand("0-99999999999,4") == [4]
    assert expand("bits:%%") == []


@given(st.text())
def test_garbage_is_no_index(text: str) -> None:
    assert all(index >= 0 for index in expand(text.replace("-", "x")))
