"""The line of `namespace_quota`: who waits in a namespace, by priority, then by age."""

from __future__ import annotations

from typing import NamedTuple

from volcanoio.framework.gangs import priority_class_of
from volcanoio.framework.lifecycle import PolicyContext
from volcanoio.model import kinds
from volcanoio.model.batch import FINISHED_PHASES, Job, JobPhase
from volcanoio.model.core import PriorityClass

WAITS = "waits for the quota"
"""What a job in line shows, so that a new process knows it by that."""

OVER = (*FINISHED_PHASES, JobPhase.ABORTED, JobPhase.ABORTING, JobPhase.COMPLETING, JobPhase.TERMINATING)
"""Phases in which a job takes nothing and waits for nothing."""


def may_start(job: Job) -> bool:
    """Whether the job waits for its pods still."""
    return job.status.state.phase not in OVER and job.metadata.deletion_timestamp is None


class _Place(NamedTuple):
    """The order of the line: the highest priority first, then the oldest; within a second, who asked first."""

    priority: int
    created: str
    asked: int
    name: str


class Line:
    """Who waits in a namespace, in order."""

    def __init__(self, context: PolicyContext, waiting: dict[str, str]) -> None:
        self._asked = {uid: number for number, uid in enumerate(waiting)}
        namespace = context.job.metadata.namespace
        self._classes = context.indexes[kinds.PRIORITY_CLASS.resource]
        jobs = context.indexes[kinds.JOB.resource].within(namespace)
        self._jobs: list[Job] = []
        for uid, name in list(waiting.items()):
            job = jobs.get(name)
            if isinstance(job, Job) and job.metadata.uid == uid and may_start(job):
                self._jobs.append(job)
            else:
                del waiting[uid]

    def ahead(self, job: Job) -> list[Job]:
        """The jobs before this one, in order."""
        own = self._place(job)
        before = [(place, other) for other in self._jobs if (place := self._place(other)) < own]
        return [other for _, other in sorted(before, key=lambda each: each[0])]

    def is_before(self, one: Job, other: Job) -> bool:
        """Whether the first job's place is, or would be, before the other's."""
        return self._place(one) < self._place(other)

    def _place(self, job: Job) -> _Place:
        named = [job.spec.priority_class_name, *(priority_class_of(task) for task in job.spec.tasks[:1])]
        found = self._classes.get(next(filter(None, named), ""))
        priority = found.value if isinstance(found, PriorityClass) else 0
        meta = job.metadata
        asked = self._asked.get(meta.uid, len(self._asked))
        return _Place(-priority, meta.creation_timestamp or "", asked, meta.name)


def held_before(context: PolicyContext) -> dict[str, str]:
    """Who an earlier process left waiting in line: such jobs show so, and ask one after the other."""
    jobs = context.indexes[kinds.JOB.resource].within(context.job.metadata.namespace).values()
    return {
        job.metadata.uid: job.metadata.name
        for job in jobs
        if isinstance(job, Job) and job.status.state.message.startswith(WAITS) and may_start(job)
    }
