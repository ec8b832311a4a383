"""Small clusters for the queue model: one resource, nodes of equal size."""

from __future__ import annotations

from typing import Any

import numpy as np

from volcanoio.engine.estimates.queue_model import QueueModel, QueueShare, RunningGroup, WaitingGroup


def waiting(key: str, place: float, pods: int = 1, cores: float = 1, **more: Any) -> WaitingGroup:
    """Return a gang of pods that run for 100 s."""
    given: dict[str, Any] = {
        "queue": "q", "request": np.array([cores]), "minimum": pods, "pods": pods, "seconds": np.array([100.0]),
    }  # fmt: skip
    return WaitingGroup(key=key, rank=(place,), **(given | more))


def running(rows: list[int], age: float, seconds: list[float], cores: float = 1, queue: str = "q") -> RunningGroup:
    """Return pods of one age."""
    return RunningGroup(
        queue=queue,
        request=np.array([cores]),
        rows=np.array(rows, np.intp),
        ages=np.full(len(rows), age),
        seconds=np.array(seconds),
    )


def model(
    free: list[float], *groups: WaitingGroup, run: list[RunningGroup] | None = None, **queues: float
) -> QueueModel:
    """Return a cluster with so many free cores on each node; `queues` are the capabilities of queues."""
    shares = {
        name: QueueShare(deserved=np.array([1.0]), capability=np.array([limit]), allocated=np.array([0.0]))
        for name, limit in queues.items()
    }
    return QueueModel(free=np.array([free]), running=run or [], waiting=groups, queues=shares)
