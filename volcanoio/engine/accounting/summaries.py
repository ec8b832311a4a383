"""Sums over finished jobs, by user, queue, namespace or job name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from volcanoio.engine.accounting.finished_jobs import FinishedJob, UnitSeconds
from volcanoio.model.batch import JobPhase

UNKNOWN = "unknown"
"""Group of jobs whose owner is not known."""
_NUMBERS = re.compile(r"(?<=[-.])(?:\d+|[0-9a-z]{5})$")
"""End of a name that differs from run to run: a number, or the five characters of generateName."""


class GroupBy(StrEnum):
    """What finished jobs are summed by; `job` is the name without what numbers its runs."""

    USER = "user"
    QUEUE = "queue"
    NAMESPACE = "namespace"
    JOB = "job"


class Summary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Sums of a group. Times are in seconds; None without a job that ran.

    `unused` is the share of the requested resources that was not used, by resource, over the time that was measured.
    """

    group: str
    jobs: int
    completed: int
    failed: int
    restarts: int
    pods: int
    wait_p50: float
    wait_p90: float
    run_p50: float | None
    run_p90: float | None
    requested: UnitSeconds
    used: UnitSeconds
    measured: float
    unused: dict[str, float]


def summarise(jobs: Iterable[FinishedJob], by: GroupBy) -> list[Summary]:
    """Return the groups, those that requested most cpu first."""
    groups: dict[str, list[FinishedJob]] = {}
    for job in jobs:
        groups.setdefault(_group_of(job, by), []).append(job)
    found = [_summary(group, members) for group, members in groups.items()]
    return sorted(found, key=lambda each: (-each.requested.get("cpu", 0.0), each.group))


def name_pattern(name: str) -> str:
    """Return a job's name without its ends that differ from run to run, as in `train-2024-07` → `train-*`.

    Runs of CronJobs end with a time, those of a generateName with five characters, others with numbers.
    """
    pattern = name
    while (shorter := _NUMBERS.sub("", pattern).rstrip("-.")) != pattern and shorter:
        pattern = shorter
    return pattern if pattern == name else f"{pattern}-*"


def _group_of(job: FinishedJob, by: GroupBy) -> str:
    match by:
        case GroupBy.USER:
            return job.owner or UNKNOWN
        case GroupBy.QUEUE:
            return job.queue
        case GroupBy.NAMESPACE:
            return job.namespace
        case GroupBy.JOB:
            return f"{job.namespace}/{name_pattern(job.name)}"


def _summary(group: str, jobs: Sequence[FinishedJob]) -> Summary:
    waits = sorted(job.wait for job in jobs)
    runs = sorted(seconds for job in jobs if (seconds := job.run_time) is not None)
    requested, used, compared = UnitSeconds(), UnitSeconds(), UnitSeconds()
    for job in jobs:
        _add(requested, job.requested, 1.0)
        _add(used, job.used, 1.0)
        _add(compared, {name: job.requested.get(name, 0.0) for name in job.used}, job.measured)
    pod_seconds = sum(job.pod_seconds for job in jobs)
    measured = sum(min(job.measured_seconds, job.pod_seconds) for job in jobs)
    return Summary(
        group=group,
        jobs=len(jobs),
        completed=sum(job.phase == JobPhase.COMPLETED for job in jobs),
        failed=sum(job.phase == JobPhase.FAILED for job in jobs),
        restarts=sum(job.restarts for job in jobs),
        pods=sum(job.pods for job in jobs),
        wait_p50=at_rank(waits, 0.5),
        wait_p90=at_rank(waits, 0.9),
        run_p50=at_rank(runs, 0.5) if runs else None,
        run_p90=at_rank(runs, 0.9) if runs else None,
        requested=requested,
        used=used,
        measured=measured / pod_seconds if pod_seconds else 0.0,
        unused={name: max(0.0, 1 - used[name] / amount) for name, amount in compared.items() if amount > 0},
    )


def at_rank(ordered: Sequence[float], part: float) -> float:
    """Return the element at a rank from 0 to 1 of a sorted sequence that is not empty."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def _add(total: UnitSeconds, other: UnitSeconds, times: float) -> None:
    for name, amount in other.items():
        total[name] = total.get(name, 0.0) + amount * times
