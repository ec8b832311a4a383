"""The CronJob controller on a simulated store: start of runs, replacement, history and Events."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.world import BEGIN, World
from volcanoio.engine.cron.controller import CronJobController
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import CronJob

MINUTE = 60.0
TO_THE_HOUR = 2800
"""Seconds from the beginning to 23:00."""
FIRST = int(BEGIN) // 60 + 1
"""The first whole minute, in minutes since the epoch."""


def cron(name: str = "c", schedule: str = "* * * * *", **spec: Any) -> Manifest:
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}}, "spec": {"queue": "q", "tasks": []}}
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"schedule": schedule, "jobTemplate": template, **spec},
    }


@pytest.fixture
def world() -> World:
    return World([CronJobController])


def the(world: World, name: str = "c") -> CronJob:
    found = world.get(kinds.CRON_JOB, f"ns/{name}")
    assert isinstance(found, CronJob)
    return found


def reasons(world: World) -> list[str]:
    return [event.split(":")[0].split()[1] for event in world.events]


def test_a_run_is_made_when_it_is_due(world: World) -> None:
    world.put(kinds.CRON_JOB, cron(timeZone="Europe/Berlin"))
    assert world.names(kinds.JOB) == []
    world.wait(MINUTE)
    assert world.names(kinds.JOB) == [f"c-{FIRST}"]
    job = world.objects[kinds.JOB.resource, f"ns/c-{FIRST}"]
    assert job["spec"] == {"queue": "q", "tasks": []}
    assert job["metadata"]["labels"] == {"a": "b"}
    assert job["metadata"]["annotations"] == {"x": "y", names.SCHEDULED_TIMESTAMP: "2023-11-14T23:14:00+01:00"}
    owner = world.job(f"ns/c-{FIRST}").metadata.controller
    assert owner is not None
    assert (owner.kind, owner.uid) == ("CronJob", the(world).metadata.uid)
    assert the(world).status.last_schedule_time == "2023-11-14T22:14:00Z"
    assert [reference.name for reference in the(world).status.active] == [f"c-{FIRST}"]
    assert world.events == [f"Normal SuccessfulCreate: Created job c-{FIRST}"]


def test_a_completed_run_leaves_the_active_list(world: World) -> None:
    world.put(kinds.CRON_JOB, cron())
    world.wait(MINUTE)
    world.phase(f"ns/c-{FIRST}", "Completed")
    status = the(world).status
    assert (status.active, status.last_successful_time) == ((), "2023-11-14T22:14:20Z")
    assert world.events[-1] == f"Normal SawCompletedJob: Saw completed job: c-{FIRST}, status: Completed"


@pytest.mark.parametrize(
    ("policy", "after_two", "reported"),
    [
        ("Allow", [f"c-{FIRST}", f"c-{FIRST + 1}"], []),
        ("Forbid", [f"c-{FIRST}"], ["ForbidConcurrent"]),
        ("Replace", [f"c-{FIRST + 1}"], ["SuccessfulDelete"]),
    ],
)
def test_concurrency_policies(world: World, policy: str, after_two: list[str], reported: list[str]) -> None:
    world.put(kinds.CRON_JOB, cron(concurrencyPolicy=policy))
    world.wait(MINUTE)
    world.phase(f"ns/c-{FIRST}", "Running")
    world.wait(MINUTE)
    assert world.names(kinds.JOB) == after_two
    assert [reason for reason in reasons(world) if reason != "SuccessfulCreate"] == reported
    assert [reference.name for reference in the(world).status.active] == after_two


def test_a_forbidden_run_starts_when_the_one_before_ends_within_the_deadline(world: World) -> None:
    world.put(kinds.CRON_JOB, cron(concurrencyPolicy="Forbid", startingDeadlineSeconds=30))
    world.wait(MINUTE)
    world.wait(MINUTE)
    world.wait(20)
    assert the(world).status.last_schedule_time == "2023-11-14T22:14:00Z"
    world.phase(f"ns/c-{FIRST}", "Completed")
    assert world.names(kinds.JOB) == [f"c-{FIRST}"]  # 40 s after it was due
    world.wait(30)
    assert world.names(kinds.JOB) == [f"c-{FIRST}", f"c-{FIRST + 2}"]


@pytest.mark.parametrize("phase", ["Terminated", "Aborted", "Failed"])
def test_inactive_runs_do_not_forbid_and_are_pruned(world: World, phase: str) -> None:
    world.put(kinds.CRON_JOB, cron(concurrencyPolicy="Forbid"))
    for number in range(3):
        world.wait(MINUTE)
        world.phase(f"ns/c-{FIRST + number}", phase)
    assert world.names(kinds.JOB) == [f"c-{FIRST + 2}"]
    assert the(world).status.last_successful_time is None


def test_an_aborted_run_that_is_resumed_is_active_again(world: World) -> None:
    world.put(kinds.CRON_JOB, cron(schedule="0 * * * *"))
    world.wait(3600)
    (name,) = world.names(kinds.JOB)
    world.phase(f"ns/{name}", "Aborted")
    assert the(world).status.active == ()
    world.phase(f"ns/{name}", "Running")
    assert [reference.name for reference in the(world).status.active] == [name]


def test_histories_are_kept_apart(world: World) -> None:
    world.put(kinds.CRON_JOB, cron(successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1))
    for number, phase in enumerate(["Failed", "Completed", "Completed", "Failed", "Completed"]):
        world.wait(MINUTE)
        world.phase(f"ns/c-{FIRST + number}", phase)
    assert world.names(kinds.JOB) == [f"c-{FIRST + 2}", f"c-{FIRST + 3}", f"c-{FIRST + 4}"]


def test_no_run_starts_while_suspended_and_a_missed_one_starts_once(world: World) -> None:
    world.put(kinds.CRON_JOB, cron(suspend=True))
    world.wait(5 * MINUTE)
    assert world.names(kinds.JOB) == []
    world.put(kinds.CRON_JOB, cron(suspend=False))
    assert world.names(kinds.JOB) == [f"c-{FIRST + 4}"]


def test_a_run_after_its_deadline_is_missed(world: World) -> None:
    world.put(kinds.CRON_JOB, cron(schedule="0 * * * *", suspend=True, startingDeadlineSeconds=30))
    world.wait(3600)
    world.put(kinds.CRON_JOB, cron(schedule="0 * * * *", suspend=False, startingDeadlineSeconds=30))
    assert world.names(kinds.JOB) == []
    assert world.events == ["Warning MissSchedule: Missed scheduled time to start a job: 2023-11-14T23:00:00Z"]


@pytest.mark.parametrize(("late", "made"), [(30, [f"c-{FIRST + 46}"]), (31, [])])
def test_a_run_may_start_up_to_its_deadline(world: World, late: int, made: list[str]) -> None:
    world.put(kinds.CRON_JOB, cron(schedule="0 * * * *", suspend=True, startingDeadlineSeconds=30))
    world.wait(TO_THE_HOUR + late)
    world.put(kinds.CRON_JOB, cron(schedule="0 * * * *", suspend=False, startingDeadlineSeconds=30))
    assert world.names(kinds.JOB) == made


@pytest.mark.parametrize(("minutes", "reported"), [(100, False), (101, True)])
def test_more_than_a_hundred_missed_runs_are_reported(world: World, minutes: int, reported: bool) -> None:
    world.put(kinds.CRON_JOB, cron(suspend=True))
    world.wait(minutes * MINUTE)
    world.put(kinds.CRON_JOB, cron(suspend=False))
    assert len(world.names(kinds.JOB)) == 1
    assert ("TooManyMissedTimes" in reasons(world)) is reported


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"schedule": "61 * * * *"}, "InvalidSchedule"),
        ({"timeZone": "Mars/Olympus"}, "InvalidTimeZone"),
    ],
)
def test_an_unschedulable_job_is_reported_once_and_fixed(world: World, spec: dict[str, str], reason: str) -> None:
    world.put(kinds.CRON_JOB, cron(**spec))
    world.wait(10 * MINUTE)
    world.put(kinds.CRON_JOB, {"metadata": {"name": "c", "namespace": "ns", "labels": {"a": "b"}}})
    assert reasons(world) == [reason]
    world.put(kinds.CRON_JOB, cron(timeZone="Etc/UTC"))
    assert len(world.names(kinds.JOB)) == 1


def test_a_stored_schedule_with_its_own_zone_is_used(world: World) -> None:
    world.put(kinds.CRON_JOB, cron(schedule="TZ=Asia/Kolkata 45 3 * * *", timeZone="Europe/Berlin"))
    world.wait(120)
    assert world.names(kinds.JOB) == [f"c-{FIRST + 1}"]  # 22:15 UTC
    assert reasons(world) == ["UnsupportedSchedule", "SuccessfulCreate"]


def test_runs_within_one_minute_are_one(world: World) -> None:
    world.put(kinds.CRON_JOB, cron(schedule="@every 20s"))
    world.wait(4 * MINUTE)
    assert world.names(kinds.JOB) == [f"c-{FIRST - 1 + number}" for number in range(5)]
    assert the(world).status.last_schedule_time == "2023-11-14T22:17:20Z"


def test_refused_creates_are_reported_and_retried(world: World) -> None:
    world.refuse = [(403, 'admission webhook "validatejob.volcano.sh" denied the request'), (500, "boom")]
    world.put(kinds.CRON_JOB, cron(schedule="0 * * * *"))
    world.wait(3600)
    assert world.names(kinds.JOB) == [f"c-{int(BEGIN) // 3600 * 60 + 60}"]
    assert reasons(world) == ["FailedCreate", "FailedCreate", "SuccessfulCreate"]


def test_a_terminating_namespace_is_reported(world: World) -> None:
    reported = 'jobs "c" is forbidden: unable to create new content in namespace ns because it is being terminated'
    world.refuse = [(403, reported)]
    world.put(kinds.CRON_JOB, cron())
    world.wait(41)
    assert reasons(world) == ["NamespaceTerminating"]


def test_a_status_that_was_refused_is_written_later(world: World) -> None:
    world.put(kinds.CRON_JOB, cron(schedule="0 * * * *"))
    world.refuse = [(0, ""), (500, "boom"), (409, "conflict")]
    world.wait(3600)
    assert the(world).status.last_schedule_time == "2023-11-14T23:00:00Z"
    assert len(the(world).status.active) == 1
    assert len(world.names(kinds.JOB)) == 1


def test_a_foreign_job_blocks_the_name_until_it_is_deleted(world: World) -> None:
    name = f"c-{FIRST}"
    world.put(kinds.JOB, {"metadata": {"name": name, "namespace": "ns"}})
    world.put(kinds.CRON_JOB, cron(schedule="14 * * * *"))
    world.wait(3 * MINUTE)
    assert reasons(world) == ["ForeignJob"]
    world.remove(kinds.JOB, f"ns/{name}")
    assert world.job(f"ns/{name}").metadata.controller is not None


def test_a_job_with_a_forged_owner_does_not_count(world: World) -> None:
    world.put(kinds.CRON_JOB, cron(schedule="0 * * * *", concurrencyPolicy="Forbid"))
    uid = the(world).metadata.uid
    owner = {"apiVersion": kinds.CRON_JOB.api_version, "kind": "CronJob", "name": "c", "uid": uid, "controller": True}
    world.put(kinds.JOB, {"metadata": {"name": "manual", "namespace": "ns", "ownerReferences": [owner]}})
    world.wait(3600)
    assert reasons(world) == ["OrphanedJob", "SuccessfulCreate"]


def test_a_deleted_active_run_is_reported(world: World) -> None:
    world.put(kinds.CRON_JOB, cron(schedule="0 * * * *"))
    world.wait(3600)
    (name,) = world.names(kinds.JOB)
    world.remove(kinds.JOB, f"ns/{name}")
    assert the(world).status.active == ()
    assert world.events[-1] == f"Normal StaleReference: Active job {name} is gone"
    assert world.names(kinds.JOB) == []


def test_jobs_of_an_earlier_cronjob_of_the_name_are_nobodys(world: World) -> None:
    world.put(kinds.CRON_JOB, cron(schedule="14 * * * *"))
    world.wait(MINUTE)
    world.remove(kinds.CRON_JOB, "ns/c")
    world.put(kinds.CRON_JOB, cron(schedule="0 0 1 1 *"))
    assert the(world).status.active == ()
    assert the(world).status.last_schedule_time is None


@pytest.mark.parametrize("policy", ["Allow", "Replace"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("dies_at", range(1, 12))
def test_killed_at_every_effect_no_run_is_lost_or_doubled(policy: str, after: bool, dies_at: int) -> None:
    """The process ends before the write, or after it and before it knows."""
    world = World([CronJobController])
    world.put(kinds.CRON_JOB, cron(concurrencyPolicy=policy, successfulJobsHistoryLimit=1))
    world.dies_at, world.after = dies_at, after
    for number in range(4):
        world.wait(MINUTE)
        if number == 1:
            world.phase(f"ns/c-{FIRST + number}", "Completed")
    created = [write for write in world.writes if write.startswith("create")]
    assert created == [f"create c-{FIRST + number}" for number in range(4)]
    assert the(world).status.last_schedule_time == "2023-11-14T22:17:00Z"
    active = [FIRST + 3] if policy == "Replace" else [FIRST, FIRST + 2, FIRST + 3]
    assert [reference.name for reference in the(world).status.active] == [f"c-{number}" for number in active]


def test_timers_survive_a_restart(world: World) -> None:
    world.put(kinds.CRON_JOB, cron(schedule="@every 1h"))
    world.wait(1800)
    world.start()
    world.wait(1800)
    assert len(world.names(kinds.JOB)) == 1
