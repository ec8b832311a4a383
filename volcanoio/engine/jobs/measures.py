"""The job controller's metrics, as effects. Names and labels are Volcano's (pkg/controllers/metrics)."""

from __future__ import annotations

from collections.abc import Mapping

from volcanoio.framework.effects import Measure, Measurement
from volcanoio.model.batch import Job, JobPhase
from volcanoio.model.times import epoch

LATENCY = "volcano_controller_job_to_pod_creation_latency_milliseconds"
COUNTERS = {
    JobPhase.COMPLETED: "volcano_job_completed_phase_count",
    JobPhase.FAILED: "volcano_job_failed_phase_count",
}
"""Counters of jobs that entered a phase, by `job_name` (namespace/name) and `queue_name`."""


def entered(before: Job, after: Job) -> list[Measure]:
    """That a job completed or failed, counted when its phase is seen to change: a process counts from its start."""
    phase = after.status.state.phase
    if phase == before.status.state.phase or phase not in COUNTERS:
        return []
    labels = {"job_name": after.metadata.key, "queue_name": after.spec.queue}
    return [Measure(measurement=Measurement.COUNT, name=COUNTERS[JobPhase(phase)], labels=labels)]


def forgotten(job: Job) -> list[Measure]:
    """The series of a job that is gone."""
    labels = {"job_name": job.metadata.key}
    return [Measure(measurement=Measurement.FORGET, name=name, labels=labels) for name in COUNTERS.values()]


def creation_latencies(job: Job, born: Mapping[str, int]) -> list[Measure]:
    """From the creation of a job to that of its pods, in milliseconds; `born` says how many were made when.

    Timestamps have whole seconds, so the pods of a round share a few.
    """
    created = epoch(job.metadata.creation_timestamp)
    if created is None:
        return []
    return [
        Measure(measurement=Measurement.OBSERVE, name=LATENCY, value=max(0.0, moment - created) * 1000, times=number)
        for stamp, number in sorted(born.items())
        if (moment := epoch(stamp)) is not None
    ]
