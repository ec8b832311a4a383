"""Index ranges as they are stored."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from volcanoio.engine.jobs.pods.index_ranges import format_indexes, parse_indexes


def test_ranges_are_short() -> None:
    assert format_indexes([3, 0, 1, 2, 7]) == "0-3,7"
    assert format_indexes([]) == ""


@given(st.sets(st.integers(0, 400)))
def test_compact_ranges_are_read_back(indexes: set[int]) -> None:
    assert parse_indexes(format_indexes(indexes)) == sorted(indexes)


def test_scattered_indexes_are_a_bitmap_that_grows_with_the_task_alone() -> None:
    text = format_indexes(range(0, 60_000, 2))
    assert text.startswith("bits:")
    assert len(text) <= 60_000 / 6 + 10
    assert parse_indexes(text) == list(range(0, 60_000, 2))


def test_no_text_makes_more_indexes_than_a_task_can_have() -> None:
    assert parse_indexes("0-99999999999,4") == [4]
    assert parse_indexes("bits:%%") == []


@given(st.text())
def test_garbage_is_no_index(text: str) -> None:
    assert all(index >= 0 for index in parse_indexes(text.replace("-", "x")))
