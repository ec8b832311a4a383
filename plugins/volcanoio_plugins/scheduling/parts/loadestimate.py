"""How much work tasks that started a moment ago will be: figures do not show them yet (Volcano: plugins/usage).

The estimate of a task is request·request_ratio + (limit − request)·burst_ratio. Where a node is at risk already it is
taken times risk_factor. Neither is more than the task's limit, or its request where that is not below it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, NamedTuple

import msgspec

from volcanoio.framework.scheduling.views import Job, Shape, Task, TaskStatus
from volcanoio.model.resources import CPU, MEMORY
from volcanoio_plugins.scheduling.parts.times import epoch

_MIB = 1 << 20
_STARTING = (TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND)
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]


class EstimatorArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`be_cpu` (milli-cores) and `be_mem` (MiB) stand for pods that request neither cpu nor memory."""

    request_ratio: Fraction = 0.7
    burst_ratio: Fraction = 0.0
    risk_threshold: Fraction = 0.6
    risk_factor: Annotated[float, msgspec.Meta(ge=1)] = 1.2
    be_cpu: Annotated[int, msgspec.Meta(ge=0)] = 250
    be_mem: Annotated[int, msgspec.Meta(ge=0)] = 200


class Load(NamedTuple):
    """An estimate of cpu (milli-cores) and memory (bytes), and both where the node is at risk."""

    cpu: float
    memory: float
    risky_cpu: float
    risky_memory: float


class Estimator:
    """Estimates by shape."""

    def __init__(self, given: EstimatorArguments) -> None:
        self._given = given
        self._known: dict[int, Load] = {}

    def of(self, shape: Shape) -> Load:
        """The load of one task."""
        load = self._known.get(shape.id)
        if load is None:
            factor = self._given.risk_factor
            if shape.requests.get(CPU) or shape.requests.get(MEMORY):
                plain, risky = self._estimates(shape, 1.0), self._estimates(shape, factor)
            else:
                plain = float(self._given.be_cpu), float(self._given.be_mem * _MIB)
                risky = plain[0] * factor, plain[1] * factor
            load = self._known[shape.id] = Load(*plain, *risky)
        return load

    def _estimates(self, shape: Shape, factor: float) -> tuple[float, float]:
        """Of cpu and memory."""
        return self._estimate(shape, CPU, factor), self._estimate(shape, MEMORY, factor)

    def _estimate(self, shape: Shape, name: str, factor: float) -> float:
        request = shape.requests.get(name, 0)
        limit = max(shape.limits.get(name, 0), request)
        amount = request * self._given.request_ratio + (limit - request) * self._given.burst_ratio
        return min(amount * factor, float(limit))


class YoungTasks:
    """Tasks that no figure of their node shows yet: those on their way, and those that run for less than `every`.

    Kept from cycle to cycle: only jobs that changed are looked at again.
    """

    def __init__(self, estimator: Estimator) -> None:
        self._estimator = estimator
        self._by_job: dict[str, list[tuple[float, str, Load]]] = {}

    def follow(self, jobs: Iterable[Job], now: float, every: float) -> None:
        """Look at these jobs again."""
        for job in jobs:
            young = []
            if job.count(*_STARTING, TaskStatus.RUNNING):
                for task in job.tasks:
                    until = _young_until(task, every)
                    if until > now and task.node:
                        young.append((until, task.node, self._estimator.of(task.shape)))
            if young:
                self._by_job[job.key] = young
            else:
                self._by_job.pop(job.key, None)

    def loads(self, jobs: Iterable[str], now: float) -> list[tuple[str, Load]]:
        """Node and load of every task that is young now; jobs that are not among `jobs` any more are forgotten."""
        known = set(jobs) if self._by_job else set()
        found: list[tuple[str, Load]] = []
        for key in list(self._by_job):
            left = [young for young in self._by_job[key] if young[0] > now] if key in known else []
            if left:
                self._by_job[key] = left
                found.extend((node, load) for _, node, load in left)
            else:
                del self._by_job[key]
        return found


def _young_until(task: Task, every: float) -> float:
    if task.status in _STARTING:
        return float("inf")
    if task.status is not TaskStatus.RUNNING:
        return 0.0
    return (epoch(task.pod.status.start_time) or 0.0) + every
