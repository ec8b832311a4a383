"""CronJobs in a whole cluster, in virtual time: an hour of runs, a controller that is away, refusals at the door."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.kube.errors import Forbidden
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import CronJob, Job


def cron(name: str, schedule: str, run: str = "20s", **spec: Any) -> Manifest:
    return {
        "apiVersion": kinds.CRON_JOB.api_version,
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": job_manifest("x", run=run)["spec"]}, **spec},
    }


async def runs(c: Cluster) -> list[Job]:
    """All Jobs, in the order of their schedule."""
    found = [job for job in await c.client.list(kinds.JOB, "default") if isinstance(job, Job)]
    return sorted(found, key=lambda job: job.metadata.annotations[names.SCHEDULED_TIMESTAMP])


async def last(c: Cluster, name: str, minute: str) -> CronJob:
    """The CronJob once a run of that minute has completed."""
    found = await c.until(
        kinds.CRON_JOB,
        CronJob,
        lambda all_: name in all_ and (all_[name].status.last_successful_time or "")[14:16] == minute,
        f"a success of {name} at minute {minute}",
    )
    return found[name]


async def test_an_hour_of_runs_leaves_three() -> None:
    async with cluster(speed=math.inf, nodes=1) as c:
        await c.create(cron("often", "*/10 * * * *"))
        await last(c, "often", "00")
        done = await last(c, "often", "50")
        assert done.status.active == ()
        assert (done.status.last_schedule_time or "")[14:] == "50:00Z"
        kept = [job.metadata.annotations[names.SCHEDULED_TIMESTAMP][14:16] for job in await runs(c)]
        assert kept in (["30", "40", "50"], ["20", "30", "40", "50"])  # the oldest goes right after
        events = await c.events("often", "SuccessfulCreate")
        assert sum(event.count for event in events) >= 6


async def test_runs_missed_during_downtime_start_once() -> None:
    async with cluster(speed=math.inf, nodes=1) as c:
        await c.create(cron("nightly", "@every 1h", run="1m"))
        first = (await c.until(kinds.JOB, Job, lambda all_: len(all_) == 1, "a run")).popitem()[1]
        c.local.stop("controllers")
        await c.local.clock.sleep(3 * 3600 + 600)
        await c.local.start_controllers()
        await c.until(kinds.JOB, Job, lambda all_: len(all_) > 1 and all(map(completed, all_.values())), "another run")
        found = await runs(c)
        assert len(found) == 2
        assert found[0].metadata.uid == first.metadata.uid


def completed(job: Job) -> bool:
    return job.status.state.phase == "Completed"


async def test_a_run_that_is_replaced_is_gone_with_its_pods() -> None:
    async with cluster(speed=math.inf, nodes=1) as c:
        await c.create(cron("latest", "* * * * *", run="never", concurrencyPolicy="Replace"))
        first = (await c.until(kinds.JOB, Job, lambda all_: len(all_) == 1, "a run")).popitem()[0]
        await c.until(
            kinds.JOB, Job, lambda all_: first not in all_ and any(j.status.running for j in all_.values()), "the next"
        )
        await c.until(
            kinds.CRON_JOB, CronJob, lambda all_: all(len(each.status.active) == 1 for each in all_.values()), "one"
        )
        assert await c.events("latest", "SuccessfulDelete")


async def test_errors_of_a_cronjob_are_reported_by_admission() -> None:
    async with cluster(nodes=1) as c:
        with pytest.raises(Forbidden) as refused:
            await c.create(cron("bad", "TZ=UTC 0 0 * * *"))
        assert 'admission webhook "validatecronjob.volcano.sh" denied the request: spec.schedule' in str(refused.value)
        broken = cron("bad", "@daily")
        broken["spec"]["jobTemplate"]["spec"]["plugins"] = {"nope": []}
        with pytest.raises(Forbidden, match=r"spec\.jobTemplate\.spec\.plugins\.nope: unable to find job plugin"):
            await c.create(broken)
