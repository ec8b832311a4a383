"""Plugin drf: jobs with the smaller dominant share first, flat (Volcano: pkg/scheduler/plugins/drf)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Amounts, Job, Task, TaskStatus
from volcanoio.model.resources import add

SHARE_TOLERANCE = 1e-6
"""Shares that differ by less are equal."""


class DrfArguments(msgspec.Struct, frozen=True):
    """The plugin takes none."""


class Drf:
    """A job's dominant share is the largest part it holds of any resource of the cluster."""

    name = "drf"
    keeps_job_keys = True

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, DrfArguments, self.name)
        self._total: Amounts = {}
        self._jobs: Mapping[str, Job] = {}

    def open(self, session: SessionView) -> None:
        """Keep the cluster's total and the jobs at hand."""
        self._total = {name: amount for name, amount in session.total.items() if amount > 0}
        self._jobs = session.jobs

    def job_key(self, job: Job) -> float:
        """The smaller share first."""
        if not job.ready_count and not job.count(TaskStatus.PIPELINED):
            return 0.0
        return self._share(_held(job))

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Tasks whose job would still hold no less than the preemptor's with its new task."""
        wanted = dict(_held(self._jobs[preemptor.job]))
        add(wanted, preemptor.shape.requests)
        own = self._share(wanted)
        left: dict[str, dict[str, int]] = {}
        victims = []
        for task in candidates:
            if task.job not in self._jobs:
                continue
            held = left.setdefault(task.job, dict(_held(self._jobs[task.job])))
            add(held, task.shape.requests, -1)
            other = self._share(held)
            if own < other or abs(own - other) <= SHARE_TOLERANCE:
                victims.append(task)
        return victims

    def _share(self, held: Amounts) -> float:
        largest = 0.0
        for name, total in self._total.items():  # asked for every job of a backlog: a generator would cost twice
            part = held.get(name, 0) / total
            largest = max(largest, part)
        return largest


def _held(job: Job) -> Amounts:
    """What is allocated to a job, reservations included."""
    if not job.count(TaskStatus.PIPELINED):
        return job.allocated
    held = dict(job.allocated)
    for task in job.tasks:
        if task.status is TaskStatus.PIPELINED:
            add(held, task.shape.requests)
    return held
