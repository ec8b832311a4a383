"""Gangs under load: completion times, fairness, utilisation and evictions of each shipped configuration.

`fifo` is plain: gangs in their order of creation, later ones fill what earlier ones cannot use. Finish-time fairness
of a job is its completion time, divided by what it would be with a fair share: its duration times the mean of (GPUs of
all jobs that are there / GPUs of the cluster) while it is there, at least 1.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.quality.gang_cluster import GangCluster, Played
from bench.quality.job_mixes import mixes
from volcanoio.engine.scheduling.config.configuration import parse
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.framework import entrypoints
from volcanoio.runtime.loading.registry import discover


class Configuration(NamedTuple):
    """The text of a configuration, and the jobs for which it is: of one queue or of four, some of higher priority."""

    text: str
    has_queues: bool = False
    has_urgent: bool = False


class Run(NamedTuple):
    """What a row of the results measures."""

    directory: Path
    mix: str
    gpus: int
    configuration: str


def _shipped(name: str) -> str:
    path = Path(__file__).parents[2] / "config" / "scheduler" / f"{name}.conf"
    return path.read_text(encoding="utf-8")


FIFO = "fifo"
_FIFO_TEXT = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
"""
_DEFAULT, _RECLAIM = _shipped("volcano-scheduler"), _shipped("reclaim")
PLAYED: Mapping[str, Configuration] = {
    FIFO: Configuration(_FIFO_TEXT),
    "volcano-scheduler": Configuration(_DEFAULT),
    "multi-tenant": Configuration(_shipped("multi-tenant")),
    "gang-reservation": Configuration(_shipped("gang-reservation")),
    "reclaim": Configuration(_RECLAIM, has_queues=True),
    "gangreclaim": Configuration(_RECLAIM.replace("backfill, reclaim", "backfill, gangreclaim"), has_queues=True),
    "urgent-gangpreempt": Configuration(
        _DEFAULT.replace("enqueue, allocate, backfill", "allocate, backfill, gangpreempt"), has_urgent=True
    ),
}
"""The shipped configurations that order or evict gangs differently, and two with an action that evicts whole gangs.

With queues, each of four teams has one of equal weight; else teams only have namespaces. With urgent jobs, those of one
team have a higher priority; that is played without enqueue, which admits no job that exceeds what is free.
"""
UNFAIR = 1.05
LARGE = 0.25
"""Part of the cluster's GPUs from which on a gang is large."""


def key(row: Mapping[str, Any]) -> tuple[str, int, str]:
    """Return what identifies a row of the results."""
    return row["mix"], row["gpus"], row["configuration"]


def runs(given: Namespace) -> list[Run]:
    """Return the rows to measure."""
    return [
        Run(given.directory, mix, gpus, configuration)
        for mix in given.mixes
        for gpus in given.gpus
        for configuration in given.configurations
    ]


def repeated(row: Mapping[str, Any], directory: Path) -> Run:
    """Return the run that measures a row again."""
    return Run(directory, *key(row))


def comparable(row: Mapping[str, Any], run: Run) -> dict[str, Any]:  # noqa: ARG001 - it has no seeds
    """Return a committed row."""
    return dict(row)


def measure(run: Run) -> dict[str, Any]:
    """Return the row of a mix, cluster and configuration."""
    played = PLAYED[run.configuration]
    jobs = mixes(run.directory)[run.mix](run.gpus)
    cluster = GangCluster(run.gpus, jobs, profile(played.text), queues=played.has_queues, urgent=played.has_urgent)
    cluster.play()
    return row(run.mix, run.configuration, cluster)


def profile(text: str) -> Profile:
    """Return the profile of a configuration."""
    registry = discover()
    plugins, actions = registry.factories(entrypoints.SCHEDULER_PLUGINS), registry.factories(entrypoints.ACTIONS)
    return Profile.build(parse(text, actions=actions, plugins=plugins), plugins, actions)


def row(mix: str, configuration: str, cluster: GangCluster) -> dict[str, Any]:
    """Return the figures of a run."""
    played, evictions = cluster.played, cluster.evictions()
    times = np.array([_completion(one) for one in played])
    unfairness = fairness(played, cluster.gpus)
    begin, end = min(one.job.arrival for one in played), max(one.ended or 0.0 for one in played)
    useful = sum(one.job.gpus * one.job.duration for one in played)
    large = [one.wait for one in played if one.job.gpus >= LARGE * cluster.gpus]
    return {
        "mix": mix,
        "gpus": cluster.gpus,
        "configuration": configuration,
        "jobs": len(played),
        "makespan_s": round(end - begin),
        "mean_completion_s": round(float(times.mean())),
        "p99_completion_s": round(float(np.quantile(times, 0.99))),
        "worst_finish_time_fairness": round(float(unfairness.max()), 2),
        "unfair_percent": round(100 * float((unfairness > UNFAIR).mean()), 1),
        "utilisation": round(useful / cluster.gpus / (end - begin), 4),
        "utilisation_while_arriving": round(_busy(played, cluster.gpus), 4),
        "longest_wait_of_large_s": round(max(large, default=0.0)),
        "evictions": evictions.all,
        "useless_evictions": evictions.useless,
        "repeated_evictions": evictions.repeated,
        "lost_gpu_seconds": round(sum(one.lost * one.job.gpus for one in played)),
    }


def fairness(played: Sequence[Played], gpus: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the finish-time fairness of each job."""
    arrivals = np.array([one.job.arrival for one in played])
    ends = np.array([one.ended or 0.0 for one in played])
    sizes = np.array([one.job.gpus for one in played], np.float64)
    moments = np.unique(np.concatenate([arrivals, ends]))
    change = np.zeros(len(moments))
    np.add.at(change, np.searchsorted(moments, arrivals), sizes)
    np.add.at(change, np.searchsorted(moments, ends), -sizes)
    load = np.maximum(np.cumsum(change)[:-1], 0.0) / gpus
    area = np.concatenate([[0.0], np.cumsum(load * np.diff(moments))])
    mean = (area[np.searchsorted(moments, ends)] - area[np.searchsorted(moments, arrivals)]) / (ends - arrivals)
    durations = np.array([one.job.duration for one in played])
    result: np.ndarray[Any, np.dtype[np.float64]] = (ends - arrivals) / (durations * np.maximum(mean, 1.0))
    return result


def _completion(one: Played) -> float:
    assert one.ended is not None
    return one.ended - one.job.arrival


def _busy(played: Sequence[Played], gpus: int) -> float:
    """Return the part of the GPUs that did useful work from the first to the last arrival."""
    begin, end = min(one.job.arrival for one in played), max(one.job.arrival for one in played)
    total = sum(one.job.gpus * max(0.0, min(one.ended or 0.0, end) - max(one.starts[-1], begin)) for one in played)
    return total / gpus / (end - begin)
