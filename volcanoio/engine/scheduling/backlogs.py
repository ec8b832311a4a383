"""Backlogs: jobs in the order of their turns, queue by queue, kept across cycles.

Opening a cycle costs what changed since the one before, however many jobs wait. That needs keys that follow from the
job itself (`points.KEPT_KEYS`); where a plugin orders jobs by anything else they are built anew for every action.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.ledger import Ledger
from volcanoio.framework.scheduling.heap import Turns
from volcanoio.framework.scheduling.points import SortKey
from volcanoio.model.scheduling import PodGroupPhase

AT_ONCE = 64
"""Jobs that are put in order in one step."""
_SPARE = 1024
"""Entries beyond twice those there were when the last ones were thrown away that hold no longer."""

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
            if late and (at >= len(ordered) or late[0] < ordered[at]):
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
            if taken and place < taken[-1]:
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

    def rewind(self) -> None:
        """Begin anew: what was taken and stands here still can be taken again."""
        if self._taken:
            self._ordered[: self._at] = [place for place in self._taken if place[-2].place is place]
            self._taken.clear()
        elif self._at:
            del self._ordered[: self._at]
        self._at = 0
        for place in self._odd:
            if place[-2].place is place:
                heappush(self._late, place)
        self._odd.clear()
        if len(self._ordered) + len(self._late) > 2 * self._least + _SPARE:
            self._ordered = [place for place in self._ordered if place[-2].place is place]
            self._late = [place for place in self._late if place[-2].place is place]
            heapify(self._late)
            self._least = len(self._ordered) + len(self._late)


class Backlogs:
    """All jobs that wait, by their queue: those with pending tasks that were admitted, and those that were not yet."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._tables: dict[bool, dict[str, QueueBacklog]] = {True: {}, False: {}}
        """Admitted or not."""
        self._ruled = 0
        self._urgent: frozenset[str] = frozenset()
        self._moved: set[str] = set()
        """Jobs that became urgent, or are so no longer, and were not put in their place yet."""
        ledger.changes.since(self, ())

    def follow(self, key: Key, ruled: int, urgent: Collection[str]) -> Iterator[None]:
        """Take in what changed, a few jobs at a time; a cycle may end in the midst of it.

        Keys hold while `ruled` is the same number, but for those of jobs that became `urgent` or are so no longer.
        """
        if ruled != self._ruled:
            self._ruled = -1
            self._tables = {True: {}, False: {}}
            yield from self._place(list(self._ledger.listed.values()), key)
            self._ruled = ruled
        if self._urgent or urgent or self._moved:
            self._moved |= self._urgent.symmetric_difference(urgent)
            self._urgent = frozenset(urgent)
            jobs = self._ledger.jobs
            yield from self._place([jobs[name] for name in self._moved if name in jobs], key)
            self._moved.clear()
        while changed := self._ledger.changes.since(self, self._ledger.listed.values(), AT_ONCE):
            yield from self._place(changed, key)

    def begin(self, key: Key, skipped: Collection[str], *, admitted: bool) -> dict[str, QueueBacklog]:
        """All queues that have such jobs, each from its first one on; requires `follow`."""
        table = self._tables[admitted]
        for name, backlog in list(table.items()):
            backlog.rewind()
            backlog.key, backlog.skipped = key, skipped
            if not backlog:
                del table[name]
        return dict(table)

    def part(self) -> None:
        """The session is over."""
        for table in self._tables.values():
            for backlog in table.values():
                backlog.key, backlog.skipped = None, ()

    def _place(self, jobs: Sequence[JobInfo], key: Key) -> Iterator[None]:
        listed = self._ledger.listed
        for number, job in enumerate(jobs, 1):
            admitted = job.phase != PodGroupPhase.PENDING
            if listed.get(job.key) is not job or (admitted and not job.waiting):
                job.place = None
            else:
                table, name = self._tables[admitted], job.queue
                backlog = table.get(name)
                if backlog is None:
                    backlog = table[name] = QueueBacklog()
                backlog.put(key(job), job)
            if not number % AT_ONCE:
                yield
        yield


class FreshBacklog:
    """The jobs of one queue in an order that cannot be kept. Implements `session.Backlog`."""

    __slots__ = ("_members", "_turns")

    def __init__(self, turns: Turns[JobInfo]) -> None:
        self._turns = turns
        self._members: list[JobInfo] = []

    def add(self, job: JobInfo) -> None:
        """One more job."""
        self._turns.push(job)
        self._members.append(job)

    def pop(self) -> JobInfo | None:
        """As `session.Backlog`."""
        return self._turns.pop() if self._turns else None

    def push(self, job: JobInfo) -> None:
        """As `session.Backlog`."""
        self._turns.push(job)

    def news(self) -> Iterator[JobInfo]:
        """As `session.Backlog`: all of them."""
        members, self._members = self._members, []
        return iter(members)


def fresh(
    jobs: Iterable[JobInfo], turns: Callable[[], Turns[JobInfo]]
) -> Generator[None, None, dict[str, FreshBacklog]]:
    """Jobs by queue, put in order a few at a time."""
    found: dict[str, FreshBacklog] = {}
    for number, job in enumerate(jobs):
        if not number % AT_ONCE:
            yield
        backlog = found.get(job.queue)
        if backlog is None:
            backlog = found[job.queue] = FreshBacklog(turns())
        backlog.add(job)
    return found
