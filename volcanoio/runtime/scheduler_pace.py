"""When the next scheduling cycle opens, and when one has taken long enough."""

from __future__ import annotations

from math import inf

from volcanoio.kube.clock import Clock


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


class TimeBudget:
    """Time for the gangs of a cycle, from its first gang boundary on: one gang is always tried, so that work goes on.

    Between two boundaries no more than a fifth counts: what an action does once (sorting a backlog of 100,000 jobs)
    would else leave no time for its gangs. `cut_at` is the boundary (counted from 1) at which the time was up, 0 while
    it is not.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._left = seconds * clock.rate
        self._most = self._left / 5
        self._last = 0.0
        self._asked = 0
        self.cut_at = 0

    def exhausted(self) -> bool:
        """Whether the time is up; once it is, it stays so."""
        self._asked += 1
        now = self._clock.monotonic()
        if self._asked > 1:
            self._left -= min(now - self._last, self._most)
            if not self.cut_at and self._left <= 0:
                self.cut_at = self._asked
        self._last = now
        return bool(self.cut_at)
