"""When a waiting job starts: the scheduler's engine reads the state, the queue model simulates it, history calibrates.

One cycle decides about the state; what it leaves waiting is simulated forward (`engine.estimates.queue_model`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from volcanoio.compose.simulate import Simulator
from volcanoio.compose.state_files import State
from volcanoio.compose.why import builder, last_of
from volcanoio.engine.accounting.finished_jobs import FinishedJob, owner_of
from volcanoio.engine.estimates.intervals import interval_of
from volcanoio.engine.estimates.observed_state import Observation, observe
from volcanoio.engine.estimates.past_questions import PastJobs, learn
from volcanoio.engine.estimates.queue_model import SAMPLES
from volcanoio.engine.estimates.run_times import RunTime, RunTimes
from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.diagnosis import codes
from volcanoio.engine.scheduling.diagnosis.answers import UnknownTargetError, find, parse_target
from volcanoio.engine.scheduling.diagnosis.diagnosis import Diagnosis, diagnose_job
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup
from volcanoio.model.times import epoch_or_none, positive_duration

HISTORY_SECONDS = 14 * 86_400.0
"""Seconds of history that are read."""
MOST_JOBS = 20_000
"""Newest finished jobs that are read."""


class Eta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When a job starts, in seconds from `at` (epoch seconds): no later than `p50` in half of the cases, `p90` in nine
    of ten, and in one of ten before `p10`.

    None is later than was simulated (30 days, or 5,000 changes of the cluster). A job that `waits` is `position` among
    the waiting jobs of its queue. `run_time` is the median for its pods in seconds, from `run_time_source`.
    `past_answers` calibrated the interval; without any it is that of the simulation, widened by a guess. `obstacle` is
    why a job cannot start however many others end, "" for one that can; its times are None.
    """

    target: str
    at: float
    waits: bool
    queue: str = ""
    position: int = 0
    p10: float | None = 0.0
    p50: float | None = 0.0
    p90: float | None = 0.0
    run_time: float = 0.0
    run_time_source: str = ""
    run_time_jobs: int = 0
    simulations: int = 0
    past_answers: int = 0
    obstacle: str = ""


_OBSTACLES = (codes.POD_GROUP_NOT_FOUND, codes.QUEUE_NOT_FOUND, codes.SCHEDULING_GATED)
"""Codes of jobs that the end of other jobs does not help."""


@dataclass(frozen=True, slots=True)
class _Known:
    """Run times of past jobs, and what decides which of them apply to a job, by the key of its PodGroup."""

    times: RunTimes
    groups: dict[str, PodGroup]
    jobs: dict[str, Job]

    def run_time_of(self, info: JobInfo) -> RunTime:
        """Return the run time of the pods of a job."""
        group = self.groups.get(info.key)
        job = None if group is None else self.jobs.get(f"{info.namespace}/{_job_name(group)}")
        if job is not None:
            estimate = positive_duration(job.spec.running_estimate) if job.spec.running_estimate else None
            return self.times.of(info.namespace, owner_of(job), job.metadata.name, info.queue, estimate)
        owner = group.metadata.annotations.get(names.CREATOR, "") if group is not None else ""
        name = _job_name(group) if group is not None else info.key.partition("/")[2]
        return self.times.of(info.namespace, owner, name, info.queue)


def estimate(simulator: Simulator, state: State, history: Sequence[FinishedJob], target: str, namespace: str) -> Eta:
    """Return when a Job or PodGroup starts: a name, or kind and name as in `job/train`. Raises UnknownTargetError.

    `history` are finished jobs with their places.
    """
    if simulator.options.now is None:
        simulator.now = max(simulator.now, _latest(state.objects, history))
    offline = builder(simulator, state)(state.objects)
    info = last_of(find(offline.state, offline.pod, *parse_target(target), namespace)).job
    if info is None:
        raise UnknownTargetError(f"{target} is not a job; give the name of a Job or PodGroup")
    key = info.key
    history = [job for job in history if job.finished <= offline.now]
    known = _Known(
        RunTimes(sorted(history, key=lambda job: job.finished)),
        {obj.metadata.key: obj for obj in state.objects if isinstance(obj, PodGroup)},
        {job.metadata.key: job for job in state.jobs},
    )
    now = offline.now
    observed, diagnosis = offline.ask(lambda session: _read(session, info, known))
    if key not in observed.jobs:
        obstacle = _obstacle(info, diagnosis) if diagnosis is not None else ""
        if obstacle:
            return Eta(target=key, at=now, waits=True, p10=None, p50=None, p90=None, obstacle=obstacle)
        return Eta(target=key, at=now, waits=False)
    at, model = observed.jobs.index(key), observed.model
    past = PastJobs(history, observed.resources, observed.nodes)
    starts = model.starts(past.futures(now, known.times))
    calibration = learn(past, model, now)
    interval = calibration.apply(interval_of(starts[:, at]))
    group, run_time = model.waiting[at], known.run_time_of(info)
    return Eta(
        target=key,
        at=now,
        waits=True,
        queue=group.queue,
        position=1 + sum(each.queue == group.queue and each.minimum > 0 for each in model.waiting[:at]),
        p10=_finite(interval.p10),
        p50=_finite(interval.p50),
        p90=_finite(interval.p90),
        run_time=float(np.median(run_time.seconds)),
        run_time_source=run_time.source.value,
        run_time_jobs=run_time.jobs,
        simulations=SAMPLES,
        past_answers=calibration.answers,
    )


def _latest(objects: Sequence[ApiObject], history: Sequence[FinishedJob]) -> float:
    """Return the newest time in a state: the time of a local cluster may run ahead of this machine's."""
    created = (epoch_or_none(obj.metadata.creation_timestamp) or 0.0 for obj in objects)
    started = (epoch_or_none(obj.status.start_time) or 0.0 for obj in objects if isinstance(obj, Pod))
    return max(
        max(created, default=0.0), max(started, default=0.0), max((job.finished for job in history), default=0.0)
    )


def _finite(seconds: float) -> float | None:
    return seconds if np.isfinite(seconds) else None


def _read(session: CycleSession, job: JobInfo, known: _Known) -> tuple[Observation, Diagnosis | None]:
    """Return what a cycle leaves waiting, and why this job waits."""
    return observe(session, known.run_time_of), last_of(diagnose_job(session, job, position=(0, ())))


def _obstacle(job: JobInfo, diagnosis: Diagnosis) -> str:
    """Return why a job that waits cannot start however many others end, "" if it can."""
    if diagnosis.code in _OBSTACLES:
        return diagnosis.message
    if job.queue_info is not None and not job.queue_info.is_open:
        return f'queue "{job.queue}" is closed; open it, or name another in spec.queue'
    return ""


def _job_name(group: PodGroup) -> str:
    """Return the name of the Job that owns a PodGroup, else its own."""
    return next(iter(kinds.owner_names(kinds.JOB, group.metadata)), group.metadata.name)
