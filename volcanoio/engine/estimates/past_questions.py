"""Finished jobs as the queue model needs them: jobs to come, and past moments at which jobs waited.

At past moments the model is asked what it would have answered, and the answers are compared with what happened: that
calibrates it for this very cluster. A finished job has where and when its pods ran, so that past moments are known.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from volcanoio.engine.accounting.finished_jobs import FinishedJob
from volcanoio.engine.estimates.intervals import Calibration, Outcome, calibrate, interval_of
from volcanoio.engine.estimates.queue_model import QueueModel, QueueShare, RunningGroup, WaitingGroup
from volcanoio.engine.estimates.run_times import Floats, RunTimes
from volcanoio.model.resources import MEMORY, PODS

FUTURES = 8
"""Sequences of jobs to come that are simulated in turn."""
MOST_ARRIVALS = 500
"""Jobs of such a sequence."""
SHORTEST_WAIT = 2.0
"""Seconds: a job that waited no longer did not wait for others."""
MOMENTS = 80
"""Past moments at which the model is asked."""
_DAY = 86_400.0
LATE = (np.inf,)
"""Rank of jobs that arrive later: behind those that wait already."""


class PastJobs:
    """Finished jobs by creation; `resources` and `nodes` are the names of the model's rows and columns."""

    def __init__(self, jobs: Sequence[FinishedJob], resources: Sequence[str], nodes: Sequence[str]) -> None:
        self.jobs = sorted(jobs, key=lambda job: job.created)
        self._created = [job.created for job in self.jobs]
        self._resources = tuple(resources)
        self._rows = {name: row for row, name in enumerate(nodes)}
        self._requests: dict[str, Floats] = {}

    def before(self, moment: float) -> list[FinishedJob]:
        """Return the jobs that had finished by then, by their end: what was known."""
        return sorted((job for job in self.jobs if job.finished <= moment), key=lambda job: job.finished)

    def futures(self, now: float, times: RunTimes) -> list[list[WaitingGroup]]:
        """Return what may arrive from now on: what arrived after past moments, on the days before if there were any.

        Only jobs that were created before now are used.
        """
        if not self._created or now - self._created[0] < 60:
            return [[]]
        first, days = self._created[0], [now - day * _DAY for day in range(1, FUTURES + 1)]
        moments = [moment for moment in days if moment >= first]
        if len(moments) < FUTURES:
            parts = (np.arange(FUTURES - len(moments)) + 0.5) / (2 * (FUTURES - len(moments)))
            moments += [first + part * (now - first) for part in parts.tolist()]
        return [self._arrivals(moment, now, times) for moment in moments]

    def _arrivals(self, moment: float, until: float, times: RunTimes) -> list[WaitingGroup]:
        start, end = bisect_left(self._created, moment), bisect_left(self._created, until)
        found = self.jobs[start : min(end, start + MOST_ARRIVALS)]
        return [self._waiting(job, times, LATE, job.created - moment) for job in found]

    def _waiting(self, job: FinishedJob, times: RunTimes, rank: tuple[float, ...], arrives: float) -> WaitingGroup:
        return WaitingGroup(
            key=job.uid,
            queue=job.queue,
            request=self.request(job),
            minimum=min(max(job.min_available, 1), job.pods),
            pods=job.pods,
            seconds=times.of(job.namespace, job.owner, job.name, job.queue, job.estimate).seconds,
            rank=rank,
            arrives=arrives,
        )

    def request(self, job: FinishedJob) -> Floats:
        """Return what a pod of a job requested on average, in the scheduler's units."""
        if (known := self._requests.get(job.uid)) is None:
            share = (
                {name: amount / job.pod_seconds for name, amount in job.requested.items()} if job.pod_seconds else {}
            )
            units = {name: amount if name == MEMORY else 1000 * amount for name, amount in share.items()} | {PODS: 1.0}
            known = self._requests[job.uid] = np.array([units.get(name, 0.0) for name in self._resources])
        return known

    def model_at(
        self, moment: float, times: RunTimes, now_model: QueueModel, age: float
    ) -> tuple[QueueModel, list[FinishedJob]]:
        """Return the model of a past moment, `age` seconds ago, and the jobs that waited then.

        Jobs that still run and did so then are those of `now_model`.
        """
        free = now_model.free.copy()
        for group in now_model.running:
            np.add.at(free, (slice(None), group.rows), group.request.reshape(-1, 1))
        running = [older for group in now_model.running if (older := _older(group, age)) is not None]
        waiting, more = list[FinishedJob](), list[WaitingGroup]()
        for job in self.jobs[: bisect_left(self._created, moment)]:
            if job.finished <= moment or job.started is None:
                continue
            if job.started > moment:
                waiting.append(job)
                continue
            if (group := self._running(job, moment, times)) is not None:
                running.append(group)
            if (left := job.pods - sum(place.started <= moment for place in job.places)) > 0 and job.places:
                group_left = self._waiting(job, times, LATE, 0.0)
                more.append(replace(group_left, minimum=0, pods=left))
        for group in running:
            np.subtract.at(free, (slice(None), group.rows), group.request.reshape(-1, 1))
        groups = [self._waiting(job, times, (float(place),), 0.0) for place, job in enumerate(waiting)]
        queues = {name: _emptied(share, name, running) for name, share in now_model.queues.items()}
        model = QueueModel(free=np.maximum(free, 0), running=running, waiting=[*groups, *more], queues=queues)
        return model, waiting

    def _running(self, job: FinishedJob, moment: float, times: RunTimes) -> RunningGroup | None:
        """Return the pods of a job that ran at a past moment, None if there were none on nodes that exist."""
        here = [
            (row, moment - place.started)
            for place in job.places
            if place.started <= moment < place.ended and (row := self._rows.get(place.node)) is not None
        ]
        if not here:
            return None
        return RunningGroup(
            queue=job.queue,
            request=self.request(job),
            rows=np.array([row for row, _ in here], np.intp),
            ages=np.array([age for _, age in here]),
            seconds=times.of(job.namespace, job.owner, job.name, job.queue, job.estimate).seconds,
        )


