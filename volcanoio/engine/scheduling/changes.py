"""Which jobs changed since somebody last asked: plugins that sum over jobs look at these alone."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.jobs import JobInfo


MANY = 20_000
"""Changes that are kept at most, beside those there were at first: who does not ask for so long is told of all."""


class _Kept:
    """What is kept for one who asks: jobs that changed, and those of earlier on that are to be told of first.

    With more than `most` entries it is given up.
    """

    __slots__ = ("changed", "left", "most")

    def __init__(self, everything: Mapping[str, JobInfo]) -> None:
        self.changed = dict(everything)
        self.left: list[JobInfo] = []
        """The last is the next."""
        self.most = MANY + len(everything)

    def take(self, most: int | None) -> list[JobInfo]:
        """Up to so many."""
        left = self.left
        if most is None:
            most = len(left) + len(self.changed)
        taken: list[JobInfo] = []
        while len(taken) < most:
            if not left:
                if not self.changed:
                    break
                left.extend(self.changed.values())
                left.reverse()
                self.changed.clear()
            at = max(len(left) - most + len(taken), 0)
            taken += left[: at - 1 : -1] if at else left[::-1]
            del left[at:]
        return taken


class Changes:
    """One set of jobs for each who asks; it is forgotten with who asked. Without any, nothing is kept."""

    def __init__(self) -> None:
        self._all: list[_Kept] = []
        self._of: weakref.WeakKeyDictionary[object, _Kept] = weakref.WeakKeyDictionary()

    def mark(self, job: JobInfo) -> None:
        """A job changed, came or went."""
        key = job.key
        for kept in self._all:
            changed = kept.changed
            changed[key] = job
            if len(changed) > kept.most:
                self._forget(kept)

    def since(self, owner: object, everything: Mapping[str, JobInfo], most: int | None = None) -> list[JobInfo]:
        """Jobs that changed since the owner last asked, up to `most` of them; the first time everything."""
        kept = self._of.get(owner)
        if kept is None:
            kept = self._of[owner] = _Kept(everything)
            self._all.append(kept)
            weakref.finalize(owner, self._forget, kept)
        return kept.take(most)

    def _forget(self, kept: _Kept) -> None:
        self._all = [one for one in self._all if one is not kept]
        for owner, known in list(self._of.items()):
            if known is kept:
                del self._of[owner]
