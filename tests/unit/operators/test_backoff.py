"""Back-off doubles up to its cap; jitter depends on the key or on the number given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.framework.backoff import Backoff, jittered, key_fraction


def test_delays_double_up_to_the_cap() -> None:
    backoff = Backoff(base=0.5, cap=5.0)
    assert [backoff.delay(failures) for failures in range(-1, 7)] == [0, 0, 0.5, 1, 2, 4, 5, 5]
    assert backoff.delay(10_000) == 5.0


def test_another_factor() -> None:
    assert [Backoff(base=1.0, cap=60.0, factor=4.0).delay(failures) for failures in (1, 2, 3, 4)] == [1, 4, 16, 60]


@pytest.mark.parametrize(("random", "expected"), [(0.0, 2.0), (0.5, 3.0), (1.0, 4.0)])
def test_a_random_number_scales_the_delay(random: float, expected: float) -> None:
    assert Backoff(base=1.0, cap=60.0).delay(3, random) == expected


@given(st.integers(1, 100))
def test_growing_gives_the_same_delays_as_counting(failures: int) -> None:
    backoff, delay = Backoff(base=10.0, cap=300.0), 0.0
    for _ in range(failures):
        delay = backoff.grow(delay)
    assert delay == backoff.delay(failures)


@given(st.text())
def test_jitter_of_a_key_is_always_the_same(key: str) -> None:
    assert 60.0 <= jittered(60.0, key) == jittered(60.0, key) < 120.0
    assert 0.0 <= key_fraction(key, 1000) < 1.0
