"""Writes of the Job itself: its status, computed from one resourceVersion and carrying it, and its annotations."""

from __future__ import annotations

import msgspec

from volcanoio.engine.jobs import status
from volcanoio.engine.jobs.converge import Scene
from volcanoio.engine.jobs.draft import Draft, job_patch
from volcanoio.engine.jobs.ledger import Ledger
from volcanoio.framework.effects import merge_diff
from volcanoio.model.batch import Job, JobStatus


def counted(scene: Scene, ledger: Ledger, moved: JobStatus | None = None) -> JobStatus:
    """The stored status, or one that actions moved, with fresh counts and bookkeeping."""
    job = scene.job if moved is None else msgspec.structs.replace(scene.job, status=moved)
    return status.with_counts(job, scene.counts, ledger)


def write_status(draft: Draft, scene: Scene, after: JobStatus) -> bool:
    """Stage the status write, if it changes anything, which is what is returned."""
    job = scene.job
    after = status.with_controlled(job, scene.wanted.mounts, after)
    changes = merge_diff(msgspec.to_builtins(job.status), msgspec.to_builtins(after))
    if changes:
        draft.stage([job_patch(job, {"status": changes}, "status")])
    return bool(changes)


def annotate(draft: Draft, job: Job) -> None:
    """Stage the annotations that wait to be set."""
    patch = {"metadata": {"annotations": dict(draft.state.annotations)}}
    draft.set(annotations={})
    draft.stage([job_patch(job, patch, "")])
