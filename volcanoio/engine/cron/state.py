"""State of one CronJob as observed, and the Events recorded about it."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from volcanoio.framework.backoff import WriteBackoff
from volcanoio.framework.effects import Record, record_event
from volcanoio.framework.events import Change
from volcanoio.framework.operators import owner_key
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import FINISHED_PHASES, CronJob, Job, JobPhase

INACTIVE_PHASES = FINISHED_PHASES | {JobPhase.ABORTED}
"""Phases in which a job does not run, nor will without a user's action."""
WriteKind: TypeAlias = Literal["", "create", "delete", "status"]


class CronState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one key.

    - `jobs`: Jobs that CronJobs of this name control, by uid
    - `last_messages`: last message by reason, so that an Event is recorded once
    - `last_write`: what was written last; `last_run_name`: name of the last run that was to be created
    - `replaced`: uids of runs that were deleted in favour of a newer one
    - `timers`: running timers with their times (epoch seconds)
    """

    cron: CronJob | None = None
    jobs: dict[str, Job] = {}
    last_messages: dict[str, str] = {}
    last_write: WriteKind = ""
    last_run_name: str = ""
    replaced: frozenset[str] = frozenset()
    backoff: WriteBackoff = WriteBackoff()
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
        return sorted(mine, key=age_key)


def age_key(job: Job) -> tuple[str, str]:
    """Sort key of Jobs: creation, then name."""
    return (job.metadata.creation_timestamp or "", job.metadata.name)


def is_active(job: Job) -> bool:
    """Return whether the run is neither finished nor being deleted."""
    return job.status.state.phase not in INACTIVE_PHASES and job.metadata.deletion_timestamp is None


def is_scheduled(job: Job) -> bool:
    """Return whether this controller created the Job for a time of the schedule."""
    return names.SCHEDULED_TIMESTAMP in job.metadata.annotations


def run_keys(job: ApiObject) -> Iterable[str]:
    """Return the key of the CronJob that controls a Job."""
    key = owner_key(kinds.CRON_JOB, job)
    return (key,) if key else ()


def fold(state: CronState, obj: ApiObject, change: Change, key: str) -> CronState:
    """Fold an object's newest state; objects of other keys change nothing."""
    match obj:
        case CronJob() if obj.metadata.key == key:
            if change is Change.GONE:
                return replace(state, cron=None, last_messages={}, backoff=WriteBackoff(), last_run_name="")
            return _fold_cron_job(state, obj)
        case Job() if key in run_keys(obj):
            jobs = {uid: job for uid, job in state.jobs.items() if uid != obj.metadata.uid}
            if change is not Change.GONE:
                jobs[obj.metadata.uid] = obj
            return replace(state, jobs=jobs)
        case _:  # a Job of another owner with a run's name
            return state


def _fold_cron_job(state: CronState, cron: CronJob) -> CronState:
    """Fold a newer version of the CronJob; another spec is tried and reported at once."""
    if (known := state.cron) is not None and known.metadata.uid == cron.metadata.uid:
        if cron.metadata.revision < known.metadata.revision:
            return state
        if cron.spec == known.spec:
            return replace(state, cron=cron)
    return replace(state, cron=cron, last_messages={}, backoff=WriteBackoff(), last_run_name="")


WARNING, NORMAL = "Warning", "Normal"


def cron_event(cron: CronJob, type_: str, reason: str, message: str) -> Record:
    """Return an Event about the CronJob."""
    return record_event(kinds.CRON_JOB, cron, reason, message, type_=type_)


def cron_event_once(
    state: CronState, cron: CronJob, type_: str, reason: str, message: str
) -> tuple[CronState, tuple[Record, ...]]:
    """Return an Event, unless the last one of its reason had the same message."""
    if state.last_messages.get(reason) == message:
        return state, ()
    return replace(state, last_messages={**state.last_messages, reason: message}), (
        cron_event(cron, type_, reason, message),
    )
