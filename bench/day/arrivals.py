"""Who submits what during the day: short jobs all day long, and gangs that were there before and stay."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest

DAY, PODS = 86_400.0, 300_000
"""Seconds of the day and its one-minute pods; a shorter run has as many a second."""
NAMESPACE = "default"
NODES, NODE, NODE_CORES = 200, "cpu=16,memory=64Gi,pods=110", 16
GANGS, MEMBERS, MEMBER_CORES = 21, 16, 8
"""Gangs that run for a week: 84 % of the cores."""
WEEK, MINUTE = "168h", "60s"
SIZES = (1, 4, 10, 25, 60)
"""Pods of a short job, in turn; those of at most `WHOLE` pods need all of them at once."""
WHOLE = 10
CORES = (1, 2, 3)
"""What a short pod asks for, by job in turn: two on average."""
WAVE = 0.1
"""By which part of the mean the hours differ: at the peak the short pods want 94 % of what the gangs leave."""
KEPT = 30
"""Seconds for which a finished job is kept."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A short job: when it is submitted (seconds from the beginning), and what it is."""

    at: float
    name: str
    pods: int
    cores: int

    @property
    def manifest(self) -> Manifest:
        """The Job."""
        minimum = self.pods if self.pods <= WHOLE else 1
        job = job_of(self.name, self.pods, minimum, self.cores, MINUTE)
        job["spec"]["ttlSecondsAfterFinished"] = KEPT
        return job


def arrivals(pods: int, seed: int = 0) -> Iterator[Arrival]:
    """Short jobs of so many pods in all, by time: as many a second as on the whole day, more at some hours."""
    length, drawn = DAY * pods / PODS, random.Random(seed)
    number = sent = 0
    while sent < pods:
        size = min(SIZES[number % len(SIZES)], pods - sent)
        part = (sent + drawn.random() * size) / pods
        at = length * (part - WAVE * math.sin(2 * math.pi * part) / (2 * math.pi))
        yield Arrival(at, f"short-{number}", size, CORES[number // len(SIZES) % len(CORES)])
        sent += size
        number += 1


def gangs() -> list[Manifest]:
    """The jobs that run for a week."""
    return [job_of(f"week-{number}", MEMBERS, MEMBERS, MEMBER_CORES, WEEK) for number in range(GANGS)]


def job_of(name: str, pods: int, minimum: int, cores: int, run: str) -> Manifest:
    """A Job of one task whose pods run so long."""
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
