"""Who submits what during the day: short jobs all day long, and gangs that were there before and stay."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest

DAY, PODS, NODES = 86_400.0, 300_000, 200
"""Seconds of the day, its one-minute pods and its nodes; a smaller run has as many a second and node."""
NAMESPACE = "default"
NODE, NODE_CORES = "cpu=16,memory=64Gi,pods=110", 16
GANGS, MEMBERS, MEMBER_CORES = 21, 16, 8
"""Gangs that run for a week on all nodes: 84 % of the cores."""
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


def length(pods: int, nodes: int) -> float:
    """Seconds in which so many short pods come to so many nodes."""
    return DAY * pods / PODS * NODES / nodes


def arrivals(pods: int, nodes: int, seed: int = 0) -> Iterator[Arrival]:
    """Short jobs of so many pods in all, by time; more come at some hours."""
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
    """The jobs that run for a week on so many nodes."""
    number = GANGS * nodes // NODES
    return [job_of(f"week-{each}", MEMBERS, MEMBERS, MEMBER_CORES, WEEK) for each in range(number)]


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
