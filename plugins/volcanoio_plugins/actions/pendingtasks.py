"""The pending tasks of a job: those left to place in a session, and those it needs to start.

`allocate` places a job task by task or sub-job by sub-job; gang actions make room for all tasks that the job needs to
start, or for none. Source: Volcano, pkg/scheduler/actions/utils (CollectPendingTasksForGangEviction). Unlike
there, tasks beyond the job's minimum are not included.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from volcanoio.framework.scheduling.heap import Heap
from volcanoio.framework.scheduling.session import Run, Session
from volcanoio.framework.scheduling.views import Job, SubJob, Task, TaskStatus
from volcanoio_plugins.actions.bundles import READY


class PendingRuns:
    """Runs of tasks, and the position of the next task."""

    __slots__ = ("_at", "_run", "runs")

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs
        self._run = 0
        self._at = 0

    def __bool__(self) -> bool:
        return self._run < len(self.runs)

    @property
    def position(self) -> tuple[Run, int, int]:
        """The current run, the index of its next task, and how many it has left."""
        run = self.runs[self._run]
        return run, self._at, len(run.tasks) - self._at

    def advance(self, count: int) -> None:
        """Move on by `count` tasks of the current run."""
        self._at += count
        if self._at >= len(self.runs[self._run].tasks):
            self._run += 1
            self._at = 0


class PendingSubJobs:
    """The sub-jobs of a job that have tasks to place: first those needed to reach each policy's minimum.

    Volcano: organizeJobWorksheet. The needed sub-jobs are determined once; a sort key is computed at every push.
    """

    __slots__ = ("_heap", "_needed", "runs_by_sub_job")

    def __init__(self, session: Session, job: Job) -> None:
        self._needed = needed_sub_jobs(session, job)
        self.runs_by_sub_job: dict[str, PendingRuns] = {}
        """Runs of pending tasks by the sub-job's key."""
        for sub_job in job.sub_jobs:
            if runs := session.runs(job, best_effort=False, sub_job=sub_job):
                self.runs_by_sub_job[sub_job.key] = PendingRuns(runs)
        self._heap: Heap[SubJob] = Heap(
            lambda sub_job: (sub_job.key not in self._needed, session.sub_job_key(sub_job)),
            [sub_job for sub_job in job.sub_jobs if sub_job.key in self.runs_by_sub_job],
        )

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def runs(self) -> list[Run]:
        """All runs of all sub-jobs."""
        return [run for pending in self.runs_by_sub_job.values() for run in pending.runs]

    def pop(self) -> tuple[SubJob, PendingRuns]:
        """Return the first sub-job and its tasks."""
        sub_job = self._heap.pop()
        return sub_job, self.runs_by_sub_job[sub_job.key]

    def push(self, sub_job: SubJob) -> None:
        """Put a sub-job with remaining tasks back."""
        self._heap.push(sub_job)

    def __iter__(self) -> Iterator[tuple[SubJob, PendingRuns]]:
        """Yield the sub-jobs in their current order, consuming them."""
        while self._heap:
            yield self.pop()


def needed_sub_jobs(session: Session, job: Job) -> set[str]:
    """Return the sub-jobs that must become ready so that each policy reaches its minimum."""
    minimums = job.sub_job_minimums
    ready: Counter[str] = Counter()
    others = []
    for sub_job in job.sub_jobs:
        if session.sub_job_ready(sub_job):
            ready[sub_job.group] += 1
        else:
            others.append(sub_job)
    chosen = set()
    for sub_job in sorted(others, key=session.sub_job_key):
        if ready[sub_job.group] < minimums.get(sub_job.group, 0):
            ready[sub_job.group] += 1
            chosen.add(sub_job.key)
    return chosen


_PLACED = (*READY, TaskStatus.PIPELINED)


def runs_to_start(session: Session, job: Job) -> list[Run]:
    """Return the tasks that a job needs to start; once started, all pending tasks, or those of its first sub-job."""
    ready = session.job_ready(job)
    if not job.sub_jobs:
        runs = session.runs(job, best_effort=False)
        return runs if ready else _select(runs, _Shortage(job).choose(_tasks(runs)))
    required = needed_sub_jobs(session, job)
    parts = [(sub_job, pending.runs) for sub_job, pending in PendingSubJobs(session, job)]
    parts = [
        (sub_job, runs) for sub_job, runs in parts if len(_tasks(runs)) >= _missing(sub_job)
    ]  # the others have too few pending tasks
    if ready:
        return parts[0][1] if parts else []
    shortage = _Shortage(job)
    chosen: set[str] = set()
    for sub_job, runs in parts:
        tasks = _tasks(runs)[: max(_missing(sub_job), 0)]
        if sub_job.key in required or shortage.wants_any(tasks):
            chosen |= shortage.take(tasks)
    runs = [run for _, own in parts for run in own]
    chosen |= shortage.choose(task for task in _tasks(runs) if task.uid not in chosen)
    return _select(runs, chosen)


class _Shortage:
    """Number of tasks that a job needs in addition, by role and in total."""

    def __init__(self, job: Job) -> None:
        placed = [
            task
            for task in job.tasks
            if task.status in _PLACED or (task.status is TaskStatus.PENDING and task.shape.best_effort)
        ]
        self._roles: Counter[str] = Counter()
        if sum(job.role_minimums.values()) <= job.min_available:
            held = Counter(task.role for task in placed)
            self._roles.update({role: max(least - held[role], 0) for role, least in job.role_minimums.items()})
        self._others = max(job.min_available - len(placed) - self._roles.total(), 0)

    def wants_any(self, tasks: Iterable[Task]) -> bool:
        """Whether any of these is missing."""
        return any(self._others > 0 or self._roles[task.role] > 0 for task in tasks)

    def take(self, tasks: Iterable[Task]) -> set[str]:
        """Count tasks as placed, whether they are missing or not; return their uids."""
        taken = set()
        for task in tasks:
            self._wants(task)
            taken.add(task.uid)
        return taken

    def choose(self, tasks: Iterable[Task]) -> set[str]:
        """Return the uids of the first missing ones, which count as placed."""
        return {task.uid for task in tasks if self._wants(task)}

    def _wants(self, task: Task) -> bool:
        if self._roles[task.role] > 0:
            self._roles[task.role] -= 1
        elif self._others > 0:
            self._others -= 1
        else:
            return False
        return True


def _missing(sub_job: SubJob) -> int:
    return sub_job.min_available - sub_job.ready_count - sub_job.pipelined_count - sub_job.pending_best_effort


def _tasks(runs: Iterable[Run]) -> list[Task]:
    return [task for run in runs for task in run.tasks]


def _select(runs: Iterable[Run], chosen: set[str]) -> list[Run]:
    left = [run._replace(tasks=[task for task in run.tasks if task.uid in chosen]) for run in runs]
    return [run for run in left if run.tasks]
