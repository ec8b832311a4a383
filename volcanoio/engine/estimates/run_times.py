"""How long a job's pods run: equally likely times, from what is known of jobs like it.

The most specific evidence with enough jobs is used: the job's own `runningEstimate`, corrected by how far such
estimates were off; else finished jobs of the same owner and name pattern; else of the queue; else of all.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.accounting.finished_jobs import FinishedJob
from volcanoio.engine.accounting.summaries import name_pattern
from volcanoio.model.batch import JobPhase

Floats = NDArray[np.float64]
LEAST = 5
"""Jobs that are enough evidence."""
MOST = 500
"""Newest jobs of a group that are used."""
POINTS = 64
"""Equally likely times that represent a group."""
RESOLUTION = 1.0
"""Seconds to which times of API objects are rounded down."""
_SOON = 0.1
"""Least remaining time of a running pod in seconds."""
SHORTEST = 1.0
"""Least run time of a pod in seconds."""
_GUESSED = np.geomspace(60.0, 86_400.0, POINTS)
_RATIOS = np.geomspace(0.5, 2.0, POINTS)
"""Possible run times relative to a known one, where fewer than `LEAST` are known."""


_Group: TypeAlias = tuple[str, ...]


class Source(StrEnum):
    """What run times were taken from."""

    ESTIMATE = "runningEstimate"
    SAME_JOB = "jobs of this owner and name"
    QUEUE = "jobs of the queue"
    ALL = "all jobs"
    NOTHING = "a guess, as no finished job is known"


class RunTime(NamedTuple):
    """Equally likely run times of a pod in seconds, ascending, their source, and the number of jobs behind them."""

    seconds: Floats
    source: Source
    jobs: int


class RunTimes:
    """Run times learned from finished jobs, oldest first; jobs that were stopped or failed do not count."""

    def __init__(self, jobs: Iterable[FinishedJob] = ()) -> None:
        self._by_group: dict[_Group, list[float]] = {}
        self._ratios: dict[_Group, list[float]] = {}
        self._known: dict[_Group, Floats] = {}
        for job in jobs:
            self.add(job)

    def add(self, job: FinishedJob) -> None:
        """Learn from one more job, which finished after the others."""
        if (seconds := pod_run_time(job)) is None:
            return
        for group in _groups(job.namespace, job.owner, job.name, job.queue):
            self._by_group.setdefault(group, []).append(seconds)
            self._known.pop(group, None)
        if job.estimate:
            for group in _estimators(job.namespace, job.owner):
                self._ratios.setdefault(group, []).append(seconds / job.estimate)

    def of(self, namespace: str, owner: str, name: str, queue: str, estimate: float | None = None) -> RunTime:
        """Return the run time of a job's pods; `estimate` is its runningEstimate in seconds."""
        if estimate:
            for group in _estimators(namespace, owner):
                if len(found := self._ratios.get(group, ())) >= LEAST:
                    return RunTime(_points(found[-MOST:]) * estimate, Source.ESTIMATE, len(found))
            return RunTime(_RATIOS * estimate, Source.ESTIMATE, 0)
        sources = (Source.SAME_JOB, Source.QUEUE, Source.ALL)
        for source, group in zip(sources, _groups(namespace, owner, name, queue), strict=True):
            if len(jobs := self._by_group.get(group, ())) >= LEAST or (source is Source.ALL and jobs):
                if (seconds := self._known.get(group)) is None:
                    likely = jobs[-MOST:] if len(jobs) >= LEAST else np.outer(jobs, _RATIOS).ravel()
                    seconds = self._known[group] = _points(likely)
                return RunTime(seconds, source, len(jobs))
        return RunTime(_GUESSED, Source.NOTHING, 0)


def _groups(namespace: str, owner: str, name: str, queue: str) -> tuple[_Group, ...]:
    return ("job", namespace, owner, name_pattern(name)), ("queue", queue), ("all",)


def _estimators(namespace: str, owner: str) -> tuple[_Group, ...]:
    return ("owner", namespace, owner), ("all",)


def pod_run_time(job: FinishedJob) -> float | None:
    """Return how long a pod of a completed job ran on average, in seconds; None if that is not known."""
    if job.phase != JobPhase.COMPLETED or not job.pods or not job.pod_seconds:
        return None
    return max(SHORTEST, job.pod_seconds / job.pods)


def _points(seconds: Iterable[float]) -> Floats:
    """Return equally likely times: the quantiles in the middle of equal parts."""
    ordered = np.sort(np.fromiter(seconds, np.float64))
    if len(ordered) <= POINTS:
        return ordered
    return np.quantile(ordered, (np.arange(POINTS) + 0.5) / POINTS)


def remaining(seconds: Floats, age: Floats, part: float) -> Floats:
    """Return how much longer pods run that have run for `age` seconds, at a rank from 0 to 1 among possible times.

    Only times above the age are possible, or less than a second below it, as times of API objects are whole seconds.
    Beyond all known times, the longer a pod has run the longer it continues: half of such pods end before they have run
    twice as long, all before ten times.
    """
    first = np.searchsorted(seconds, age - RESOLUTION, side="right")
    left = len(seconds) - first
    at = np.minimum(first + (part * left).astype(np.intp), len(seconds) - 1)
    overdue = np.maximum(age, SHORTEST) * min(1 / (1 - min(part, 0.95)) - 1, 9.0)
    return np.where(left > 0, np.maximum(seconds[at] - age, _SOON), overdue)


def age_of(started: Floats | float, now: float) -> Floats:
    """Return the ages of pods that started at these times, which are whole seconds: half a second later on average."""
    return np.maximum(now - np.asarray(started, np.float64) - RESOLUTION / 2, 0.0)
