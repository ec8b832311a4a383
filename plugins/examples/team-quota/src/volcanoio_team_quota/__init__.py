"""Plugin team-quota: each team (a namespace) has jobs admitted as far as their minimum is within its limit.

A whole plugin in small: typed arguments, a vote with a reason, an order of jobs, and what is admitted now in a table
that the session's undo log covers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from volcanoio.framework.arguments import ArgumentError, Fault, convert
from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.verdicts import PERMIT, Verdict, reject
from volcanoio.framework.scheduling.views import Job
from volcanoio.model.quantity import QuantityError
from volcanoio.model.resources import amount_of, format_amount
from volcanoio.model.scheduling import PodGroupPhase

OVER = "TeamQuotaExceeded"
LIMITS = "team-quota.limits"


class TeamQuotaArguments(msgspec.Struct, frozen=True):
    """`resource` is what is limited, `limits` how much of it by namespace; a namespace without one has no limit."""

    resource: str = msgspec.field(default="nvidia.com/gpu", name="team-quota.resource")
    limits: dict[str, str | int] = msgspec.field(default_factory=dict, name=LIMITS)


class TeamQuota:
    """Votes on jobs that want to wait for nodes, and lets teams that are further below their limit go first."""

    name = "team-quota"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        given = convert(arguments, TeamQuotaArguments, self.name)
        self._resource = given.resource
        self._limits: dict[str, int] = {}
        faults = []
        for team, text in given.limits.items():
            try:
                self._limits[team] = amount_of(given.resource, text)
            except QuantityError as error:
                faults.append(Fault(LIMITS, f"{self.name}: the limit of {team}: {error}"))
        if faults:
            raise ArgumentError(faults=faults)
        self._admitted: Table | None = None

    def open(self, session: SessionView) -> None:
        """Sum what is admitted: a table is empty when a session opens."""
        self._admitted = session.table(self.name, "admitted")
        for phase in (PodGroupPhase.INQUEUE, PodGroupPhase.RUNNING):
            for job in session.jobs_in(phase):
                self._admitted.add(job.namespace, self._minimum(job))

    def job_enqueueable(self, job: Job) -> Verdict:
        """Whether the job's minimum is within what its team has left."""
        limit = self._limits.get(job.namespace)
        if limit is None or self._admitted is None:
            return PERMIT
        admitted = self._admitted.get(job.namespace)
        if admitted + self._minimum(job) <= limit:
            return PERMIT
        held, most = format_amount(self._resource, admitted), format_amount(self._resource, limit)
        return reject(OVER, f"team {job.namespace} has {held} of {most} {self._resource} in use or promised")

    def job_enqueued(self, job: Job) -> None:
        """Count it: later jobs of this cycle see it."""
        if self._admitted is not None:
            self._admitted.add(job.namespace, self._minimum(job))

    def job_key(self, job: Job) -> float:
        """The team's share of its limit; teams without a limit first."""
        limit = self._limits.get(job.namespace)
        if limit is None or self._admitted is None:
            return 0.0
        return self._admitted.get(job.namespace) / limit if limit else 1.0

    def _minimum(self, job: Job) -> int:
        return (job.min_resources or {}).get(self._resource, 0)
