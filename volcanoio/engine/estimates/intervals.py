"""Intervals from samples, their calibration by past answers, and how good they were.

A calibration is learned from pairs of what was answered and what happened. Each quantile is corrected by a factor of
its own, so that it is exceeded as often as it claims (conformal prediction with ratios); factors are positive, so that
a larger quantile stays larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from volcanoio.engine.estimates.run_times import Floats

LEVELS = (0.1, 0.5, 0.9)
"""Probabilities with which a start comes no later than p10, p50 and p90: 80 % are between the outer two."""
OFFSET = 10.0
"""Seconds that are added to both times of a ratio: ratios of times near zero mean nothing."""
LEAST_PAIRS = 20
"""Least number of pairs for a calibration."""


class Interval(msgspec.Struct, frozen=True):
    """Seconds until a job starts; inf beyond what was simulated."""

    p10: float
    p50: float
    p90: float

    def contains(self, seconds: float) -> bool:
        """Return whether a start was within the interval."""
        return self.p10 <= seconds <= self.p90


class Outcome(NamedTuple):
    """An answer, not calibrated, and what happened, in seconds from the question."""

    answer: Interval
    seconds: float


class Calibration(msgspec.Struct, frozen=True):
    """Factors of the three quantiles, and the number of past answers behind them; by default, guessed ones."""

    factors: tuple[float, float, float] = (0.75, 1.0, 1.5)
    answers: int = 0

    def apply(self, interval: Interval) -> Interval:
        """Return the interval with its quantiles corrected, in ascending order."""
        raw = (interval.p10, interval.p50, interval.p90)
        corrected = [max(0.0, (each + OFFSET) * by - OFFSET) for each, by in zip(raw, self.factors, strict=True)]
        return Interval(*np.maximum.accumulate(corrected).tolist())


def interval_of(samples: Floats) -> Interval:
    """Return the quantiles of equally likely starts."""
    ordered = np.sort(samples)
    at = [min(int(level * len(ordered)), len(ordered) - 1) for level in LEVELS]
    return Interval(*(float(ordered[each]) for each in at))


def calibrate(outcomes: Sequence[Outcome]) -> Calibration:
    """Return the factors with which past answers would have been right; the guessed ones for too few of them."""
    known = [each for each in outcomes if np.isfinite((each.answer.p90, each.seconds)).all()]
    if len(known) < LEAST_PAIRS:
        return Calibration()
    seconds = np.array([each.seconds for each in known]) + OFFSET
    answers = np.array([(each.answer.p10, each.answer.p50, each.answer.p90) for each in known]) + OFFSET
    ratios = np.sort(seconds.reshape(-1, 1) / answers, axis=0)
    count = len(known)
    factors = [
        float(ratios[min(max(int(np.ceil(level * (count + 1))) - 1, 0), count - 1), at])
        for at, level in enumerate(LEVELS)
    ]
    return Calibration(factors=(factors[0], factors[1], factors[2]), answers=count)


def pinball(answer: Interval, seconds: float) -> float:
    """Return the mean pinball loss of the three quantiles, in seconds: smaller is better."""
    losses = (
        max(level * (seconds - quantile), (level - 1) * (seconds - quantile))
        for level, quantile in zip(LEVELS, (answer.p10, answer.p50, answer.p90), strict=True)
    )
    return sum(losses) / len(LEVELS)


def coverage(outcomes: Sequence[Outcome]) -> float:
    """Return the share of answers whose interval contained what happened."""
    return sum(each.answer.contains(each.seconds) for each in outcomes) / len(outcomes)
