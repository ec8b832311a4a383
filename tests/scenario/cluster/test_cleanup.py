"""Finished Jobs go when their time to live is over, also when it ended while nobody looked."""

from __future__ import annotations

from tests.scenario.cluster.harness import cluster, job_manifest
from volcanoio.model import kinds
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod


async def test_a_finished_job_goes_with_its_pods() -> None:
    async with cluster() as c:
        await c.create(job_manifest("short", replicas=2, ttlSecondsAfterFinished=1))
        await c.create(job_manifest("kept", replicas=1))
        await c.job("kept", "Completed")
        await c.until(kinds.JOB, Job, lambda all_: set(all_) == {"kept"}, "the job that goes gone")
        await c.until(kinds.POD, Pod, lambda all_: not [name for name in all_ if name.startswith("short")], "its pods")


async def test_a_time_that_ended_while_the_controllers_were_down_has_ended() -> None:
    async with cluster(speed=50.0) as c:
        await c.create(job_manifest("short", ttlSecondsAfterFinished=5))
        await c.job("short", "Completed")
        c.local.stop("controllers")
        await c.local.clock.sleep(6)
        assert await c.client.list(kinds.JOB, "default")
        await c.local.start_controllers()
        await c.until(kinds.JOB, Job, lambda all_: not all_, "no job")
