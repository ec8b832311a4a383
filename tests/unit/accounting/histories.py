"""Jobs and pods as stored objects, for tests of the history."""

from __future__ import annotations

from typing import Any

import msgspec

from volcanoio.engine.accounting.finished_jobs import FinishedJob
from volcanoio.model import kinds
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod
from volcanoio.model.times import rfc3339

START = 1767225600.0
"""2026-01-01T00:00:00Z."""


def at(seconds: float) -> str:
    """Return a time so many seconds after START."""
    return rfc3339(START + seconds)


def job(phase: str, **changes: Any) -> Job:
    """Return a job that was created at START, ran from 10 s on, and entered `phase` at 70 s."""
    metadata = {
        "name": "train-7", "namespace": "ml", "uid": "job-1", "creationTimestamp": at(0),
        "annotations": {"volcanoio.dev/creator": "ann"},
    }  # fmt: skip
    status = {
        "state": {"phase": phase, "lastTransitionTime": at(70)},
        "conditions": [{"status": "Running", "lastTransitionTime": at(10)}],
    }
    spec = {"queue": "gold", "minAvailable": 2, "tasks": [{"name": "w", "replicas": 2}]}
    content = {
        "metadata": metadata | changes.get("metadata", {}),
        "spec": spec | changes.get("spec", {}),
        "status": status | changes.get("status", {}),
    }
    return msgspec.convert(content, Job)


def pod(name: str, started: float, ended: float | None = None, *, exit_code: int = 0, owner: str = "job-1") -> Pod:
    """Return a pod of 2 cores and 1 Gi that ran between two seconds after START."""
    reference = {
        "apiVersion": kinds.JOB.api_version,
        "kind": "Job",
        "name": "train-7",
        "uid": owner,
        "controller": True,
    }
    status: dict[str, Any] = {"phase": "Running", "startTime": at(started)}
    if ended is not None:
        state = {"terminated": {"exitCode": exit_code, "finishedAt": at(ended)}}
        phase = "Failed" if exit_code else "Succeeded"
        status |= {"phase": phase, "containerStatuses": [{"name": "c", "state": state}]}
    content = {
        "metadata": {"name": name, "namespace": "ml", "uid": name, "ownerReferences": [reference]},
        "spec": {
            "nodeName": "node-1",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}],
        },
        "status": status,
    }
    return msgspec.convert(content, Pod)


def finished(uid: str, **changes: Any) -> FinishedJob:
    """Return a job that waited 10 s and ran for 60 s, with 2 cores."""
    standard: dict[str, Any] = {
        "uid": uid, "namespace": "ml", "name": "train-1", "owner": "ann", "queue": "gold", "created": START,
        "started": START + 10, "finished": START + 70, "phase": "Completed", "pods": 1,
        "requested": {"cpu": 120.0}, "pod_seconds": 60.0,
    }  # fmt: skip
    return FinishedJob(**(standard | changes))
