"""Backlogs: jobs in the order of their turns, queue by queue, kept across cycles.

Opening a cycle costs what changed since the one before, however many jobs wait. That needs keys that follow from the
job itself (`points.KEPT_KEYS`); where a plugin orders jobs by anything else they are built anew for every action.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence

from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.ledger import Ledger
from volcanoio.engine.scheduling.queuebacklog import Key, QueueBacklog
from volcanoio.framework.scheduling.heap import Turns
from volcanoio.model.scheduling import PodGroupPhase

AT_ONCE = 64
"""Jobs that are put in order in one step."""


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
        ledger.changes.since(self, {})

    def follow(self, key: Key, ruled: int, urgent: Collection[str], *, admitted: bool) -> Iterator[None]:
        """Take in what changed, and make those that were admitted or the others begin anew: what `begin` requires.

        A few jobs at a time; a cycle may end in the midst of it. Keys hold while `ruled` is the same number, but for
        those of jobs that became `urgent` or are so no longer.
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
        while changed := self._ledger.changes.since(self, self._ledger.listed, AT_ONCE):
            yield from self._place(changed, key)
        for backlog in self._tables[admitted].values():
            yield from backlog.rewind()

    def begin(self, key: Key, skipped: Collection[str], *, admitted: bool) -> dict[str, QueueBacklog]:
        """All queues that have such jobs, each from its first one on; requires `follow` of these."""
        table = self._tables[admitted]
        for name, backlog in list(table.items()):
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
            if job.single:  # it stands among its like
                continue
            admitted = job.phase != PodGroupPhase.PENDING
            if listed.get(job.key) is not job or (admitted and not job.waiting):
                if job.place is not None:
                    job.place[-1].forget(job)
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
