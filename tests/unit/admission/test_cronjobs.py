"""What is refused of a CronJob, and what is only told."""

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
    ("manifest", "told"),
    [
        (cron(schedule=""), "spec.schedule: the schedule is empty"),
        (cron(schedule="* * *"), "spec.schedule: expected exactly 5 fields"),
        (cron(schedule="TZ=UTC 0 0 * * *"), "spec.schedule: cannot use TZ or CRON_TZ in schedule"),
        (cron(timeZone=""), "spec.timeZone: must be nil or non-empty string"),
        (cron(timeZone="Local"), 'spec.timeZone: "Local" is another time zone on every machine'),
        (cron(timeZone="Europe/Atlantis"), 'spec.timeZone: "Europe/Atlantis" is not in the time zone database'),
        (cron(name="n" * 53), "metadata.name: must be no more than 52 characters"),
        (cron(name="-x"), "metadata.name: name part must consist of"),
        (cron(template={}), "spec.jobTemplate.spec.tasks: No task specified in job spec"),
        (cron(task(replicas=-1)), "spec.jobTemplate.spec.tasks[0].replicas: "),
        (cron(template={"tasks": [task()], "plugins": {"nope": []}}), "spec.jobTemplate.spec.plugins.nope: "),
        (cron(template={"tasks": "x"}), "spec.jobTemplate.spec.tasks: Expected `array`"),
    ],
)
def test_refused(manifest: Manifest, told: str) -> None:
    messages = create(kinds.CRON_JOB, manifest).messages
    assert any(message.startswith(told) for message in messages), messages


@pytest.mark.parametrize("manifest", [cron(), cron(schedule="@every 1h"), cron(name="n" * 47, timeZone="Etc/GMT+1")])
def test_accepted(manifest: Manifest) -> None:
    review = create(kinds.CRON_JOB, manifest)
    assert (review.messages, review.warnings) == ((), ())
    assert review.object == manifest


def test_pods_of_a_run_must_have_names_too() -> None:
    (message,) = create(kinds.CRON_JOB, cron(name="n" * 48)).messages
    assert "validate failed name part must be no more than 63 characters" in message


def test_a_queue_that_is_not_there_yet_is_only_told() -> None:
    review = create(kinds.CRON_JOB, cron(template=job(queue="later")["spec"]))
    (warning,) = review.warnings
    assert review.allowed
    assert warning.startswith('spec.jobTemplate.spec.queue: unable to find job queue: queue "later" does not exist')


def test_a_template_that_did_not_change_is_not_judged_again() -> None:
    """A CronJob can be suspended although its plugin is not installed any more."""
    old = cron(template={"tasks": [task()], "plugins": {"gone": []}})
    new = cron(template={"tasks": [task()], "plugins": {"gone": []}}, suspend=True)
    assert update(kinds.CRON_JOB, old, new).allowed
    assert not update(kinds.CRON_JOB, cron(), new).allowed


def test_a_day_that_no_month_has_is_told() -> None:
    (warning,) = create(kinds.CRON_JOB, cron(schedule="0 0 30 2 *")).warnings
    assert warning == 'spec.schedule: no month of "0 0 30 2 *" has such a day, so it never runs; mend the date'


def test_what_each_run_would_be_warned_of_is_told_at_once() -> None:
    given = cron(template=job(minSuccess=7)["spec"])
    (warning,) = create(kinds.CRON_JOB, given).warnings
    assert warning.startswith("spec.jobTemplate.spec.minSuccess: 7 pods can never succeed, the job has 1; ")
