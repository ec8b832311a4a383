"""The benchmark of estimates asks about days of the engine; its figures follow from answers and starts."""

from __future__ import annotations

import pytest

from bench import estimates
from bench.day.engine_day import EngineDay, Load
from volcanoio.engine.estimates.intervals import Interval, Outcome
from volcanoio.engine.estimates.run_times import RunTimes


def test_days_of_the_engine_are_asked_and_answered() -> None:
    found = estimates.measure(Load(pods=500, nodes=20), days=2, train=1, seed=2)
    assert found["answers_on_held_out_days"] > 0
    assert found["jobs"] == 50
    assert 0 <= found["calibrated"]["coverage"] <= 1


def test_a_day_has_jobs_with_whole_seconds_and_the_places_of_all_pods() -> None:
    day = EngineDay(Load(pods=200, nodes=12), RunTimes(), day=0, seed=1).run()
    assert len(day.jobs) == 10
    assert all(len(job.places) == job.pods for job in day.jobs)
    assert all(float(job.finished).is_integer() for job in day.jobs)
    assert {place.ended - place.started for job in day.jobs for place in job.places} <= {59.0, 60.0, 61.0}


def test_figures_count_misses_on_both_sides() -> None:
    outcomes = [Outcome(Interval(10, 20, 30), seconds) for seconds in (5.0, 10.0, 25.0, 31.0)]
    found = estimates.figures(outcomes)
    assert (found["coverage"], found["earlier"], found["later"]) == (0.5, 0.25, 0.25)


def test_the_mean_has_only_waits_that_were_over() -> None:
    waits = [estimates.Wait(0, 10.0), estimates.Wait(5, 20.0), estimates.Wait(12, 4.0), estimates.Wait(30, 1.0)]
    assert estimates.smoothed(waits, 0.5, 0.0) == ([0.0, 0.0, 5.0, 12.25], 6.625)


@pytest.mark.parametrize(
    ("coverage", "loss", "passes"), [(0.8, 1.0, True), (0.9, 1.0, False), (0.7, 1.0, False), (0.8, 3.0, False)]
)
def test_what_passes(coverage: float, loss: float, passes: bool) -> None:
    figures = {
        "calibrated": {"coverage": coverage, "pinball_seconds": loss},
        "exponentially_weighted_mean": {"pinball_seconds": 2.0},
    }
    assert estimates.passed(figures) is passes
