"""Refusals and warnings for CronJobs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admission.objects import create, job, task, update
from volcanoio.model import kinds
from volcanoio.model.base import Manifest


def cron(*tasks: Manifest, name: str = "c", schedule: str = "@daily", **spec: Any) -> Manifest:
    template = spec.pop("template", job(*tasks)["spec"])
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": template}, **spec},
    }


@pytest.mark.parametrize(
    ("manifest", "reported"),
    [
        (cron(schedule=""), "spec.schedule: schedule is required, but got empty; "),
        (cron(schedule="* * *"), "spec.schedule: schedule is not a valid cron expression: expected exactly 5 fields"),
        (
            cron(schedule="TZ=UTC 0 0 * * *"),
            (
                "spec.schedule: schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone "
                "field; give the time zone in spec.timeZone instead"
            ),
        ),
        (cron(timeZone=""), "spec.timeZone: timeZone must be nil or non-empty string, got empty string; "),
        (
            cron(timeZone="Local"),
            (
                "spec.timeZone: timeZone can't be Local, and must be defined in https://www.iana.org/time-zones: "
                '"Local" is another time zone on every machine'
            ),
        ),
        (cron(timeZone="-Etc/UTC"), 'spec.timeZone: unknown timeZone: "-Etc" in "-Etc/UTC" is not a part of'),
        (
            cron(timeZone="Europe/Atlantis"),
            'spec.timeZone: invalid timeZone: "Europe/Atlantis" is not in the time zone database',
        ),
        (
            cron(name="n" * 53),
            "metadata.name: cronJob name must be no more than 52 characters to accommodate job name suffix (max 63",
        ),
        (cron(name="-x"), 'metadata.name: invalid cronJob name "-x": name part must consist of'),
        (cron(template={}), "spec.jobTemplate.spec.tasks: No task specified in job spec"),
        (cron(task(replicas=-1)), "spec.jobTemplate.spec.tasks[0].replicas: "),
        (cron(template={"tasks": [task()], "plugins": {"nope": []}}), "spec.jobTemplate.spec.plugins.nope: "),
        (cron(template={"tasks": "x"}), "spec.jobTemplate.spec.tasks: Expected `array`"),
    ],
)
def test_refused(manifest: Manifest, reported: str) -> None:
    messages = create(kinds.CRON_JOB, manifest).messages
    assert any(message.startswith(reported) for message in messages), messages


@pytest.mark.parametrize("manifest", [cron(), cron(schedule="@every 1h"), cron(name="n" * 47, timeZone="Etc/GMT+1")])
def test_accepted(manifest: Manifest) -> None:
    review = create(kinds.CRON_JOB, manifest)
    assert (review.messages, review.warnings) == ((), ())
    assert review.object == manifest


def test_pods_of_a_run_must_have_names_too() -> None:
    (message,) = create(kinds.CRON_JOB, cron(name="n" * 48)).messages
    assert "validate failed name part must be no more than 63 characters" in message


def test_a_missing_queue_is_only_a_warning() -> None:
    review = create(kinds.CRON_JOB, cron(template=job(queue="later")["spec"]))
    (warning,) = review.warnings
    assert review.allowed
    assert warning.startswith(
        'spec.jobTemplate.spec.queue: unable to find job queue: queue.scheduling.volcano.sh "later" not found'
    )


def test_an_unchanged_template_is_not_validated_again() -> None:
    """A CronJob can be suspended although its plugin is not installed any more."""
    old = cron(template={"tasks": [task()], "plugins": {"gone": []}})
    new = cron(template={"tasks": [task()], "plugins": {"gone": []}}, suspend=True)
    assert update(kinds.CRON_JOB, old, new).allowed
    assert not update(kinds.CRON_JOB, cron(), new).allowed


def test_a_day_that_no_month_has_is_reported() -> None:
    (warning,) = create(kinds.CRON_JOB, cron(schedule="0 0 30 2 *")).warnings
    assert warning == 'spec.schedule: no month of "0 0 30 2 *" has such a day, so it never runs; fix the date'


def test_warnings_of_every_run_are_shown_at_once() -> None:
    given = cron(template=job(minSuccess=7)["spec"])
    (warning,) = create(kinds.CRON_JOB, given).warnings
    assert warning.startswith("spec.jobTemplate.spec.minSuccess: 7 pods can never succeed, the job has 1; ")
