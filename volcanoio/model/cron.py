"""batch.volcano.sh/v1alpha1 CronJob."""

from __future__ import annotations

from enum import StrEnum

from volcanoio.model.base import ApiObject, Manifest, Model, ObjectReference


class ConcurrencyPolicy(StrEnum):
    """What becomes of a run that is due while an earlier one goes on."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class TemplateMeta(Model):
    """The metadata that an embedded template may carry."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()


class JobTemplateSpec(Model):
    """`spec.jobTemplate`; the Job's spec keeps every field of the manifest."""

    metadata: TemplateMeta = TemplateMeta()
    spec: Manifest = {}


class CronJobSpec(Model):
    """`spec` of a CronJob. Limits say how many finished runs of a kind are kept."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = ConcurrencyPolicy.ALLOW
    suspend: bool | None = None
    job_template: JobTemplateSpec = JobTemplateSpec()
    successful_jobs_history_limit: int = 3
    failed_jobs_history_limit: int = 1


class CronJobStatus(Model):
    """`status` of a CronJob."""

    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(ApiObject):
    """batch.volcano.sh/v1alpha1 CronJob."""

    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
