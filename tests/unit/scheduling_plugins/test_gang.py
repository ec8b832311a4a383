"""Plugin gang: the minimum or nothing, and the conditions of the PodGroup."""

from __future__ import annotations

import pytest
from volcanoio_plugins.scheduling.gang import Gang

from tests.unit.scheduling_plugins.views import JobView, QueueData, session_of, tasks
from volcanoio.framework.arguments import ArgumentError
from volcanoio.framework.scheduling.verdicts import PERMIT, Vote
from volcanoio.framework.scheduling.views import TaskStatus


def test_a_job_needs_as_many_tasks_as_its_minimum() -> None:
    verdict = Gang({}).job_valid(JobView("ns/a", tasks("ns/a", 2), min_available=3))
    assert (verdict.vote, verdict.code) == (Vote.REJECT, "NotEnoughTasks")
    assert verdict.message == "Not enough valid tasks for gang-scheduling, valid: 2, min: 3"
    assert Gang({}).job_valid(JobView("ns/a", tasks("ns/a", 3), min_available=3)) == PERMIT


def test_a_job_needs_enough_of_each_role() -> None:
    job = JobView("ns/a", tasks("ns/a", 3, role="worker"), min_available=3, role_minimums={"ps": 1, "worker": 2})
    assert Gang({}).job_valid(job).code == "NotEnoughPodsOfTask"


def test_a_gang_is_ready_and_no_longer_starves_once_its_minimum_is_placed() -> None:
    placed = tasks("ns/a", 2, TaskStatus.ALLOCATED)
    job = JobView("ns/a", [*placed, *tasks("ns/a", 1)], min_available=3)
    assert not Gang({}).job_ready(job)
    assert Gang({}).job_starving(job)
    job.tasks[-1].status = TaskStatus.BOUND
    assert Gang({}).job_ready(job)
    assert not Gang({}).job_starving(job)


def test_a_gang_stays_pipelined_only_if_its_minimum_is_placed_or_pipelined() -> None:
    job = JobView("ns/a", [*tasks("ns/a", 1, TaskStatus.ALLOCATED), *tasks("ns/a", 2)], min_available=2)
    assert Gang({}).job_pipelined(job).vote is Vote.REJECT
    job.tasks[1].status = TaskStatus.PIPELINED
    assert Gang({}).job_pipelined(job) == PERMIT


def test_jobs_that_are_not_ready_come_first() -> None:
    ready = JobView("ns/ready", tasks("ns/ready", 1, TaskStatus.RUNNING))
    waiting = JobView("ns/waiting", tasks("ns/waiting", 1))
    assert sorted([ready, waiting], key=Gang({}).job_key) == [waiting, ready]


def test_victims_leave_their_job_at_its_minimum() -> None:
    job = JobView("ns/a", tasks("ns/a", 4, TaskStatus.RUNNING), min_available=2)
    gang = Gang({})
    gang.open(session_of(QueueData("q", jobs=[job])))
    preemptor = tasks("ns/b", 1)[0]
    assert gang.preemptable(preemptor, job.tasks) == job.tasks[:2]
    assert gang.reclaimable(preemptor, list(reversed(job.tasks))) == [job.tasks[3], job.tasks[2]]


def test_the_podgroup_shows_the_state_of_its_gang() -> None:
    waiting = JobView("ns/waiting", tasks("ns/waiting", 3), min_available=3)
    partly = JobView("ns/partly", tasks("ns/partly", 3), min_available=3, schedulable_count=2)
    ready = JobView("ns/ready", tasks("ns/ready", 1, TaskStatus.RUNNING), min_available=1)
    empty = JobView("ns/empty", [], min_available=1)
    terminating = tasks("ns/ending", 2, TaskStatus.RELEASING, node="n1")
    ending = JobView("ns/ending", terminating, min_available=2)
    replaced = JobView("ns/replaced", [*tasks("ns/replaced", 1, TaskStatus.RUNNING), terminating[0]], min_available=2)
    session = session_of(QueueData("q", jobs=[waiting, partly, ready, empty, ending, replaced]))
    gang = Gang({})
    gang.open(session)
    gang.close(session)
    assert session.conditions == {
        "ns/waiting": (
            "Unschedulable",
            "NotEnoughResources",
            "3/3 tasks in gang unschedulable: why of ns/waiting",
        ),
        "ns/partly": ("Unschedulable", "NotEnoughResources", "1/3 tasks in gang unschedulable: why of ns/partly"),
        "ns/ready": ("Scheduled", "tasks in gang are ready to be scheduled", ""),
    }


def test_any_argument_is_rejected() -> None:
    with pytest.raises(ArgumentError, match='gang: unknown argument "x"'):
        Gang({"x": 1})
