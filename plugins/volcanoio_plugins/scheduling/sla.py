"""Plugin sla: limits the waiting time of jobs (Volcano: pkg/scheduler/plugins/sla).

A permit for an overdue job overrides rejections of later tiers; a rejection of the same tier still wins.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from volcanoio.framework.arguments import ArgumentError, GoDuration, convert
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import ABSTAIN, PERMIT, Verdict
from volcanoio.framework.scheduling.views import Job
from volcanoio.model.times import epoch_or_none, positive_duration

WAITING_TIME = "sla-waiting-time"
ANNOTATIONS = (f"volcano.sh/{WAITING_TIME}", WAITING_TIME)
"""Annotations of a PodGroup with its own waiting time; the first that is a valid duration counts."""


class SlaArguments(msgspec.Struct, frozen=True):
    """`sla-waiting-time` is the default for jobs without an annotation: a duration such as 1h30m."""

    waiting_time: GoDuration | None = msgspec.field(default=None, name=WAITING_TIME)


class Sla:
    """Orders jobs by deadline, and permits overdue ones."""

    name = "sla"
    keeps_job_keys = True

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._waiting = convert(arguments, SlaArguments, self.name).waiting_time
        if self._waiting is not None and not self._waiting:
            msg = f"{self.name}: {WAITING_TIME} must be more than 0; write for example 30m, or leave it out"
            raise ArgumentError(msg, key=WAITING_TIME)
        self._now = 0.0

    def open(self, session: SessionView) -> None:
        """Read the time."""
        self._now = session.now

    def job_key(self, job: Job) -> tuple[bool, float]:
        """Order by deadline, earlier first; jobs without one last."""
        deadline = self._deadline(job)
        return deadline is None, deadline or 0.0

    def job_enqueueable(self, job: Job) -> Verdict:
        """Permit overdue jobs."""
        return self._vote(job)

    def job_pipelined(self, job: Job) -> Verdict:
        """Permit overdue jobs."""
        return self._vote(job)

    def _vote(self, job: Job) -> Verdict:
        return PERMIT if (deadline := self._deadline(job)) is not None and self._now > deadline else ABSTAIN

    def _deadline(self, job: Job) -> float | None:
        annotations = job.group.metadata.annotations
        own = next((waiting for key in ANNOTATIONS if (waiting := positive_duration(annotations.get(key, "")))), None)
        waiting = own or self._waiting
        created = epoch_or_none(job.created)
        return None if waiting is None or created is None else created + waiting
