"""Pending jobs by queue and in order, kept across cycles.

A job moves to its new position when it changes; a cycle sorts nothing. `SinglePodOrder` does the same for single pods.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from heapq import heappop, heappush, merge
from itertools import islice
from typing import Any, TypeAlias

from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.cluster.ledger import Ledger
from volcanoio.framework.scheduling.heap import PriorityQueue
from volcanoio.framework.scheduling.points import SortKey
from volcanoio.model.scheduling import PodGroupPhase

ENTRIES_PER_STEP = 256
"""Entries moved before other work may run."""
SORT_CHUNK = 1024
"""Entries sorted or checked before other work may run."""
_STALE_ALLOWANCE = 1024
"""Entries that may be unsorted or stale before a backlog is compacted."""

BacklogEntry: TypeAlias = tuple[Any, ...]
"""Entry of a job: its order key, a unique number, the job, and its backlog."""
OrderKey: TypeAlias = Callable[[JobInfo], tuple[SortKey, ...]]


class QueueBacklog:
    """Jobs of one queue in order. Implements `session.Backlog`.

    `JobInfo.backlog_entry` is the valid entry of a job; all others are stale. Entries that were taken are kept, and
    `rewind` makes the valid ones available again. `key` computes a job's order key, `skipped` holds the keys of jobs to
    skip in this cycle.
    """

    __slots__ = (
        "_at",
        "_changed",
        "_late",
        "_number",
        "_ordered",
        "_size_after_compaction",
        "_taken",
        "_taken_late",
        "key",
        "skipped",
    )

    def __init__(self) -> None:
        self.key: OrderKey | None = None
        self.skipped: Collection[str] = ()
        self._ordered: list[BacklogEntry] = []
        """Sorted entries; those from `_at` on are not taken yet."""
        self._at = 0
        self._late: list[BacklogEntry] = []
        """Heap of the entries added since."""
        self._taken: list[BacklogEntry] = []
        """Taken entries, in order."""
        self._taken_late: list[BacklogEntry] = []
        """Taken entries that sort before entries taken earlier."""
        self._size_after_compaction = 0
        """Number of entries after the last compaction."""
        self._number = 0
        self._changed: dict[str, JobInfo] = {}
        """Jobs that changed or were taken since the last call of `changed_jobs`."""

    def __bool__(self) -> bool:
        return bool(self._late) or self._at < len(self._ordered)

    def put(self, key: tuple[SortKey, ...], job: JobInfo) -> None:
        """Add a changed job, or move it to the position of this key."""
        self._changed[job.key] = job
        if (entry := job.backlog_entry) is None or entry[-1] is not self or entry[:-3] != key:
            self._number += 1
            entry = job.backlog_entry = (*key, self._number, job, self)
            heappush(self._late, entry)

    def pop(self) -> JobInfo | None:
        """Return and take the first job that is not taken yet, None when there is none."""
        ordered, late, at = self._ordered, self._late, self._at
        while True:
            is_late = bool(late) and (at >= len(ordered) or late[0] < ordered[at])
            if is_late:
                entry = heappop(late)
            elif at < len(ordered):
                entry = ordered[at]
                at += 1
            else:
                self._at = at
                return None
            job: JobInfo = entry[-2]
            if job.backlog_entry is not entry:
                continue
            taken = self._taken
            if is_late and taken and entry < taken[-1]:
                self._taken_late.append(entry)
            else:
                taken.append(entry)
            if self.skipped and job.key in self.skipped:
                continue
            self._at = at
            self._changed[job.key] = job
            return job

    def push(self, job: JobInfo) -> None:
        """Make a taken job available again at its current position."""
        assert self.key is not None
        self._number += 1
        entry = job.backlog_entry = (*self.key(job), self._number, job, self)
        heappush(self._late, entry)

    def changed_jobs(self) -> Iterator[JobInfo]:
        """Yield the jobs that changed or were taken since the last call."""
        changed = self._changed
        while changed:
            job = changed.popitem()[1]
            if job.backlog_entry is not None and job.backlog_entry[-1] is self:
                yield job

    def forget(self, job: JobInfo) -> None:
        """Forget a job that is not in this backlog any more."""
        self._changed.pop(job.key, None)

    def rewind(self) -> Iterator[None]:
        """Make all taken entries that are still valid available again, in steps."""
        if self._taken:
            valid: list[BacklogEntry] = []
            for chunk in _chunks(self._taken, SORT_CHUNK):
                valid += [entry for entry in chunk if entry[-2].backlog_entry is entry]
                yield
            self._ordered[: self._at] = valid
            self._taken.clear()
        elif self._at:
            del self._ordered[: self._at]
        self._at = 0
        while self._taken_late:
            for _ in range(min(ENTRIES_PER_STEP, len(self._taken_late))):
                entry = self._taken_late.pop()
                if entry[-2].backlog_entry is entry:
                    heappush(self._late, entry)
            yield
        number = len(self._ordered) + len(self._late)
        if (
            len(self._late) > len(self._ordered) // 2 + _STALE_ALLOWANCE
            or number > 2 * self._size_after_compaction + _STALE_ALLOWANCE
        ):
            yield from self._compact()

    def _compact(self) -> Iterator[None]:
        """Sort all entries and drop stale ones, in steps."""
        runs = [self._ordered]
        for chunk in _chunks(self._late, SORT_CHUNK):
            runs.append(sorted(chunk))
            yield
        ordered: list[BacklogEntry] = []
        for chunk in _chunks(merge(*runs), ENTRIES_PER_STEP):
            ordered += [entry for entry in chunk if entry[-2].backlog_entry is entry]
            yield
        self._ordered, self._late, self._size_after_compaction = ordered, [], len(ordered)
        for chunk in _chunks(list(self._changed.items()), ENTRIES_PER_STEP):
            for key, job in chunk:
                if job.backlog_entry is None or job.backlog_entry[-1] is not self:
                    del self._changed[key]
            yield


def _chunks(entries: Iterable[Any], size: int) -> Iterator[list[Any]]:
    remaining = iter(entries)
    while chunk := list(islice(remaining, size)):
        yield chunk


JOBS_PER_STEP = 64
"""Jobs inserted before other work may run."""


class Backlogs:
    """Backlogs of all pending jobs by queue, separate for jobs that were enqueued and jobs that were not."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._tables: dict[bool, dict[str, QueueBacklog]] = {True: {}, False: {}}
        """Backlogs by queue name, by whether their jobs were enqueued."""
        self._order_version = 0
        self._urgent_keys: frozenset[str] = frozenset()
        self._reordered: set[str] = set()
        """Jobs that became urgent, or are no longer, and have not been moved yet."""
        ledger.changes.since(self, {})

    def update(self, key: OrderKey, order_version: int, urgent: Collection[str], *, admitted: bool) -> Iterator[None]:
        """Move changed jobs and rewind the backlogs of enqueued (`admitted`) or other jobs; `begin` requires it.

        Runs in steps; a cycle may end in between. Keys are valid while `order_version` is the same, except those of
        jobs that became `urgent` or are no longer.
        """
        if order_version != self._order_version:
            self._order_version = -1
            self._tables = {True: {}, False: {}}
            self._ledger.changes.since(self, {})  # all jobs are placed now
            yield from self._place(list(self._ledger.schedulable_jobs.values()), key)
            self._order_version = order_version
        if self._urgent_keys or urgent or self._reordered:
            self._reordered |= self._urgent_keys.symmetric_difference(urgent)
            self._urgent_keys = frozenset(urgent)
            jobs = self._ledger.jobs
            yield from self._place([jobs[name] for name in self._reordered if name in jobs], key)
            self._reordered.clear()
        while changed := self._ledger.changes.since(self, self._ledger.schedulable_jobs, JOBS_PER_STEP):
            yield from self._place(changed, key)
        for backlog in self._tables[admitted].values():
            yield from backlog.rewind()

    def begin(self, key: OrderKey, skipped: Collection[str], *, admitted: bool) -> dict[str, QueueBacklog]:
        """Return the rewound backlogs by queue, without empty ones; requires `update`."""
        table = self._tables[admitted]
        for name, backlog in list(table.items()):
            backlog.key, backlog.skipped = key, skipped
            if not backlog:
                del table[name]
        return dict(table)

    def close(self) -> None:
        """Drop the references to the session."""
        for table in self._tables.values():
            for backlog in table.values():
                backlog.key, backlog.skipped = None, ()

    def _place(self, jobs: Sequence[JobInfo], key: OrderKey) -> Iterator[None]:
        listed = self._ledger.schedulable_jobs
        for number, job in enumerate(jobs, 1):
            if job.is_single_pod:  # single pods have their own order
                continue
            admitted = job.phase != PodGroupPhase.PENDING
            if listed.get(job.key) is not job or (admitted and not job.pending):
                if job.backlog_entry is not None:
                    job.backlog_entry[-1].forget(job)
                job.backlog_entry = None
            else:
                table, name = self._tables[admitted], job.queue
                if (backlog := table.get(name)) is None:
                    backlog = table[name] = QueueBacklog()
                backlog.put(key(job), job)
            if not number % JOBS_PER_STEP:
                yield


