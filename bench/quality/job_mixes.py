"""Mixes of gangs: tables of published traces, and a stream of small jobs with big gangs among them."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple


class GangJob(NamedTuple):
    """A gang: when it arrives (seconds), GPUs, and how long it runs undisturbed (seconds)."""

    arrival: float
    gpus: int
    duration: float


STREAM = "stream"
TABLES = ("shockwave-120", "msr-0e4a51", "msr-11cb48")
MIXES = (*TABLES, STREAM)
CLUSTERS = (32, 108)
"""The clusters (GPUs) on which the mixes are played."""
SMALL_SECONDS, LOAD, STREAM_HOURS = 600.0, 1.05, 6
BIG_EVERY, BIG_SECONDS, BIG_PART = 7200.0, 1800.0, 0.5
"""A gang of half of the cluster's GPUs every two hours."""


def read_mix(directory: Path, name: str) -> list[GangJob]:
    """Return a table of jobs."""
    with (directory / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return sorted(
            GangJob(float(row["arrival_s"]), int(row["gpus"]), float(row["duration_s"])) for row in csv.DictReader(file)
        )


def stream(gpus: int, seed: int = 0) -> list[GangJob]:
    """Return jobs of one GPU that keep the cluster full, and big gangs among them (volcano-sh/volcano#3095).

    Small jobs run for 5 to 15 minutes; all jobs together request 105 % of the GPUs.
    """
    drawn = random.Random(seed)
    small = LOAD - BIG_PART * BIG_SECONDS / BIG_EVERY
    jobs, at, end = [], 0.0, STREAM_HOURS * 3600.0
    while (at := at + drawn.expovariate(gpus * small / SMALL_SECONDS)) < end:
        jobs.append(GangJob(at, 1, drawn.uniform(0.5, 1.5) * SMALL_SECONDS))
    jobs += [
        GangJob(BIG_EVERY * number, round(gpus * BIG_PART), BIG_SECONDS) for number in range(1, int(end / BIG_EVERY))
    ]
    return sorted(jobs)


def mixes(directory: Path) -> Mapping[str, Callable[[int], list[GangJob]]]:
    """Return how each mix is made for a cluster of so many GPUs."""
    tables: dict[str, Callable[[int], list[GangJob]]] = {name: partial(_table, directory, name) for name in TABLES}
    return {**tables, STREAM: stream}


def _table(directory: Path, name: str, gpus: int) -> list[GangJob]:  # noqa: ARG001 - tables are the same for all
    return read_mix(directory, name)
