"""Which jobs changed since somebody last asked: plugins that sum over jobs look at these alone."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.jobs import JobInfo


MANY = 20_000
"""Changes that are kept at most, beside those there were at first: who does not ask for so long is told of all."""


class Changes:
    """One set of jobs for each who asks; it is forgotten with who asked. Without any, nothing is kept."""

    def __init__(self) -> None:
        self._sets: list[tuple[dict[str, JobInfo], int]] = []
        """Each with the number of entries at which it is given up."""
        self._of: weakref.WeakKeyDictionary[object, dict[str, JobInfo]] = weakref.WeakKeyDictionary()

    def mark(self, job: JobInfo) -> None:
        """A job changed, came or went."""
        for changed, most in self._sets:
            changed[job.key] = job
            if len(changed) > most:
                self._forget(changed)

    def since(self, owner: object, everything: Iterable[JobInfo], most: int | None = None) -> list[JobInfo]:
        """Jobs that changed since the owner last asked, up to `most` of them; the first time everything."""
        changed = self._of.get(owner)
        if changed is None:
            changed = self._of[owner] = {job.key: job for job in everything}
            self._sets.append((changed, MANY + len(changed)))
            weakref.finalize(owner, self._forget, changed)
        if most is None or len(changed) <= most:
            jobs = list(changed.values())
            changed.clear()
            return jobs
        return [changed.pop(key) for key in list(islice(changed, most))]

    def _forget(self, changed: dict[str, JobInfo]) -> None:
        self._sets = [entry for entry in self._sets if entry[0] is not changed]
        for owner, known in list(self._of.items()):
            if known is changed:
                del self._of[owner]