class UncachedBacklog:
    """Jobs of one queue in an order that cannot be cached. Implements `session.Backlog`."""

    __slots__ = ("_jobs", "_members")

    def __init__(self, order: PriorityQueue[JobInfo]) -> None:
        self._jobs = order
        self._members: list[JobInfo] = []

    def add(self, job: JobInfo) -> None:
        """Add a job."""
        self._jobs.push(job)
        self._members.append(job)

    def pop(self) -> JobInfo | None:
        """Return and take the first job that is not taken yet, None when there is none."""
        return self._jobs.pop() if self._jobs else None

    def push(self, job: JobInfo) -> None:
        """Make a taken job available again at its current position."""
        self._jobs.push(job)

    def changed_jobs(self) -> Iterator[JobInfo]:
        """Yield the jobs added since the last call."""
        members, self._members = self._members, []
        return iter(members)


def build_uncached_backlogs(
    jobs: Iterable[JobInfo], new_order: Callable[[], PriorityQueue[JobInfo]]
) -> Generator[None, None, dict[str, UncachedBacklog]]:
    """Return jobs by queue, sorted in steps."""
    backlogs: dict[str, UncachedBacklog] = {}
    for number, job in enumerate(jobs):
        if not number % JOBS_PER_STEP:
            yield
        if (backlog := backlogs.get(job.queue)) is None:
            backlog = backlogs[job.queue] = UncachedBacklog(new_order())
        backlog.add(job)
    return backlogs


