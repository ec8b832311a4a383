"""When a key goes on after a refused write: after a conflict with the newer version, else later and later."""

from __future__ import annotations

from msgspec import Struct

CONFLICT = 409
CONFLICT_WAIT = 1.0
"""Seconds after which a conflict is tried again even if no newer version was seen."""
LONGEST = 60.0
"""Seconds between two tries at most."""


class Pace(Struct, frozen=True):
    """How many writes were refused in a row, and until when (epoch seconds) none is sent.

    `revision` is the version that a conflict proved old: a newer one ends the wait. -1 when there was no conflict.
    """

    failures: int = 0
    until: float = 0.0
    revision: int = -1

    def refused(self, code: int, now: float, revision: int) -> Pace:
        """After another refusal of a write that was computed from `revision`."""
        failures = self.failures + 1
        if code == CONFLICT:
            return Pace(failures, now + CONFLICT_WAIT, revision)
        return Pace(failures, now + min(2.0 ** min(failures, 8), LONGEST))

    def holds(self, now: float, revision: int) -> bool:
        """Whether to wait still, with the object at `revision`."""
        return now < self.until and not -1 < self.revision < revision
