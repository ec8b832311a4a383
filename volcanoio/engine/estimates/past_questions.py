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
from volcanoio.engine.estimates.queue_model import GOLDEN, QueueModel, QueueShare, RunningGroup, WaitingGroup
from volcanoio.engine.estimates.run_times import Floats, RunTimes, age_of
from volcanoio.model.resources import MEMORY, PODS

FUTURES = 8
"""Sequences of jobs to come that are simulated in turn."""
MOST_ARRIVALS = 500
"""Jobs of such a sequence."""
SHORTEST_WAIT = 2.0
"""A job that waited for at most this many seconds did not wait for others."""
LEAST_KNOWN = 10
"""Least number of jobs that finished before the first moment, and of jobs asked about, for a calibration."""
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
            np.add.at(free.T, group.rows, group.request)
        running = [older for group in now_model.running if (older := _older(group, age)) is not None]
        waiting, more = list[FinishedJob](), list[WaitingGroup]()
        for job in self.jobs[: bisect_left(self._created, moment)]:
            if job.finished <= moment or job.started is None:
                continue
            if job.started > moment:
                waiting.append(job)
                continue
            running += self._running(job, moment, times)
            if (left := job.pods - sum(place.started <= moment for place in job.places)) > 0 and job.places:
                group_left = self._waiting(job, times, LATE, 0.0)
                more.append(replace(group_left, minimum=0, pods=left))
        for group in running:
            np.subtract.at(free.T, group.rows, group.request)
        groups = [self._waiting(job, times, (float(place),), 0.0) for place, job in enumerate(waiting)]
        queues = {name: _emptied(share, name, running) for name, share in now_model.queues.items()}
        model = QueueModel(free=np.maximum(free, 0), running=running, waiting=[*groups, *more], queues=queues)
        return model, waiting

    def _running(self, job: FinishedJob, moment: float, times: RunTimes) -> list[RunningGroup]:
        """Return the pods of a job that ran at a past moment on nodes that still exist, as a group if there are any."""
        here = [
            (row, place.started)
            for place in job.places
            if place.started <= moment < place.ended and (row := self._rows.get(place.node)) is not None
        ]
        if not here:
            return []
        group = RunningGroup(
            queue=job.queue,
            request=self.request(job),
            rows=np.array([row for row, _ in here], np.intp),
            ages=age_of(np.array([started for _, started in here]), moment),
            seconds=times.of(job.namespace, job.owner, job.name, job.queue, job.estimate).seconds,
        )
        return [group]


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


def learn(past: PastJobs, now_model: QueueModel, now: float, *, seed: int = 0) -> Calibration:
    """Return the calibration of the model for the cluster in which these jobs ran; `seed` is for its samples.

    It is asked at past moments, each time with what was known then, and the answers are compared with what happened.
    """
    ended = sorted((job for job in past.jobs if job.finished <= now), key=lambda job: job.finished)
    if len(ended) < LEAST_KNOWN:
        return Calibration()
    times, known = RunTimes(), 0
    outcomes: list[Outcome] = []
    asked: set[str] = set()
    for number, moment in enumerate(_moments(past.jobs, ended[LEAST_KNOWN - 1].finished, now)):
        while known < len(ended) and ended[known].finished <= moment:
            times.add(ended[known])
            known += 1
        model, waiting = past.model_at(moment, times, now_model, now - moment)
        starts = model.starts(past.futures(moment, times), seed=seed + number)
        for at, job in enumerate(waiting):
            if job.started is not None and job.wait > SHORTEST_WAIT:
                part = len(outcomes) * GOLDEN % 1.0  # times are whole seconds: it started some part of one later
                outcomes.append(Outcome(interval_of(starts[:, at]), job.started + part - moment))
                asked.add(job.uid)
    return calibrate(outcomes) if len(asked) >= LEAST_KNOWN else Calibration()


def _moments(jobs: Sequence[FinishedJob], since: float, now: float) -> list[float]:
    """Return moments at which jobs waited, spread evenly over the waits: long waits have more of them."""
    waits = [
        (max(job.created, since), job.started)
        for job in jobs
        if job.started is not None and job.wait > SHORTEST_WAIT and since < job.started <= now
    ]
    if not waits:
        return []
    lengths = np.cumsum([started - begun for begun, started in waits])
    wanted = (np.arange(MOMENTS) + 0.5) / MOMENTS * lengths[-1]
    at = np.searchsorted(lengths, wanted)
    return sorted(
        waits[each][1] - float(lengths[each] - length) for each, length in zip(at.tolist(), wanted, strict=True)
    )
