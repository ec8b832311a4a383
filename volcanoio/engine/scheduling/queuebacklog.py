"""The backlog of one queue: its jobs in the order of their turns, kept across cycles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import heappop, heappush, merge
from itertools import islice
from typing import Any, TypeAlias

from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.framework.scheduling.points import SortKey

SOME = 256
"""Entries that are put in place in one step."""
RUN = 1024
"""Entries that are sorted, or looked at, in one step."""
_SPARE = 1024
"""Entries that may be out of order, or left over, whatever there are."""

Place: TypeAlias = tuple[Any, ...]
"""Where a job stands: its key, followed by a number no other place has, the job, and the backlog it stands in."""
Key: TypeAlias = Callable[[JobInfo], tuple[SortKey, ...]]


class QueueBacklog:
    """The jobs of one queue. Implements `session.Backlog`.

    A job stands at `JobInfo.place`; whatever else is here of it is left over. What is taken stays: `rewind` begins anew
    with all that stand here by then. `key` is where a job stands now, `skipped` the keys of jobs that have no turn in
    this cycle.
    """

    __slots__ = ("_at", "_late", "_least", "_news", "_number", "_odd", "_ordered", "_taken", "key", "skipped")

    def __init__(self) -> None:
        self.key: Key | None = None
        self.skipped: Collection[str] = ()
        self._ordered: list[Place] = []
        """In order, from `_at` on not yet taken."""
        self._at = 0
        self._late: list[Place] = []
        """A heap of those that came since."""
        self._taken: list[Place] = []
        """What was taken, in order."""
        self._odd: list[Place] = []
        """What was taken and came before what had been taken already."""
        self._least = 0
        """How many entries there were when those left over were thrown away."""
        self._number = 0
        self._news: dict[str, JobInfo] = {}
        """Jobs that changed or had a turn since all were passed over."""

    def __bool__(self) -> bool:
        return bool(self._late) or self._at < len(self._ordered)

    def put(self, key: tuple[SortKey, ...], job: JobInfo) -> None:
        """A job changed and stands there from now on."""
        self._news[job.key] = job
        place = job.place
        if place is None or place[-1] is not self or place[:-3] != key:
            self._number += 1
            place = job.place = (*key, self._number, job, self)
            heappush(self._late, place)

    def pop(self) -> JobInfo | None:
        """As `session.Backlog`."""
        ordered, late, at = self._ordered, self._late, self._at
        while True:
            came_late = bool(late) and (at >= len(ordered) or late[0] < ordered[at])
            if came_late:
                place = heappop(late)
            elif at < len(ordered):
                place = ordered[at]
                at += 1
            else:
                self._at = at
                return None
            job: JobInfo = place[-2]
            if job.place is not place:
                continue
            taken = self._taken
            if came_late and taken and place < taken[-1]:
                self._odd.append(place)
            else:
                taken.append(place)
            if self.skipped and job.key in self.skipped:
                continue
            self._at = at
            self._news[job.key] = job
            return job

    def push(self, job: JobInfo) -> None:
        """As `session.Backlog`."""
        assert self.key is not None
        self._number += 1
        place = job.place = (*self.key(job), self._number, job, self)
        heappush(self._late, place)

    def news(self) -> Iterator[JobInfo]:
        """As `session.Backlog`."""
        news = self._news
        while news:
            job = news.popitem()[1]
            if job.place is not None and job.place[-1] is self:
                yield job

    def forget(self, job: JobInfo) -> None:
        """A job does not stand here any more."""
        self._news.pop(job.key, None)

    def rewind(self) -> Iterator[None]:
        """Begin anew: what was taken and stands here still can be taken again. Some entries at a time."""
        if self._taken:
            standing: list[Place] = []
            for some in _in_parts(self._taken, RUN):
                standing += [place for place in some if place[-2].place is place]
                yield
            self._ordered[: self._at] = standing
            self._taken.clear()
        elif self._at:
            del self._ordered[: self._at]
        self._at = 0
        while self._odd:
            for _ in range(min(SOME, len(self._odd))):
                place = self._odd.pop()
                if place[-2].place is place:
                    heappush(self._late, place)
            yield
        number = len(self._ordered) + len(self._late)
        if len(self._late) > len(self._ordered) // 2 + _SPARE or number > 2 * self._least + _SPARE:
            yield from self._tidy()

    def _tidy(self) -> Iterator[None]:
        """Put all in order, and throw away what is left over."""
        runs = [self._ordered]
        for some in _in_parts(self._late, RUN):
            runs.append(sorted(some))
            yield
        ordered: list[Place] = []
        for some in _in_parts(merge(*runs), SOME):
            ordered += [place for place in some if place[-2].place is place]
            yield
        self._ordered, self._late, self._least = ordered, [], len(ordered)
        for some in _in_parts(list(self._news.items()), SOME):
            for key, job in some:
                if job.place is None or job.place[-1] is not self:
                    del self._news[key]
            yield


def _in_parts(places: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Some at a time."""
    left = iter(places)
    while some := list(islice(left, size)):
        yield some
