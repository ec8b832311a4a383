"""Plugin team-quota: admits jobs of each team (a namespace) while their minimum is within its limit.

A complete small plugin: typed arguments, a vote with a reason, an order of jobs, and a table of admitted amounts that
follows the session's undo log.
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
    """`resource` is the limited resource, `limits` its amount by namespace; a namespace without one has no limit."""

    resource: str = msgspec.field(default="nvidia.com/gpu", name="team-quota.resource")
    limits: dict[str, str | int] = msgspec.field(default_factory=dict, name=LIMITS)


class TeamQuota:
    """Votes on the admission of jobs, and orders jobs by their teams' share of the limit."""

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
        """Sum the admitted amounts: a table is empty when a session opens."""
        self._admitted = session.table(self.name, "admitted")
        for phase in (PodGroupPhase.INQUEUE, PodGroupPhase.RUNNING):
            for job in session.jobs_in(phase):
                self._admitted.add(job.namespace, self._minimum(job))

    def job_enqueueable(self, job: Job) -> Verdict:
        """Permit the job if its minimum fits into the rest of its team's limit."""
        limit = self._limits.get(job.namespace)
        if limit is None or self._admitted is None:
            return PERMIT
        admitted = self._admitted.get(job.namespace)
        if admitted + self._minimum(job) <= limit:
            return PERMIT
        held, most = format_amount(self._resource, admitted), format_amount(self._resource, limit)
        return reject(OVER, f"team {job.namespace} has {held} of {most} {self._resource} in use or reserved")

    def job_enqueued(self, job: Job) -> None:
        """Count the job, for later jobs of this cycle."""
        if self._admitted is not None:
            self._admitted.add(job.namespace, self._minimum(job))

    def job_key(self, job: Job) -> float:
        """Return the team's share of its limit; teams without a limit come first."""
        limit = self._limits.get(job.namespace)
        if limit is None or self._admitted is None:
            return 0.0
        return self._admitted.get(job.namespace) / limit if limit else 1.0

    def _minimum(self, job: Job) -> int:
        return (job.min_resources or {}).get(self._resource, 0)
