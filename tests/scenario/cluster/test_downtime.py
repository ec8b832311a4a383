"""What happens while the controllers and the scheduler are down leads to the outcome it would have led to otherwise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.kube.requests import DeleteOptions, PatchOptions
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod

_RESTARTS = [{"event": "PodFailed", "action": "RestartJob"}, {"event": "PodEvicted", "action": "RestartJob"}]


async def _pod_fails(c: Cluster) -> None:
    status = {"phase": "Failed", "containerStatuses": [_terminated(3)]}
    await c.client.patch(kinds.POD, "job-task-0", {"status": status}, "default", PatchOptions(subresource="status"))


async def _pod_is_deleted(c: Cluster) -> None:
    await c.client.delete(kinds.POD, "job-task-0", "default", DeleteOptions(grace=0))


def _terminated(code: int) -> Manifest:
    return {
        "name": "main",
        "image": "busybox",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": {"exitCode": code}},
    }


@pytest.mark.parametrize("down", [False, True], ids=["everything up", "everything down"])
@pytest.mark.parametrize("disturbance", [_pod_fails, _pod_is_deleted])
async def test_a_pod_lost_restarts_the_job(disturbance: Callable[[Cluster], Awaitable[None]], down: bool) -> None:
    async with cluster() as c:
        await c.create(job_manifest("job", replicas=2, run="never", policies=_RESTARTS))
        await c.job("job", "Running")
        if down:
            c.local.stop("scheduler")
            c.local.stop("controllers")
        await disturbance(c)
        if down:
            await c.local.start_controllers()
            await c.local.start_scheduler()
        await c.until(kinds.JOB, Job, lambda jobs: jobs["job"].status.version > 0, "a restart")
        job = await c.job("job", "Running")
        assert (job.status.version, job.status.running) == (1, 2)


async def test_pods_that_end_during_downtime_complete_the_job() -> None:
    async with cluster() as c:
        await c.create(job_manifest("job", replicas=3, run="20s"))
        await c.job("job", "Running")
        c.local.stop("scheduler")
        c.local.stop("controllers")
        await c.until(
            kinds.POD, Pod, lambda pods: all(pod.status.phase == "Succeeded" for pod in pods.values()), "all ended"
        )
        await c.local.start_controllers()
        await c.local.start_scheduler()
        done = await c.job("job", "Completed")
        assert (done.status.succeeded, done.status.retry_count, done.status.version) == (3, 0, done.status.version)
