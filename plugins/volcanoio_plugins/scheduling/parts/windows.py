"""Daily windows of local time, such as 22:00-06:00."""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple

_FORM = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)\s*-\s*([01]?\d|2[0-3]):([0-5]\d)")


class Window(NamedTuple):
    """From `start` to `end`, in minutes after midnight; an end that is not after the start is on the next day."""

    start: int
    end: int

    def open_at(self, now: float) -> bool:
        """Whether that time (epoch seconds) is within it, the end not included."""
        local = datetime.fromtimestamp(now)  # noqa: DTZ006 - local time is what people write
        minute = local.hour * 60 + local.minute
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


def window(text: str) -> Window | None:
    """The window a text such as `22:00-06:00` describes; None when it is none."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        return None
    hour, minute, end_hour, end_minute = map(int, match.groups())
    return Window(hour * 60 + minute, end_hour * 60 + end_minute)
