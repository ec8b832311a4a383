"""Calibrated intervals contain what they claim, and stay in order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.engine.estimates.intervals import (
    Calibration,
    Interval,
    Outcome,
    calibrate,
    coverage,
    interval_of,
    pinball,
)


def answers(number: int, seed: int, bias: float, spread: float) -> list[Outcome]:
    """Return answers of a model that is wrong by a factor and too sure of itself."""
    drawn = np.random.default_rng(seed)
    answered = drawn.uniform(20, 2000, number)
    actual = answered * bias * np.exp(drawn.normal(0, spread, number))
    return [
        Outcome(Interval(each, each, each * 1.01), float(what)) for each, what in zip(answered, actual, strict=True)
    ]


@pytest.mark.parametrize(("bias", "spread"), [(1.0, 0.1), (2.0, 0.3), (0.4, 0.8)])
def test_calibration_on_some_answers_holds_for_others(bias: float, spread: float) -> None:
    learned = calibrate(answers(2000, 1, bias, spread))
    others = [Outcome(learned.apply(each.answer), each.seconds) for each in answers(4000, 2, bias, spread)]
    assert 0.77 < coverage(others) < 0.83
    assert 0.08 < np.mean([each.seconds < each.answer.p10 for each in others]) < 0.12
    assert 0.46 < np.mean([each.seconds < each.answer.p50 for each in others]) < 0.54


def test_calibration_reduces_the_loss_of_a_wrong_model() -> None:
    learned = calibrate(answers(500, 3, 2.0, 0.3))
    others = answers(500, 4, 2.0, 0.3)
    before = np.mean([pinball(*each) for each in others])
    after = np.mean([pinball(learned.apply(each.answer), each.seconds) for each in others])
    assert after < before / 2


def test_few_answers_calibrate_nothing() -> None:
    assert calibrate(answers(19, 1, 2.0, 0.1)) == Calibration()
    assert calibrate([Outcome(Interval(1, np.inf, np.inf), 5.0)] * 30) == Calibration()


def test_quantiles_of_samples() -> None:
    assert interval_of(np.arange(100.0)) == Interval(10.0, 50.0, 90.0)
    assert interval_of(np.array([5.0, np.inf])) == Interval(5.0, np.inf, np.inf)


@pytest.mark.parametrize(("seconds", "loss"), [(10.0, (0.0 + 0.0 + 0.0)), (20.0, (0.1 + 0.5 + 0.9) * 10 / 3)])
def test_the_loss_is_that_of_koenker_and_bassett(seconds: float, loss: float) -> None:
    assert pinball(Interval(10, 10, 10), seconds) == pytest.approx(loss)


_TIMES = st.lists(st.floats(0, 1e6), min_size=3, max_size=3).map(sorted)


@given(_TIMES, _TIMES, st.tuples(*[st.floats(0.01, 50)] * 3))
def test_corrected_quantiles_are_in_order_and_so_are_answers(
    ahead: list[float], behind: list[float], factors: tuple[float, float, float]
) -> None:
    learned = Calibration(factors=factors, answers=99)
    first = learned.apply(Interval(*map(min, ahead, behind)))
    second = learned.apply(Interval(*map(max, ahead, behind)))
    assert 0 <= first.p10 <= first.p50 <= first.p90
    assert (first.p10, first.p50, first.p90) <= (second.p10, second.p50, second.p90)
    assert first.p10 <= second.p10
    assert first.p90 <= second.p90
