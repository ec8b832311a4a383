"""When the next scheduling cycle opens."""

from __future__ import annotations

from math import inf


class Pace:
    """The rule: the first event after idleness opens a cycle at once; behind a cycle there is a debounce.

    No gap between openings is longer than the period. A cycle cut short is followed by the next at once. All times
    are seconds of one monotonic clock.
    """

    def __init__(self, *, debounce: float, period: float) -> None:
        if debounce < 0 or period <= 0:
            msg = f"debounce {debounce} and schedule period {period} are in seconds: give 0 or more, and more than 0"
            raise ValueError(msg)
        self.period = period
        self._debounce = debounce
        self._opened = -inf
        self._closed = -inf
        self._wanted = False
        self._cut = False

    @property
    def wanted(self) -> bool:
        """Whether something has happened that could change a decision, so that only the debounce is waited for."""
        return self._wanted or self._cut

    def want(self) -> None:
        """Something has happened that could change a decision."""
        self._wanted = True

    def open(self, now: float) -> None:
        """A cycle opens on all that is known."""
        self._opened = now
        self._wanted = self._cut = False

    def close(self, now: float, *, cut: bool = False, fault: bool = False) -> None:
        """The cycle has ended; `cut` when there was more to do, `fault` when trying again at once would not help."""
        self._closed = now + self.period if fault else now
        self._cut = cut

    def wait(self, now: float) -> float:
        """How long until the next cycle opens, if nothing more happens; 0 when it is due."""
        if self._cut:
            return 0.0
        due = self._opened + self.period
        if self._wanted:
            due = min(due, self._closed + self._debounce)
        return max(due - now, 0.0)
