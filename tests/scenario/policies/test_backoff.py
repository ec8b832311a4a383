"""A retry with back-off, in a whole cluster: a job does not end by the failure that it is still to be retried for."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.scenario.cluster.harness import cluster, job_manifest
from volcanoio.framework.decisions import Abstain, Act, Decision, Hold
from volcanoio.framework.lifecycle import PolicyContext
from volcanoio.model import names, times
from volcanoio.model.batch import JobAction
from volcanoio.model.times import epoch


class LaterAndLater:
    """Restarts a failed pod after 10, 20, 40 … seconds."""

    name = "later"

    async def decide(self, context: PolicyContext) -> Decision:
        if context.event.name != "PodFailed":
            return Abstain()
        return Act(action=JobAction.RESTART_POD, after=10.0 * 2**context.job.status.retry_count)


class AfterALook:
    """Holds the job for half a minute from the end of the failed pod on, then restarts the pod."""

    name = "look"

    async def decide(self, context: PolicyContext) -> Decision:
        if context.event.name != "PodFailed":
            return Abstain()
        pod = next(pod for pod in context.pods if pod.metadata.uid == context.event.pod_uid)
        ended = pod.status.container_statuses[0].state.terminated
        over = (epoch(ended.finished_at if ended is not None else None) or 0.0) + 30
        return Act(action=JobAction.RESTART_POD) if context.now >= over else Hold(reason="looking", until=over)


@pytest.mark.parametrize(("policy", "least"), [(LaterAndLater(), 30), (AfterALook(), 60)], ids=["delayed", "held"])
async def test_a_job_of_one_pod_completes_after_two_retries(policy: Any, least: float) -> None:
    async with cluster(nodes=1, speed=math.inf, policies=(policy,)) as c:
        await c.create(job_manifest("job", annotations={names.FAIL_ATTEMPTS: "2"}))
        job = await c.job("job", "Completed")
        assert job.status.retry_count == 2
        assert "Failed" not in {condition.status for condition in job.status.conditions}
        assert times.parse_duration(job.status.running_duration or "0s") >= least


async def test_a_declared_time_limit_delays_the_restart_of_a_job_whose_pods_have_all_failed() -> None:
    async with cluster(nodes=1, speed=math.inf) as c:
        policies = [{"event": "PodFailed", "action": "RestartJob", "timeout": "1m"}]
        await c.create(job_manifest("job", annotations={names.FAIL_ATTEMPTS: "1"}, policies=policies))
        status = (await c.job("job", "Completed")).status
        assert (status.retry_count, status.version) == (1, 1)
