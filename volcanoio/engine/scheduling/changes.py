"""Which jobs changed since somebody last asked: plugins that sum over jobs look at these alone."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.jobs import JobInfo


MANY = 20_000
"""Changes that are kept at most: who has not asked for so long is told of everything."""


class Changes:
    """One set of jobs for each who asks; it is forgotten with who asked. Without any, nothing is kept."""

    def __init__(self) -> None:
        self._sets: list[dict[str, JobInfo]] = []
        self._of: weakref.WeakKeyDictionary[object, dict[str, JobInfo]] = weakref.WeakKeyDictionary()

    def mark(self, job: JobInfo) -> None:
        """A job changed, came or went."""
        for changed in self._sets:
            changed[job.key] = job
            if len(changed) > MANY:
                self._forget(changed)

    def since(self, owner: object, everything: Iterable[JobInfo]) -> list[JobInfo]:
        """Jobs that changed since the owner last asked; the first time everything."""
        changed = self._of.get(owner)
        if changed is None:
            changed = self._of[owner] = {}
            self._sets.append(changed)
            weakref.finalize(owner, self._forget, changed)
            return list(everything)
        jobs = list(changed.values())
        changed.clear()
        return jobs

    def _forget(self, changed: dict[str, JobInfo]) -> None:
        self._sets = [other for other in self._sets if other is not changed]
        for owner, known in list(self._of.items()):
            if known is changed:
                del self._of[owner]
