"""Timing of scheduling cycles: when the next one opens, and its time budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from volcanoio.engine.scheduling.session.context import Budget
from volcanoio.framework.events import Observed
from volcanoio.kube.clock import Clock


class CycleTimer:
    """Schedule of cycles: the first event after an idle time opens a cycle at once, later ones wait for a debounce.

    The time between two openings is at most the period. A cycle that was cut short is followed by the next at once. All
    times are seconds of one monotonic clock.
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
        """Whether an event that could change a decision occurred, so that only the debounce is waited for."""
        return self._wanted or self._cut

    def want(self) -> None:
        """Request a cycle, because an event could change a decision."""
        self._wanted = True

    def open(self, now: float) -> None:
        """Record that a cycle opened, which covers all events so far."""
        self._opened = now
        self._wanted = self._cut = False

    def close(self, now: float, *, cut: bool = False, fault: bool = False) -> None:
        """Record that the cycle ended; `cut` if more was left to do, `fault` if an immediate retry would not help."""
        self._closed = now + self.period if fault else now
        self._cut = cut

    def wait(self, now: float) -> float:
        """Return the seconds until the next cycle opens if no event arrives; 0 when it is due."""
        if self._cut:
            return 0.0
        due = self._opened + self.period
        if self._wanted:
            due = min(due, self._closed + self._debounce)
        return max(due - now, 0.0)


SHORTEST_CYCLE = 0.002
"""Seconds that a cycle has for its gangs though a latency-bound pod waits: about twice what its opening and close cost
with 10,000 nodes.
"""


class TimeBudget(Budget):
    """Time limit for the gangs of a cycle. At least one gang is always tried, so that every cycle makes progress.

    Time counts from the first gang boundary, and at most a fifth of the budget between two boundaries: otherwise
    one-time work of an action (sorting a backlog of 100,000 jobs) would leave no time for its gangs. `cut_boundary` is
    the boundary (counted from 1) at which the time was up, 0 before that. After `hurry` it is up `SHORTEST_CYCLE`
    seconds after the first boundary.
    """

    def __init__(
        self, clock: Clock, seconds: float, arrivals: Callable[[int], Sequence[Observed]] = lambda _boundary: ()
    ) -> None:
        super().__init__(arrivals)
        self._clock = clock
        self._remaining = seconds * clock.rate
        self._max_share = self._remaining / 5
        self._last = self._first = 0.0
        self._hurried = False
        self._shortest = SHORTEST_CYCLE * clock.rate
        self._checks = 0
        self.cut_boundary = 0

    def hurry(self) -> None:
        """End the cycle soon: latency-bound pods wait for the next one, or events to be folded."""
        self._hurried = True

    def check(self) -> bool:
        """Count a boundary and return whether the time is up; once True, it stays True."""
        self._checks += 1
        now = self._clock.monotonic()
        if self._checks == 1:
            self._first = now
        else:
            self._remaining -= min(now - self._last, self._max_share)
            is_up = self._remaining <= 0 or (self._hurried and now - self._first >= self._shortest)
            if not self.cut_boundary and is_up:
                self.cut_boundary = self._checks
        self._last = now
        return bool(self.cut_boundary)
