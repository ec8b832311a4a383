"""Exponential back-off with jitter: the delays between retries, everywhere in the code base.

`WriteBackoff` is that of a controller's key after a refused write: a conflict waits for the newer version, other
refusals ever longer.

Pure: a caller counts the failures and passes what makes jitter differ (a key, or a random number).
"""

from __future__ import annotations

from zlib import crc32

from msgspec import Struct


class Backoff(Struct, frozen=True):
    """Delays in seconds that grow by `factor` with each consecutive failure, from `base` up to `cap`."""

    base: float
    cap: float
    factor: float = 2.0

    def delay(self, failures: int, random: float = 1.0) -> float:
        """Return the delay after that many consecutive failures; 0 for none.

        `random` in [0, 1] scales the delay to between half and all of it.
        """
        if failures <= 0:
            return 0.0
        steps = min(failures - 1, 60)  # a float has no room for much larger powers
        return min(self.cap, self.base * self.factor**steps) * (0.5 + random / 2)

    def grow(self, delay: float) -> float:
        """Return the delay that follows `delay`; 0 is followed by `base`."""
        return min(self.cap, delay * self.factor) if delay else self.base


def key_fraction(key: str, steps: int = 64) -> float:
    """Return a number in [0, 1) that depends on the key only, out of `steps` evenly spaced ones."""
    return crc32(key.encode()) % steps / steps


def jittered(seconds: float, key: str) -> float:
    """Return once to twice `seconds`, depending on the key only, so that many keys do not come due together."""
    return seconds * (1 + key_fraction(key))


class TokenBucket:
    """Limit of a rate: `burst` at once, then as many per second as `take` is called with."""

    def __init__(self, burst: float) -> None:
        self._burst = self._tokens = burst
        self._at = float("-inf")

    def take(self, now: float, per_second: float) -> bool:
        """Take a token, if there is one."""
        if now > self._at:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * per_second)
            self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


CONFLICT = 409
CONFLICT_WAIT = 1.0
"""Seconds after which a conflict is tried again even if no newer version was observed."""
WRITE_BACKOFF = Backoff(base=2.0, cap=60.0)
"""Delays after other refusals of a write."""


class WriteBackoff(Struct, frozen=True):
    """How many writes were refused in a row, and until when (epoch seconds) none is sent.

    `revision` is the version that a conflict proved old: a newer one ends the wait. -1 when there was no conflict.
    """

    failures: int = 0
    until: float = 0.0
    revision: int = -1

    def after_refusal(self, code: int, now: float, revision: int) -> WriteBackoff:
        """Return the back-off after another refused write that was computed from `revision`."""
        failures = self.failures + 1
        if code == CONFLICT:
            return WriteBackoff(failures, now + CONFLICT_WAIT, revision)
        return WriteBackoff(failures, now + WRITE_BACKOFF.delay(failures))

    def is_active(self, now: float, revision: int) -> bool:
        """Return whether to wait still, with the object at `revision`."""
        return now < self.until and not -1 < self.revision < revision
