"""Plugin sla: no job waits longer than it was promised (Volcano: pkg/scheduler/plugins/sla).

A permit for a job that is overdue counts against rejections of later tiers; one of the same tier still wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from volcanoio.framework.arguments import ArgumentError, GoDuration, convert
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import ABSTAIN, PERMIT, Verdict
from volcanoio.framework.scheduling.views import Job
from volcanoio_plugins.scheduling.parts.times import epoch, positive_duration

WAITING_TIME = "sla-waiting-time"
ANNOTATIONS = (f"volcano.sh/{WAITING_TIME}", WAITING_TIME)
"""Where a PodGroup says how long it may wait; the first that is a duration counts."""


class SlaArguments(msgspec.Struct, frozen=True):
    """`sla-waiting-time` is for jobs that say nothing themselves: a duration such as 1h30m."""

    waiting_time: GoDuration | None = msgspec.field(default=None, name=WAITING_TIME)


class Sla:
    """Orders jobs by when their waiting must end, and lets the overdue pass."""

    name = "sla"
    keeps_job_keys = True

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._waiting = convert(arguments, SlaArguments, self.name).waiting_time
        if self._waiting is not None and not self._waiting:
            msg = f"{self.name}: {WAITING_TIME} must be more than 0; write for example 30m, or leave it out"
            raise ArgumentError(msg, key=WAITING_TIME)
        self._now = 0.0

    def open(self, session: SessionView) -> None:
        """What time it is."""
        self._now = session.now

    def job_key(self, job: Job) -> tuple[bool, float]:
        """The earlier deadline first; jobs without one last."""
        deadline = self._deadline(job)
        return deadline is None, deadline or 0.0

    def job_enqueueable(self, job: Job) -> Verdict:
        """Yes to what is overdue."""
        return self._vote(job)

    def job_pipelined(self, job: Job) -> Verdict:
        """Yes to what is overdue."""
        return self._vote(job)

    def _vote(self, job: Job) -> Verdict:
        deadline = self._deadline(job)
        return PERMIT if deadline is not None and self._now > deadline else ABSTAIN

    def _deadline(self, job: Job) -> float | None:
        """When the job's waiting must end (epoch seconds), None when nothing was promised."""
        annotations = job.group.metadata.annotations
        own = next((waiting for key in ANNOTATIONS if (waiting := positive_duration(annotations.get(key, "")))), None)
        waiting = own or self._waiting
        created = epoch(job.created)
        return None if waiting is None or created is None else created + waiting
