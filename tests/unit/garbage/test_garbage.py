"""When a finished Job is deleted, and that nothing but its stored state says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from volcanoio.engine.garbage.controller import GarbageController
from volcanoio.engine.hosting.host import Host
from volcanoio.framework.effects import Delete, Effect, StartTimer, StopTimer
from volcanoio.framework.events import Change, EffectFailed, Observed, Synced, TimerFired
from volcanoio.model import kinds
from volcanoio.model.base import ObjectMeta
from volcanoio.model.batch import Job, JobSpec, JobState, JobStatus

NOON = 1_700_000_000.0
AT_NOON = "2023-11-14T22:13:20Z"
JOBS = kinds.JOB.resource


def job(phase: str = "Completed", ttl: int | None = 60, version: int = 1, **meta: Any) -> Job:
    return Job(
        metadata=ObjectMeta(name="job", namespace="ns", uid="u", resource_version=str(version), **meta),
        spec=JobSpec(ttl_seconds_after_finished=ttl),
        status=JobStatus(state=JobState(phase=phase, last_transition_time=AT_NOON)),
    )


class Process:
    """A fresh process that has listed one Job."""

    def __init__(self, there: Job, now: float = NOON) -> None:
        self.host = Host([GarbageController()])
        self.now = now
        self.there = there
        self.host.handle(Observed(resource=JOBS, change=Change.APPEARED, object=there, at=now))
        self.first = self._effects(self.host.handle(Synced(resource=JOBS, at=now)))

    @staticmethod
    def _effects(dispatches: Sequence[Any]) -> list[Effect]:
        return [effect for dispatch in dispatches for stage in dispatch.stages for effect in stage]

    def sees(self, changed: Job) -> list[Effect]:
        before, self.there = self.there, changed
        return self._effects(
            self.host.handle(
                Observed(resource=JOBS, change=Change.CHANGED, object=changed, previous=before, at=self.now)
            )
        )

    def at(self, now: float) -> list[Effect]:
        self.now = now
        fired = TimerFired(controller="gc-controller", key="ns/job", name="ttl", at=now)
        return self._effects(self.host.handle(fired))

    def refused(self, code: int) -> list[Effect]:
        (effect,) = self.host["gc-controller"].in_flight("ns/job").values()
        failed = EffectFailed(controller="gc-controller", key="ns/job", effect_id=effect.id, code=code, at=self.now)
        return self._effects(self.host.handle(failed))


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated"])
def test_a_finished_job_is_deleted_after_its_ttl(phase: str) -> None:
    process = Process(job(phase))
    (timer,) = process.first
    assert isinstance(timer, StartTimer)
    assert timer.due == NOON + 60
    (end,) = process.at(NOON + 60)
    assert isinstance(end, Delete)
    assert (end.uid, end.resource_version, end.propagation) == ("u", "1", "Foreground")


@pytest.mark.parametrize("phase", ["Running", "Pending", "Aborted", "Completing", ""])
def test_one_that_has_not_finished_stays(phase: str) -> None:
    assert Process(job(phase), now=NOON + 1e6).first == []


def test_overdue_at_the_start_means_now() -> None:
    (end,) = Process(job(), now=NOON + 3600).first
    assert isinstance(end, Delete)


def test_a_job_without_a_time_to_live_is_no_key_at_all() -> None:
    process = Process(job(ttl=None), now=NOON + 1e6)
    assert process.host["gc-controller"].keys == []
    assert process.first == []


def test_a_job_that_is_resumed_is_left_alone() -> None:
    process = Process(job())
    (stopped,) = process.sees(job("Restarting", version=2))
    assert isinstance(stopped, StopTimer)
    assert process.at(NOON + 3600) == []


def test_a_longer_time_to_live_counts_from_the_same_moment() -> None:
    process = Process(job())
    (timer,) = process.sees(job(ttl=600, version=2))
    assert isinstance(timer, StartTimer)
    assert timer.due == NOON + 600


def test_one_that_changed_meanwhile_is_looked_at_again() -> None:
    process = Process(job(), now=NOON + 60)
    (timer,) = process.refused(409)
    assert isinstance(timer, StartTimer)
    assert process.sees(job(version=2)) == []
    (end,) = process.at(timer.due)
    assert isinstance(end, Delete)
    assert end.resource_version == "2"


def test_conflicts_cost_no_patience() -> None:
    process = Process(job(), now=NOON + 60)
    waits = []
    for _ in range(3):
        (timer,) = process.refused(409)
        assert isinstance(timer, StartTimer)
        waits.append(timer.due - process.now)
        process.at(timer.due)
    assert waits == [1, 1, 1]


def test_refusals_are_met_with_patience() -> None:
    process = Process(job(), now=NOON + 60)
    waits = []
    for _ in range(8):
        (timer,) = process.refused(403)
        assert isinstance(timer, StartTimer)
        waits.append(timer.due - process.now)
        (end,) = process.at(timer.due)
        assert isinstance(end, Delete)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_one_that_is_being_deleted_is_not_deleted_again() -> None:
    assert Process(job(deletion_timestamp=AT_NOON), now=NOON + 60).first == []