def _older(group: RunningGroup, age: float) -> RunningGroup | None:
    """Return the pods of a group that ran already so many seconds ago, None if there are none."""
    old = group.ages >= age
    if not old.any():
        return None
    return RunningGroup(
        queue=group.queue,
        request=group.request,
        rows=group.rows[old],
        ages=group.ages[old] - age,
        seconds=group.seconds,
    )


def _emptied(share: QueueShare, name: str, running: Sequence[RunningGroup]) -> QueueShare:
    allocated = np.zeros_like(share.allocated)
    for group in running:
        if group.queue == name:
            allocated += group.request * len(group.rows)
    return QueueShare(deserved=share.deserved, capability=share.capability, allocated=allocated)


def past_outcomes(past: PastJobs, now_model: QueueModel, now: float, *, seed: int = 0) -> list[Outcome]:
    """Return what the model would have answered at past moments, without calibration, and what happened."""
    moments = _moments(past.jobs, now)
    found: list[Outcome] = []
    for number, moment in enumerate(moments):
        times = RunTimes(past.before(moment))
        model, waiting = past.model_at(moment, times, now_model, now - moment)
        starts = model.starts(past.futures(moment, times), seed=seed + number)
        for at, job in enumerate(waiting):
            assert job.started is not None
            found.append(Outcome(interval_of(starts[:, at]), job.started - moment))
    return found


def learn(past: PastJobs, now_model: QueueModel, now: float, *, seed: int = 0) -> Calibration:
    """Return the calibration of the model for the cluster in which these jobs ran."""
    return calibrate(past_outcomes(past, now_model, now, seed=seed))


def _moments(jobs: Sequence[FinishedJob], now: float) -> list[float]:
    """Return moments at which jobs waited, spread evenly over the waits: long waits have more of them."""
    waits = [(job.created, job.started) for job in jobs if job.started is not None and job.wait > SHORTEST_WAIT]
    waits = [(created, started) for created, started in waits if started <= now]
    if not waits:
        return []
    lengths = np.cumsum([started - created for created, started in waits])
    wanted = (np.arange(MOMENTS) + 0.5) / MOMENTS * lengths[-1]
    at = np.searchsorted(lengths, wanted)
    return sorted(
        waits[each][1] - float(lengths[each] - length)
        for each, length in zip(at.tolist(), wanted.tolist(), strict=True)
    )
