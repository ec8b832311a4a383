"""Random histories of CronJobs: users, jobs that end anyhow, refusals, deaths at any write; what holds when quiet."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.examples import examples
from tests.unit.world import World
from volcanoio.engine.cron.controller import CronJobController
from volcanoio.engine.cron.runs import HISTORY_LIMITS
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import CronJob

PHASES = ["Running", "Completed", "Failed", "Terminated", "Aborted", "Restarting"]
SCHEDULES = ["* * * * *", "*/2 * * * *", "@every 90s", "@every 20s", "0 0 1 1 *"]


class CronWorlds(RuleBasedStateMachine):
    """Does anything that users, jobs and accidents may do to a CronJob."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World([CronJobController])
        self.removed = 0

    @initialize(schedule=st.sampled_from(SCHEDULES), policy=st.sampled_from(["Allow", "Forbid", "Replace"]))
    def create(self, schedule: str, policy: str) -> None:
        spec = {"schedule": schedule, "concurrencyPolicy": policy, "jobTemplate": {"spec": {"tasks": []}}}
        self.change(spec)

    def change(self, spec: Manifest) -> None:
        self.world.put(kinds.CRON_JOB, {"metadata": {"name": "c", "namespace": "ns"}, "spec": spec})

    @rule(suspend=st.booleans())
    def suspend(self, suspend: bool) -> None:
        self.change({"suspend": suspend})

    @rule(deadline=st.none() | st.integers(0, 300), kept=st.integers(0, 3), failed=st.integers(0, 3))
    def change_limits(self, deadline: int | None, kept: int, failed: int) -> None:
        limits = {"successfulJobsHistoryLimit": kept, "failedJobsHistoryLimit": failed}
        self.change({"startingDeadlineSeconds": deadline, **limits})

    @rule(schedule=st.sampled_from([*SCHEDULES, "61 * * * *"]))
    def reschedule(self, schedule: str) -> None:
        self.change({"schedule": schedule})

    @rule(seconds=st.sampled_from([1.0, 30.0, 60.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @rule(data=st.data(), phase=st.sampled_from(PHASES))
    def job_enters(self, data: st.DataObject, phase: str) -> None:
        if found := self.world.names(kinds.JOB):
            self.world.phase(f"ns/{data.draw(st.sampled_from(found))}", phase)

    @rule(data=st.data())
    def somebody_deletes_a_job(self, data: st.DataObject) -> None:
        if found := self.world.names(kinds.JOB):
            self.removed += 1
            self.world.remove(kinds.JOB, f"ns/{data.draw(st.sampled_from(found))}")

    @rule(code=st.sampled_from([403, 409, 422, 500]))
    def the_next_write_is_refused(self, code: int) -> None:
        self.world.refuse = [(code, "no")]

    @rule(at=st.integers(1, 4), after=st.booleans())
    def die(self, at: int, after: bool) -> None:
        self.world.dies_at, self.world.after = at, after

    @rule()
    def restart(self) -> None:
        self.world.start()

    @invariant()
    def no_run_exists_twice_or_starts_again_while_it_exists(self) -> None:
        """A run of a minute is made again only if it was seen to go: deleted by us or by somebody."""
        made = [write for write in self.world.writes if write.startswith("create")]
        again = len(made) - len(set(made))
        assert made == sorted(made), "no run comes after a newer one"
        assert again <= self.removed + sum(write.startswith("delete") for write in self.world.writes)

    def teardown(self) -> None:
        """When all is quiet the status says what is there, and the history is as long as it may be."""
        if not self.world.objects:
            return
        self.world.refuse, self.world.dies_at = [], 0
        self.change({"suspend": True})
        self.world.wait(300)
        cron = self.world.get(kinds.CRON_JOB, "ns/c")
        assert isinstance(cron, CronJob)
        jobs = [self.world.job(f"ns/{name}") for name in self.world.names(kinds.JOB)]
        active = {job.metadata.name for job in jobs if job.status.state.phase not in HISTORY_LIMITS}
        assert {reference.name for reference in cron.status.active} == active
        for limit in set(HISTORY_LIMITS.values()):
            kept = [job for job in jobs if HISTORY_LIMITS.get(job.status.state.phase) == limit]
            assert len(kept) <= getattr(cron.spec, limit)
        times = [job.metadata.annotations[names.SCHEDULED_TIMESTAMP] for job in jobs]
        assert max(times, default="") <= (cron.status.last_schedule_time or "")


CronWorlds.TestCase.settings = examples(60, stateful_step_count=30)
TestCronWorlds = CronWorlds.TestCase
