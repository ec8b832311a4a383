"""What the CronJob controller knows about one CronJob, and how it learns it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from volcanoio.engine.pacing import Pace
from volcanoio.framework.events import Change
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import FINISHED_PHASES, Job, JobPhase
from volcanoio.model.cron import CronJob

INACTIVE = FINISHED_PHASES | {JobPhase.ABORTED}
"""Phases in which nothing of a job runs and nothing will without somebody's asking."""
Sent: TypeAlias = Literal["", "create", "delete", "status"]


class CronState(msgspec.Struct, frozen=True, kw_only=True):
    """One key. `jobs` are the Jobs that CronJobs of this name control, by uid.

    `said` is what was last told, by reason, so that it is told once. `sent` says what the last write was, `tried` is
    the name of the last run that was to be made, `replaced` are uids of runs that had to give way. `timers` run until
    the given moment (epoch seconds).
    """

    cron: CronJob | None = None
    jobs: dict[str, Job] = {}
    said: dict[str, str] = {}
    sent: Sent = ""
    tried: str = ""
    replaced: frozenset[str] = frozenset()
    pace: Pace = Pace()
    timers: dict[str, float] = {}

    @property
    def runs(self) -> list[Job]:
        """The Jobs of this very CronJob, oldest first."""
        if self.cron is None:
            return []
        uid = self.cron.metadata.uid
        mine = [
            job for job in self.jobs.values() if (owner := job.metadata.controller) is not None and owner.uid == uid
        ]
        return sorted(mine, key=age)


def age(job: Job) -> tuple[str, str]:
    """What Jobs are ordered by: creation, then name."""
    return (job.metadata.creation_timestamp or "", job.metadata.name)


def is_active(job: Job) -> bool:
    """Whether the run goes on: it is not at rest and nobody deletes it."""
    return job.status.state.phase not in INACTIVE and job.metadata.deletion_timestamp is None


def is_scheduled(job: Job) -> bool:
    """Whether we made the Job, at a time of the schedule; else somebody gave it this owner."""
    return names.SCHEDULED_TIMESTAMP in job.metadata.annotations


def run_keys(job: ApiObject) -> Iterable[str]:
    """The key of the CronJob that controls a Job."""
    owner = job.metadata.controller
    if owner is None or (owner.kind, owner.api_version) != (kinds.CRON_JOB.kind, kinds.CRON_JOB.api_version):
        return ()
    return (f"{job.metadata.namespace}/{owner.name}",)


def fold(state: CronState, obj: ApiObject, change: Change, key: str) -> CronState:
    """Take in one object's newest state; what is no business of this key changes nothing."""
    match obj:
        case CronJob() if obj.metadata.key == key:
            if change is Change.GONE:
                return replace(state, cron=None, said={}, pace=Pace(), tried="")
            return _seen(state, obj)
        case Job() if key in run_keys(obj):
            jobs = {uid: job for uid, job in state.jobs.items() if uid != obj.metadata.uid}
            if change is not Change.GONE:
                jobs[obj.metadata.uid] = obj
            return replace(state, jobs=jobs)
        case _:  # an object that stood in our way
            return state


def _seen(state: CronState, cron: CronJob) -> CronState:
    """A newer version of the CronJob; another spec is tried at once and told of anew."""
    known = state.cron
    if known is not None and known.metadata.uid == cron.metadata.uid:
        if cron.metadata.revision < known.metadata.revision:
            return state
        if cron.spec == known.spec:
            return replace(state, cron=cron)
    return replace(state, cron=cron, said={}, pace=Pace(), tried="")
