"""Rules of a Job as a whole (Volcano: pkg/webhooks/admission/jobs/validate). Rules of its parts are beside it."""

from __future__ import annotations

from volcanoio.engine.admission.dependencies import check_dependencies
from volcanoio.engine.admission.dnsnames import qualified_rule
from volcanoio.engine.admission.findings import Findings
from volcanoio.engine.admission.jobhints import hint_job
from volcanoio.engine.admission.jobplugins import check_plugins
from volcanoio.engine.admission.jobpolicies import check_policies
from volcanoio.engine.admission.jobtasks import check_tasks, check_topology
from volcanoio.engine.admission.jobvolumes import check_volumes
from volcanoio.engine.admission.notyet import mention_job
from volcanoio.engine.admission.queueuse import check_job_queue
from volcanoio.engine.admission.request import AdmissionLookup, AdmissionSettings
from volcanoio.model.batch import MOST_PODS, Job

LONGEST_NAME = 63
"""A Job's name is also the value of its pods' labels."""


def check_job(job: Job, lookup: AdmissionLookup, settings: AdmissionSettings, findings: Findings) -> None:
    """Everything that can be wrong with a new Job, with defaults set."""
    check_content(job, settings, findings)
    if job.spec.tasks:
        check_job_queue(job.spec.queue, lookup, findings)
    if not findings.messages:  # what is refused need not be warned of, and may have any shape
        mention_job(job, findings)
        hint_job(job, settings, findings)


def check_content(job: Job, settings: AdmissionSettings, findings: Findings) -> None:
    """What can be wrong with a Job whatever else there is in the cluster."""
    spec = job.spec
    if not spec.tasks:
        findings.refuse("spec.tasks", "No task specified in job spec", "add at least one task with a pod template")
        return
    _check_name(job, findings)
    check_numbers(job, findings)
    check_tasks(job, findings)
    check_policies(spec.policies, "spec.policies", findings)
    check_topology(spec.network_topology, "spec.networkTopology", findings)
    check_plugins(job, settings, findings)
    check_volumes(spec.volumes, findings)
    check_dependencies(spec.tasks, findings)


def check_numbers(job: Job, findings: Findings) -> None:
    """Rules about the Job's counts, on create and update."""
    spec = job.spec
    replicas = sum(task.replicas for task in spec.tasks)
    if spec.min_available < 0:
        findings.refuse(
            "spec.minAvailable", "job 'minAvailable' must be >= 0", "give the pods that must start together"
        )
    elif spec.min_available > replicas:
        findings.refuse(
            "spec.minAvailable",
            "job 'minAvailable' should not be greater than total replicas in tasks "
            f"({spec.min_available} > {replicas})",
            "lower minAvailable or raise the tasks' replicas",
        )
    if replicas > MOST_PODS:
        findings.refuse(
            "spec.tasks",
            f"a job has at most {MOST_PODS} pods, all tasks together ({replicas} wanted)",
            "lower the tasks' replicas or submit several jobs",
        )
    for field, value in (("maxRetry", spec.max_retry), ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished)):
        if value is not None and value < 0:
            findings.refuse(f"spec.{field}", f"'{field}' cannot be less than zero", "give 0 or more")
    findings.check_duration("spec.runningEstimate", spec.running_estimate)
    if spec.min_success is not None and spec.min_success < 1:
        findings.refuse("spec.minSuccess", "'minSuccess' must be at least 1", "leave it out or give 1 or more")


def _check_name(job: Job, findings: Findings) -> None:
    if rule := qualified_rule(job.metadata.name):
        findings.refuse(
            "metadata.name",
            f"create job with name {job.metadata.name} validate failed {rule}",
            f"choose a name of at most {LONGEST_NAME} letters, digits, '-', '_' and '.'",
        )
