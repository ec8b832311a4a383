"""One run of a CronJob: its name, its Job, and the time of the schedule that it stands for."""

from __future__ import annotations

from datetime import datetime

from volcanoio.engine.cron.zones import TimeZoneError, zone
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.cron import CronJob
from volcanoio.model.references import owner_reference
from volcanoio.model.times import epoch


def run_name(cron: CronJob, due: float) -> str:
    """`<cronjob>-<minutes since the epoch>`: the same run always has the same name, so it is never started twice."""
    return f"{cron.metadata.name}-{int(due) // 60}"


def build_job(cron: CronJob, due: float) -> Manifest:
    """The Job of the run that is due at `due` (epoch seconds)."""
    template = cron.spec.job_template
    metadata: Manifest = {
        "name": run_name(cron, due),
        "namespace": cron.metadata.namespace,
        "annotations": {**template.metadata.annotations, names.SCHEDULED_TIMESTAMP: _stamp(cron, due)},
        "ownerReferences": [owner_reference(kinds.CRON_JOB, cron)],
    }
    if template.metadata.labels:
        metadata["labels"] = dict(template.metadata.labels)
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": kinds.JOB.kind,
        "metadata": metadata,
        "spec": template.spec,
    }


def scheduled_at(job: Job) -> float | None:
    """When the schedule wanted the run (epoch seconds); None for a Job that does not say."""
    try:
        return epoch(job.metadata.annotations.get(names.SCHEDULED_TIMESTAMP))
    except ValueError:
        return None


def _stamp(cron: CronJob, due: float) -> str:
    """The time as RFC 3339 in the CronJob's time zone."""
    try:
        here = zone(cron.spec.time_zone or "")
    except TimeZoneError:  # the schedule brings its own
        here = zone("")
    return datetime.fromtimestamp(int(due), here).isoformat().replace("+00:00", "Z")
