"""Back-off of a key after a refused write: a conflict waits for the newer version, other refusals ever longer."""

from __future__ import annotations

from msgspec import Struct

from volcanoio.framework.backoff import Backoff

CONFLICT = 409
CONFLICT_WAIT = 1.0
"""Seconds after which a conflict is tried again even if no newer version was observed."""
BACKOFF = Backoff(base=2.0, cap=60.0)
"""Delays after other refusals."""


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
        return WriteBackoff(failures, now + BACKOFF.delay(failures))

    def is_active(self, now: float, revision: int) -> bool:
        """Whether to wait still, with the object at `revision`."""
        return now < self.until and not -1 < self.revision < revision
