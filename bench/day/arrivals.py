"""Load of the day: short jobs that arrive all day, and gangs that run from before its start to after its end."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest

DAY, PODS, NODES = 86_400.0, 300_000, 200
"""Seconds of the day, its one-minute pods and its nodes; smaller runs have the same rate per node."""
NAMESPACE = "default"
NODE, NODE_CORES = "cpu=16,memory=64Gi,pods=110", 16
GANGS, MEMBERS, MEMBER_CORES = 21, 16, 8
"""Gangs that run for a week on all nodes: 84 % of the cores."""
WEEK, MINUTE = "168h", "60s"
SIZES = (1, 4, 10, 25, 60)
"""Pods of a short job, in turn; jobs of at most `WHOLE` pods need all of them at once."""
WHOLE = 10
CORES = (1, 2, 3)
"""Cores of a short pod, by job in turn: two on average."""
WAVE = 0.1
"""Relative difference of hours from the mean: at the peak, short pods request 94 % of what the gangs leave."""
KEPT = 30
"""Seconds after which a finished job is deleted."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A short job and the time of its submission (seconds from the beginning)."""

    at: float
    name: str
    pods: int
    cores: int

    @property
    def manifest(self) -> Manifest:
        """Return the Job."""
        minimum = self.pods if self.pods <= WHOLE else 1
        job = job_of(self.name, self.pods, minimum, self.cores, MINUTE)
        job["spec"]["ttlSecondsAfterFinished"] = KEPT
        return job


def length(pods: int, nodes: int) -> float:
    """Return the seconds in which so many short pods arrive at so many nodes."""
    return DAY * pods / PODS * NODES / nodes


def arrivals(pods: int, nodes: int, seed: int = 0) -> Iterator[Arrival]:
    """Return short jobs with so many pods in total, by time; some hours have more."""
    seconds, drawn = length(pods, nodes), random.Random(seed)
    number = sent = 0
    while sent < pods:
        size = min(SIZES[number % len(SIZES)], pods - sent)
        part = (sent + drawn.random() * size) / pods
        at = seconds * (part - WAVE * math.sin(2 * math.pi * part) / (2 * math.pi))
        yield Arrival(at, f"short-{number}", size, CORES[number // len(SIZES) % len(CORES)])
        sent += size
        number += 1


def gangs(nodes: int) -> list[Manifest]:
    """Return the jobs that run for a week on so many nodes."""
    number = GANGS * nodes // NODES
    return [job_of(f"week-{each}", MEMBERS, MEMBERS, MEMBER_CORES, WEEK) for each in range(number)]


def job_of(name: str, pods: int, minimum: int, cores: int, run: str) -> Manifest:
    """Return a Job of one task whose pods run for that time."""
    requests = {"cpu": str(cores), "memory": f"{cores}Gi"}
    container = {"name": "main", "image": "busybox", "resources": {"requests": requests}}
    template = {
        "metadata": {"annotations": {names.RUN_DURATION: run}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "minAvailable": minimum,
            "schedulerName": names.SCHEDULER_NAME,
            "tasks": [{"name": "task", "replicas": pods, "template": template}],
        },
    }
