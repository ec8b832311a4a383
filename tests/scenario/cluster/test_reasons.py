"""Why a job waits for its places is on the Job itself, and events of Job and PodGroup say the same."""

from __future__ import annotations

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job


def queue(name: str, cpu: str) -> Manifest:
    meta = {"name": name}
    return {
        "apiVersion": kinds.QUEUE.api_version,
        "kind": "Queue",
        "metadata": meta,
        "spec": {"capability": {"cpu": cpu}},
    }


async def waiting(c: Cluster, name: str, reason: str) -> Job:
    """The job, once it shows that reason."""
    jobs = await c.until(
        kinds.JOB, Job, lambda all_: name in all_ and all_[name].status.state.reason == reason, f"{name}: {reason}"
    )
    return jobs[name]


async def test_a_gang_larger_than_the_cluster_shows_why_it_waits() -> None:
    async with cluster() as c:  # 4 nodes of 8 cores
        await c.create(job_manifest("wide", replicas=40))
        job = await waiting(c, "wide", "ClusterInsufficient")
        state = job.status.state
        assert state.phase == "Pending"
        assert state.message.endswith("(queue default: needs cpu 40; the cluster has 32, its largest node 8)")
        (event,) = await c.events("wide", "PodGroupPending")
        assert event.message == f"PodGroup default:wide unschedulable, reason: {state.message}"
        (event,) = await c.events(f"wide-{job.metadata.uid}", "Unschedulable")
        assert event.message == state.message


async def test_a_job_shows_its_queues_limit_and_at_once_that_the_queue_is_gone_until_it_runs() -> None:
    async with cluster() as c:
        await c.create(queue("small", "2"))
        await c.create(job_manifest("capped", replicas=4, queue="small"))
        job = await waiting(c, "capped", "QueueQuotaInsufficient")
        assert job.status.state.message.endswith("(queue small: needs cpu 4, in use 0, limit 2)")
        await c.client.delete(kinds.QUEUE, "small")
        await waiting(c, "capped", "QueueNotFound")
        group = await c.group(
            f"capped-{job.metadata.uid}", lambda one: one.status.conditions[-1].reason == "QueueNotFound", "says so"
        )
        assert group.status.phase == "Pending"
        await c.create(queue("small", "4"))
        done = await c.job("capped", "Completed")
        assert (done.status.state.reason, done.status.state.message) == ("", "")
