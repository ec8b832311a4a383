"""Rules of a CronJob (Volcano: pkg/webhooks/admission/cronjobs), and of the Jobs it will create.

The template has to satisfy the rules of a Job, except that a missing or closed queue gives a warning, as it may open
later. On an update it is checked only if it changed, so that a CronJob can always be suspended.
"""

import msgspec

from volcanoio.engine.admission.jobs import check_content, default_job, warn_about_job
from volcanoio.engine.admission.queues import check_job_queue
from volcanoio.engine.admission.request import AdmissionLookup, AdmissionSettings, Findings, decode, decode_stored
from volcanoio.engine.admission.topology import warn_about_numa_policies
from volcanoio.engine.cron.schedule import ScheduleError, TimeZoneError, parse, zone, zone_name_error
from volcanoio.model.base import Manifest
from volcanoio.model.batch import CronJob, Job
from volcanoio.model.validation.dns_names import qualified_rule

MAX_NAME_LENGTH = 52
"""As in Kubernetes: the names of its Jobs are longer by a dash and the minutes since the epoch."""
_RUN_SUFFIX = "-00000000"


def check_cron_job(
    cron: CronJob, old: Manifest | None, lookup: AdmissionLookup, settings: AdmissionSettings, findings: Findings
) -> None:
    """Check a CronJob; `old` is the stored one on an update."""
    if len(name := cron.metadata.name) > MAX_NAME_LENGTH or qualified_rule(name):
        limit = f"no more than {MAX_NAME_LENGTH} characters"
        rule = f"cronJob name must be {limit} to accommodate job name suffix (max 63 total)"
        if len(name) <= MAX_NAME_LENGTH:
            rule = f'invalid cronJob name "{name}": {qualified_rule(name)}'
        findings.refuse("metadata.name", rule, "its Jobs are named after it; choose a shorter or plainer name")
    _check_schedule(cron, findings)
    before = decode_stored(old, CronJob) if old is not None else None
    if before is None or before.spec.job_template != cron.spec.job_template:
        _check_template(cron, lookup, settings, findings)


def _check_schedule(cron: CronJob, findings: Findings) -> None:
    spec = cron.spec
    if not spec.schedule:
        advice = 'give five fields such as "30 2 * * *", or a descriptor such as @hourly'
        findings.refuse("spec.schedule", "schedule is required, but got empty", advice)
    elif "TZ" in spec.schedule:
        findings.refuse(
            "spec.schedule",
            "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field",
            "give the time zone in spec.timeZone instead",
        )
    else:
        try:
            schedule = parse(spec.schedule)
        except ScheduleError as error:
            findings.refuse("spec.schedule", f"schedule is not a valid cron expression: {error}")
        else:
            if schedule.next_after(0.0) is None:
                findings.warn(
                    "spec.schedule", f'no month of "{spec.schedule}" has such a day, so it never runs', "fix the date"
                )
    if spec.time_zone == "":
        rule = "timeZone must be nil or non-empty string, got empty string"
        findings.refuse("spec.timeZone", rule, "leave it out for UTC")
    elif spec.time_zone is not None:
        try:
            zone(spec.time_zone)
        except TimeZoneError as error:
            findings.refuse("spec.timeZone", f"{_zone_rule(spec.time_zone)}: {error}")


def _zone_rule(name: str) -> str:
    """Return Volcano's message about an invalid time zone."""
    if name.lower() == "local":
        return "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones"
    return "unknown timeZone" if zone_name_error(name) else "invalid timeZone"


def _check_template(cron: CronJob, lookup: AdmissionLookup, settings: AdmissionSettings, findings: Findings) -> None:
    spec: Manifest = msgspec.json.decode(msgspec.json.encode(cron.spec.job_template.spec))
    manifest: Manifest = {
        "metadata": {"name": (cron.metadata.name or "c")[:MAX_NAME_LENGTH] + _RUN_SUFFIX},
        "spec": spec,
    }
    default_job(manifest, settings)
    found, of_queue = Findings(), Findings()
    if (job := decode(manifest, Job, found)) is not None:
        check_content(job, settings, found)
        check_job_queue(job.spec.queue, lookup, of_queue)
        if not found.messages:
            warn_about_numa_policies(job, found)
            warn_about_job(job, settings, found)
    for warning in found.warnings:
        findings.warn("spec.jobTemplate." + warning.partition(": ")[0], warning.partition(": ")[2], "so for each run")
    for message in found.messages:
        findings.refuse_line(f"spec.jobTemplate.{message}", "no run of this CronJob could start")
    findings.left_out += found.left_out
    for message in of_queue.messages:
        findings.warn("spec.jobTemplate." + message.partition(": ")[0], message.partition(": ")[2], "runs wait for it")