SINGLE_PODS_PER_STEP = 64
"""Single pods processed before other work may run."""


class SinglePodOrder:
    """Order of pending single pods. Opening a cycle costs in proportion to the changes since the last one."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._backlog = QueueBacklog()

    def begin(self) -> Iterator[None]:
        """Process changes in steps and make all pending single pods available."""
        pending, backlog = self._ledger.pending_single_pods, self._backlog
        while changed := self._ledger.changes.since(self, pending, SINGLE_PODS_PER_STEP):
            for job in changed:
                if job.is_single_pod:
                    if pending.get(job.key) is job:
                        backlog.put(single_pod_key(job), job)
                    else:
                        job.backlog_entry = None
                    backlog.forget(job)
            yield
        yield from backlog.rewind()

    def __iter__(self) -> Iterator[JobInfo]:
        """Yield the pods that were not taken since `begin`."""
        pending = self._ledger.pending_single_pods
        while (job := self._backlog.pop()) is not None:
            self._backlog.forget(job)
            if pending.get(job.key) is job:
                yield job


def single_pod_key(job: JobInfo) -> tuple[int, str, str, str]:
    """Return the sort key of a pending single pod: priority, then creation time and name."""
    task = next(iter(job.pending.values()))
    return -task.priority, task.created, task.namespace, task.name
