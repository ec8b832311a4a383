"""Waiting between tries: exponential, jittered from a seeded source, never shorter than the server asked for."""

from __future__ import annotations

import random


class Backoff:
    """The waits of one thing that is retried. `base` and `cap` in seconds; the n-th wait lies in [½, 1] × base × 2ⁿ."""

    def __init__(self, rng: random.Random, *, base: float = 0.2, cap: float = 30.0) -> None:
        self._rng = rng
        self._base = base
        self._cap = cap
        self._failures = 0

    @property
    def failures(self) -> int:
        """How often it failed since it last worked."""
        return self._failures

    def reset(self) -> None:
        """It worked."""
        self._failures = 0

    def next(self, at_least: float = 0.0) -> float:
        """It failed: the seconds to wait. `at_least` is the server's Retry-After; jitter is added, not taken."""
        wait = min(self._cap, self._base * 2.0 ** min(self._failures, 30))
        self._failures += 1
        jittered = wait * (0.5 + self._rng.random() / 2)
        return at_least + jittered / 4 if at_least > jittered else jittered
