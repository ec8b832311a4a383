"""Run times come from the most specific evidence, and what has run for long is not expected to end at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.accounting.histories import finished
from volcanoio.engine.accounting.finished_jobs import FinishedJob
from volcanoio.engine.estimates.run_times import RunTimes, Source, age_of, remaining


def jobs(seconds: float, number: int = 5, **changes: object) -> list[FinishedJob]:
    """Return jobs whose one pod ran for that time."""
    return [finished(f"{changes}-{each}", pod_seconds=seconds, **changes) for each in range(number)]


HISTORY = [
    *jobs(60.0, name="train-1"),
    *jobs(600.0, name="sweep-1", owner="ben"),
    *jobs(10.0, queue="silver", owner="cleo"),
    *jobs(1.0, phase="Failed", name="train-2"),  # failed jobs show nothing about run times
]


@pytest.mark.parametrize(
    ("owner", "name", "queue", "estimate", "seconds", "source"),
    [
        ("ann", "train-9", "gold", None, 60, Source.SAME_JOB),
        ("ben", "sweep-2", "gold", None, 600, Source.SAME_JOB),
        ("dan", "new", "silver", None, 10, Source.QUEUE),
        ("dan", "new", "bronze", None, 60, Source.ALL),
        ("ann", "train-9", "gold", 3600.0, 3600, Source.ESTIMATE),
    ],
)
def test_the_most_specific_evidence_is_used(
    owner: str, name: str, queue: str, estimate: float | None, seconds: float, source: Source
) -> None:
    found = RunTimes(HISTORY).of("ml", owner, name, queue, estimate)
    assert found.source is source
    assert np.median(found.seconds) == pytest.approx(seconds, rel=0.05)


def test_estimates_are_corrected_by_how_far_the_owners_were_off() -> None:
    found = RunTimes(jobs(1200.0, estimate=600.0)).of("ml", "ann", "other", "gold", 60.0)
    assert found.seconds.tolist() == [120.0] * 5


def test_a_single_job_is_little_evidence() -> None:
    found = RunTimes(jobs(100.0, number=1)).of("ml", "x", "y", "z")
    assert found.jobs == 1
    assert found.seconds[0] < 60
    assert found.seconds[-1] > 180


@given(
    st.lists(st.floats(1, 1e5), min_size=1, max_size=20),
    st.lists(st.floats(0, 1e6), min_size=1, max_size=5),
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 1, exclude_max=True),
)
def test_what_remains_is_positive_and_grows_with_the_rank(
    seconds: list[float], ages: list[float], one: float, other: float
) -> None:
    known, age = np.sort(seconds), np.array(ages)
    low, high = (remaining(known, age, part) for part in sorted((one, other)))
    assert (low >= 0).all()
    assert (low <= high).all()
    within = age < known[0]
    assert np.isin(np.round(high + age, 6)[within & (high > 0.1)], np.round(known, 6)).all()


def test_a_pod_that_seems_to_be_over_by_less_than_a_second_ends_soon() -> None:
    assert remaining(np.array([60.0]), age_of(np.array([0.0, 30.0]), 60.4), 0.5).round(1).tolist() == [0.1, 30.1]
    assert remaining(np.array([60.0]), np.array([70.0]), 0.5).tolist() == [70.0]
