"""Rules of a CronJob (Volcano: pkg/webhooks/admission/cronjobs), and of the Jobs that it would make.

The template is judged as a Job of it would be, but for its queue, which may come or open later: a warning. On an update
it is judged only when it changed, so that a CronJob can always be suspended.
"""

from __future__ import annotations

import msgspec

from volcanoio.engine.admission.decoding import known, typed
from volcanoio.engine.admission.dnsnames import qualified_rule
from volcanoio.engine.admission.findings import Findings
from volcanoio.engine.admission.jobdefaults import default_job
from volcanoio.engine.admission.jobhints import hint_job
from volcanoio.engine.admission.jobrules import check_content
from volcanoio.engine.admission.queueuse import check_job_queue
from volcanoio.engine.admission.request import AdmissionLookup, AdmissionSettings
from volcanoio.engine.cron.grammar import ScheduleError, parse
from volcanoio.engine.cron.zones import TimeZoneError, zone
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.cron import CronJob

LONGEST_NAME = 52
"""As in Kubernetes: the names of its Jobs are longer by a dash and the minutes since the epoch."""
_MINUTES = "-00000000"


def check_cron_job(
    cron: CronJob, old: Manifest | None, lookup: AdmissionLookup, settings: AdmissionSettings, findings: Findings
) -> None:
    """Everything that can be wrong with a CronJob; `old` is the stored one on an update."""
    name = cron.metadata.name
    if len(name) > LONGEST_NAME or qualified_rule(name):
        rule = qualified_rule(name) or f"must be no more than {LONGEST_NAME} characters"
        findings.refuse("metadata.name", rule, "its Jobs are named after it; choose a shorter or plainer name")
    _check_schedule(cron, findings)
    before = known(old, CronJob) if old is not None else None
    if before is None or before.spec.job_template != cron.spec.job_template:
        _check_template(cron, lookup, settings, findings)


def _check_schedule(cron: CronJob, findings: Findings) -> None:
    spec = cron.spec
    if "TZ" in spec.schedule:
        findings.refuse(
            "spec.schedule", "cannot use TZ or CRON_TZ in schedule", "give the time zone in spec.timeZone instead"
        )
    else:
        try:
            schedule = parse(spec.schedule)
        except ScheduleError as error:
            findings.refuse("spec.schedule", str(error))
        else:
            if schedule.next_after(0.0) is None:
                findings.mention(
                    "spec.schedule", f'no month of "{spec.schedule}" has such a day, so it never runs', "mend the date"
                )
    if spec.time_zone is not None:
        try:
            zone(spec.time_zone)
        except TimeZoneError as error:
            findings.refuse("spec.timeZone", str(error))
        if not spec.time_zone:
            findings.refuse("spec.timeZone", "must be nil or non-empty string", "leave it out for UTC")


def _check_template(cron: CronJob, lookup: AdmissionLookup, settings: AdmissionSettings, findings: Findings) -> None:
    spec: Manifest = msgspec.json.decode(msgspec.json.encode(cron.spec.job_template.spec))
    manifest: Manifest = {"metadata": {"name": (cron.metadata.name or "c")[:LONGEST_NAME] + _MINUTES}, "spec": spec}
    default_job(manifest, settings)
    found, of_queue = Findings(), Findings()
    job = typed(manifest, Job, found)
    if job is not None:
        check_content(job, settings, found)
        check_job_queue(job.spec.queue, lookup, of_queue)
        if not found.messages:
            hint_job(job, settings, found)
    for warning in found.warnings:
        findings.mention(
            "spec.jobTemplate." + warning.partition(": ")[0], warning.partition(": ")[2], "so for each run"
        )
    for message in found.messages:
        findings.pass_on(f"spec.jobTemplate.{message}", "no run of this CronJob could start")
    for message in of_queue.messages:
        findings.mention(
            "spec.jobTemplate." + message.partition(": ")[0], message.partition(": ")[2], "runs wait for it"
        )
