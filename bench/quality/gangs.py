"""Gangs under load: completion times, fairness, utilisation and evictions of each shipped configuration.

`fifo` is plain: gangs in their order of creation, later ones fill what earlier ones cannot use. Finish-time fairness
of a job is its completion time, divided by what it would be with a fair share: its duration times the mean of (GPUs of
all jobs that are there / GPUs of the cluster) while it is there, at least 1.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.quality.gang_cluster import GangCluster, Played
from bench.quality.job_mixes import CLUSTERS, mixes
from volcanoio.engine.scheduling.config.configuration import parse
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.framework import entrypoints
from volcanoio.runtime.loading.registry import discover

SHIPPED = Path(__file__).parents[2] / "config" / "scheduler"
MIXES = tuple(CLUSTERS)
FIFO = "fifo"
PLAYED = ("volcano-scheduler", "multi-tenant", "reclaim", "gang-reservation")
"""The shipped configurations that order or evict gangs differently."""
_FIFO_TEXT = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
"""
QUEUED = "reclaim"
"""The configuration for several queues: each of four teams has one. Elsewhere teams only have namespaces."""
UNFAIR = 1.05
LARGE = 0.25
"""Part of the cluster's GPUs from which on a gang is large."""


def configurations() -> dict[str, str]:
    """Return the text of each configuration by name."""
    return {FIFO: _FIFO_TEXT} | {path.stem: path.read_text(encoding="utf-8") for path in sorted(SHIPPED.glob("*.conf"))}


def key(row: Mapping[str, Any]) -> tuple[str, int, str]:
    """Return what identifies a row of the results."""
    return row["mix"], row["gpus"], row["configuration"]


def repeated(row: Mapping[str, Any], directory: Path) -> Namespace:
    """Return the arguments that measure a row again."""
    return Namespace(directory=directory, mixes=[row["mix"]], gpus=[row["gpus"]], configurations=[row["configuration"]])


def measure(given: Namespace) -> Iterator[dict[str, Any]]:
    """Yield the row of each mix, cluster and configuration."""
    made, texts = mixes(given.directory), configurations()
    for mix in given.mixes:
        for gpus in given.gpus or CLUSTERS[mix]:
            jobs = made[mix](gpus)
            for name in given.configurations:
                started = time.perf_counter()
                cluster = GangCluster(gpus, jobs, profile(texts[name]), queues=name == QUEUED)
                cluster.play()
                yield row(mix, name, cluster, time.perf_counter() - started)


def profile(text: str) -> Profile:
    """Return the profile of a configuration."""
    registry = discover()
    plugins, actions = registry.factories(entrypoints.SCHEDULER_PLUGINS), registry.factories(entrypoints.ACTIONS)
    return Profile.build(parse(text, actions=actions, plugins=plugins), plugins, actions)


def row(mix: str, configuration: str, cluster: GangCluster, seconds: float) -> dict[str, Any]:
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
        "seconds": round(seconds, 1),
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
