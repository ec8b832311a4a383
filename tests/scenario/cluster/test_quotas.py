"""A namespace's ResourceQuota refuses pods: the job waits in its queue, says so, and goes on once there is room."""

from __future__ import annotations

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.model import kinds
from volcanoio.model.batch import Job

QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "few"},
    "spec": {"hard": {"pods": "2"}},
}


async def waiting(c: Cluster) -> Job:
    """The second job, once it says why it waits."""
    jobs = await c.until(
        kinds.JOB,
        Job,
        lambda all_: "second" in all_ and "exceeded quota" in all_["second"].status.state.message,
        "the quota's words on the job",
    )
    return jobs["second"]


async def test_a_refused_job_reports_the_quota_until_it_has_room() -> None:
    async with cluster() as c:
        await c.create(QUOTA)
        await c.create(job_manifest("first", replicas=2, run="never"))
        await c.job("first", "Running")
        await c.create(job_manifest("second", replicas=2, run="1s"))
        second = await waiting(c)
        assert (second.status.state.phase, second.status.state.reason) == ("Pending", "FailedCreate")
        group = f"second-{second.metadata.uid}"
        await c.group(group, lambda one: one.status.phase == "Inqueue", "keeps its place")
        assert await c.events("second", "FailedCreate")
        await c.client.delete(kinds.JOB, "first", namespace="default")
        done = await c.job("second", "Completed")
        assert (done.status.retry_count, done.status.succeeded, done.status.state.message) == (0, 2, "")
        labels = {"job_name": "default/second", "queue_name": "default"}
        assert c.local.probe.value("volcano_job_completed_phase_count", **labels) == 1.0
