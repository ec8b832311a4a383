"""What is left to place of a job in a session, task by task or sub-job by sub-job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from volcanoio.framework.scheduling.heap import Heap
from volcanoio.framework.scheduling.session import Run, Session
from volcanoio.framework.scheduling.subjobs import SubJob
from volcanoio.framework.scheduling.views import Job


class Worksheet:
    """Runs of tasks, and how far they are used up."""

    __slots__ = ("_at", "_run", "runs")

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs
        self._run = 0
        self._at = 0

    def __bool__(self) -> bool:
        return self._run < len(self.runs)

    @property
    def position(self) -> tuple[Run, int, int]:
        """The run at hand, the index of its next task, and how many it has left."""
        run = self.runs[self._run]
        return run, self._at, len(run.tasks) - self._at

    def advance(self, count: int) -> None:
        """`count` tasks of the run at hand are dealt with."""
        self._at += count
        if self._at >= len(self.runs[self._run].tasks):
            self._run += 1
            self._at = 0


class SubJobSheets:
    """The sub-jobs of a job that have tasks to place: first as many as are needed to reach each policy's minimum.

    Volcano: organizeJobWorksheet. Whether one is needed is found out once, where it stands is asked anew whenever it is
    put back.
    """

    __slots__ = ("_heap", "_needed", "sheets")

    def __init__(self, session: Session, job: Job) -> None:
        self._needed = needed(session, job)
        self.sheets: dict[str, Worksheet] = {}
        """By the sub-job's key."""
        for part in job.sub_jobs:
            if runs := session.runs(job, best_effort=False, part=part):
                self.sheets[part.key] = Worksheet(runs)
        self._heap: Heap[SubJob] = Heap(
            lambda part: (part.key not in self._needed, session.sub_job_key(part)),
            [part for part in job.sub_jobs if part.key in self.sheets],
        )

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def runs(self) -> list[Run]:
        """All runs of all sub-jobs."""
        return [run for sheet in self.sheets.values() for run in sheet.runs]

    def pop(self) -> tuple[SubJob, Worksheet]:
        """The sub-job that stands first."""
        part = self._heap.pop()
        return part, self.sheets[part.key]

    def push(self, part: SubJob) -> None:
        """It has tasks left to place."""
        self._heap.push(part)

    def __iter__(self) -> Iterator[tuple[SubJob, Worksheet]]:
        """The sub-jobs in their order as of now, which uses them up."""
        while self._heap:
            yield self.pop()


def needed(session: Session, job: Job) -> set[str]:
    """The sub-jobs that are to be ready beside those that are, so that each policy has its minimum."""
    minimums = job.sub_job_minimums
    ready: Counter[str] = Counter()
    others = []
    for part in job.sub_jobs:
        if session.sub_job_ready(part):
            ready[part.group] += 1
        else:
            others.append(part)
    chosen = set()
    for part in sorted(others, key=session.sub_job_key):
        if ready[part.group] < minimums.get(part.group, 0):
            ready[part.group] += 1
            chosen.add(part.key)
    return chosen
