"""`Window`: how many requests may be in flight, learned from the server. Additive increase, multiplicative decrease."""

from __future__ import annotations


class Window:
    """Opens by one for each windowful of successes, halves on overload, and pauses as long as the server asks.

    Times are seconds of a monotonic clock. Several 429s to requests that were under way together are one overload.
    """

    def __init__(self, *, start: int = 64, least: int = 4, most: int = 256) -> None:
        self._least = least
        self._most = most
        self._size = float(min(start, most))
        self._cut_at = float("-inf")
        self._paused_until = float("-inf")
        self.in_flight = 0

    @property
    def size(self) -> int:
        """How many may be in flight."""
        return int(self._size)

    def has_room(self, now: float) -> bool:
        """Whether one more may be sent."""
        return self.in_flight < self.size and now >= self._paused_until

    def pause_left(self, now: float) -> float:
        """Seconds until sending may go on; 0 when it may."""
        return max(0.0, self._paused_until - now)

    def succeeded(self) -> None:
        """A request was answered without complaint."""
        self._size = min(float(self._most), self._size + 1.0 / self._size)

    def overloaded(self, *, sent_at: float, now: float, retry_after: float) -> None:
        """A request sent at `sent_at` was answered 429."""
        if sent_at > self._cut_at:
            self._size = max(float(self._least), self._size / 2)
            self._cut_at = now
        self._paused_until = max(self._paused_until, now + retry_after)
