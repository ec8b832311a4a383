"""What a job took follows from its stored objects, and from what was added up while it existed."""

from __future__ import annotations

import pytest

from tests.unit.accounting.histories import START, finished, job, pod
from volcanoio.engine.accounting.finished_jobs import OpenAccount, Place, account
from volcanoio.engine.accounting.summaries import GroupBy, name_pattern, summarise

GIB = 2**30


def test_a_completed_job_has_waited_run_and_requested() -> None:
    found = account(job("Completed"), [pod("a", 10, 70), pod("b", 20, 50)], OpenAccount(), START + 99)
    assert (found.owner, found.queue, found.phase, found.exit_code) == ("ann", "gold", "Completed", 0)
    assert (found.wait, found.run_time, found.pods) == (10, 60, 2)
    assert found.requested == {"cpu": 2 * (60 + 30), "memory": GIB * (60 + 30)}
    assert found.measured == 0  # no usage was seen, which is not the same as none used
    assert found.used == {}
    assert found.places == (Place("node-1", START + 10, START + 70), Place("node-1", START + 20, START + 50))


def test_pods_that_are_gone_and_the_first_start_are_remembered() -> None:
    kept = OpenAccount(started=START + 3)
    kept.add_pods([pod("gone", 3, 8, exit_code=137)], START + 8)
    kept.add_usage({"cpu": 30.0}, seconds=50)
    found = account(job("Failed", status={"retryCount": 1}), [pod("a", 10, 70)], kept, START + 70)
    assert (found.wait, found.run_time, found.restarts) == (3, 67, 1)
    assert found.exit_code == 137
    assert found.requested["cpu"] == 2 * (5 + 60)
    assert (found.used, found.pod_seconds, round(found.measured, 3)) == ({"cpu": 30.0}, 65, 0.769)
    assert kept.requested["cpu"] == 10  # the account itself is not changed by the result


def test_a_job_deleted_while_it_runs_ends_then() -> None:
    found = account(job("Running"), [pod("a", 10)], OpenAccount(), START + 30)
    assert (found.phase, found.finished, found.run_time) == ("Deleted", START + 30, 20)
    assert found.requested["cpu"] == 40


def test_a_job_that_never_ran_only_waited() -> None:
    state = {"phase": "Aborted", "lastTransitionTime": "2026-01-01T00:05:00Z"}
    never = job("Aborted", status={"state": state, "conditions": []})
    found = account(never, [], OpenAccount(), START + 999)
    assert (found.wait, found.run_time, found.requested) == (300, None, {})


@pytest.mark.parametrize(
    ("metadata", "owner"),
    [
        ({}, "ann"),
        ({"annotations": {}}, ""),
        (
            {
                "annotations": {},
                "ownerReferences": [{"kind": "CronJob", "name": "nightly", "uid": "u", "controller": True}],
            },
            "CronJob/nightly",
        ),
    ],
)
def test_the_owner_is_the_creator_or_the_controller(metadata: dict[str, object], owner: str) -> None:
    assert account(job("Completed", metadata=metadata), [], OpenAccount(), START).owner == owner


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("train", "train"),
        ("train-2026-01-07", "train-*"),
        ("report-29012345", "report-*"),
        ("sweep-x7k2p", "sweep-*"),
        ("2026", "2026"),
        ("resnet50", "resnet50"),
    ],
)
def test_runs_of_one_job_have_one_pattern(name: str, pattern: str) -> None:
    assert name_pattern(name) == pattern


def test_sums_have_waits_and_the_unused_share_of_what_was_measured() -> None:
    jobs = [
        finished("1", used={"cpu": 30.0}, measured_seconds=30.0),  # half of its time measured: 60 requested then
        finished("2", owner="", queue="silver", phase="Failed", started=None),
        finished("3", name="train-2", started=START + 30, requested={"cpu": 60.0}),
    ]
    ann, unknown = summarise(jobs, GroupBy.USER)
    assert (ann.group, ann.jobs, ann.completed, ann.failed) == ("ann", 2, 2, 0)
    assert (ann.wait_p50, ann.run_p50, ann.requested, ann.used) == (30, 60, {"cpu": 180.0}, {"cpu": 30.0})
    assert ann.unused == {"cpu": 0.5}
    assert ann.measured == 0.25
    assert (unknown.group, unknown.failed, unknown.run_p50, unknown.unused) == ("unknown", 1, None, {})
    assert [(each.group, each.jobs) for each in summarise(jobs, GroupBy.JOB)] == [("ml/train-*", 3)]
