"""Exponential back-off with jitter: the delays between retries, everywhere in the code base.

Pure: a caller counts the failures and passes what makes jitter differ (a key, or a random number).
"""

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
