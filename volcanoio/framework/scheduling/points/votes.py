"""Points that say what a queue or a job may do."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from volcanoio.framework.scheduling.subjobs import SubJob
from volcanoio.framework.scheduling.verdicts import Verdict
from volcanoio.framework.scheduling.views import Job, QueueView, Shape

KEPT_VERDICTS = "keeps_verdicts"
"""The attribute of plugins whose answers about victims, queues' limits and whether jobs starve, are valid and pipelined
follow from nodes, pods, jobs and queues alone, not from the time: jobs for which actions that evict found nothing are
asked for again when something changed, or after a minute or two. True for all such plugins, or each cycle asks."""
REFUSES_ALIKE = "refuses_alike"
"""The attribute of `JobEnqueueable`."""


@runtime_checkable
class Overused(Protocol):
    """Says that a queue gets nothing more this cycle; any plugin's yes counts."""

    def overused(self, queue: QueueView) -> bool:
        """Whether the queue holds its share already."""
        ...


@runtime_checkable
class Allocatable(Protocol):
    """Says how many more tasks of a shape a queue may take; all plugins must agree."""

    def fits(self, queue: QueueView, shape: Shape, count: int) -> int:
        """How many of `count` tasks are within the queue's limits (0..count), given what is allocated now."""
        ...


@runtime_checkable
class JobValid(Protocol):
    """Says whether a job is worth looking at; the first rejection counts."""

    def job_valid(self, job: Job) -> Verdict:
        """PERMIT, ABSTAIN or a rejection with its reason."""
        ...


@runtime_checkable
class JobReady(Protocol):
    """Says whether a job's statement may be committed; all must agree.

    It is asked after every task that is placed, unless the plugin also has `job_lacks(job) -> int`: how many more tasks
    must be placed at least before `job_ready` can be true. Then it is asked when so many were.
    """

    def job_ready(self, job: Job) -> bool:
        """Whether enough of it is placed."""
        ...


@runtime_checkable
class JobPipelined(Protocol):
    """Says whether a job's reservations are worth keeping; votes by tier."""

    def job_pipelined(self, job: Job) -> Verdict:
        """The vote."""
        ...


@runtime_checkable
class SubJobReady(Protocol):
    """Says whether enough of a sub-job is placed; all must agree. Where a job has none, `JobReady` alone decides.

    As `JobReady` it may say how many more tasks are needed at least: `sub_job_lacks(sub_job) -> int`.
    """

    def sub_job_ready(self, sub_job: SubJob) -> bool:
        """Whether enough of it is placed."""
        ...


@runtime_checkable
class SubJobPipelined(Protocol):
    """Says whether a sub-job's reservations are worth keeping; votes by tier."""

    def sub_job_pipelined(self, sub_job: SubJob) -> Verdict:
        """The vote."""
        ...


@runtime_checkable
class JobStarving(Protocol):
    """Says whether a job may evict others; all of the first tier with an opinion must agree."""

    def job_starving(self, job: Job) -> bool:
        """Whether it lacks what it needs."""
        ...


@runtime_checkable
class JobEnqueueable(Protocol):
    """Says whether a Pending job may become Inqueue; votes by tier.

    A plugin whose votes follow from the session and of the job only from its queue, its namespace and `min_resources`,
    and whose rejection stands whatever else is admitted in the session, may say so with the attribute
    `refuses_alike = True`. Where all plugins asked say so, what is rejected is so before turns are taken, and jobs that
    are alike are asked about once.
    """

    def job_enqueueable(self, job: Job) -> Verdict:
        """The vote; a rejection's message is the text of the PodGroup's event."""
        ...


@runtime_checkable
class JobEnqueued(Protocol):
    """Is told that a job became Inqueue in this session."""

    def job_enqueued(self, job: Job) -> None:
        """Count its demand."""
        ...
