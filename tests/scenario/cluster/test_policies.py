"""What users declare is one policy among others: it can be off, and others may take their time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from volcanoio_policies.declared import Declared

from tests.scenario.cluster.harness import cluster, job_manifest
from volcanoio.framework.decisions import Abstain, Act, Decision
from volcanoio.framework.lifecycle import PolicyContext
from volcanoio.model import kinds
from volcanoio.model.batch import Job, JobAction, JobEvent

_EVICTED = [{"event": "PodEvicted", "action": "RestartJob"}]


async def test_an_evicted_pod_restarts_the_job() -> None:
    async with cluster() as c:
        await c.create(job_manifest("job", replicas=2, run="never", policies=_EVICTED))
        await c.job("job", "Running")
        await c.client.delete(kinds.POD, "job-task-0", "default")
        await c.until(kinds.JOB, Job, lambda jobs: jobs["job"].status.version > 0, "a restart")
        job = await c.job("job", "Running")
        assert job.status.version == 1


async def test_with_the_declared_policy_off_nothing_restarts(tmp_path: Path) -> None:
    conf = tmp_path / "volcano-controller.conf"
    conf.write_text("policies:\n- name: declared\n  enabled: false\n")
    async with cluster(controller_conf=conf) as c:
        await c.create(job_manifest("job", replicas=2, run="never", policies=_EVICTED))
        await c.job("job", "Running")
        await c.client.delete(kinds.POD, "job-task-0", "default")
        jobs = await c.until(
            kinds.JOB,
            Job,
            lambda all_: all_["job"].status.running == 2 and all_["job"].status.pending == 0,
            "the pod made again without a restart",
        )
        assert jobs["job"].status.version == 0
        assert jobs["job"].status.retry_count == 0


class _ReadsNodes:
    """Restarts a job whose pod failed, if it sees the four nodes of the cluster: what it reads is listed before."""

    name = "reads-nodes"
    indexes = (kinds.NODE.resource, kinds.CONFIG_MAP.resource)

    async def decide(self, context: PolicyContext) -> Decision:
        """Restart on a failed pod."""
        if context.event.name == JobEvent.POD_FAILED and len(context.indexes[kinds.NODE.resource]) == 4:
            return Act(action=JobAction.RESTART_JOB)
        return Abstain()


async def test_a_policy_reads_the_indexes_it_declares() -> None:
    async with cluster(policies=(_ReadsNodes(),)) as c:
        fails = {"sim.volcanoio.dev/fail-attempts": "1"}
        await c.create(job_manifest("job", annotations=fails))
        done = await c.job("job", "Completed")
        assert done.status.version == 1


class _Slow:
    """Answers like the declared policy would for PodEvicted, after a while."""

    name = "slow"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def decide(self, context: PolicyContext) -> Decision:
        """Restart on eviction."""
        if context.event.name != JobEvent.POD_EVICTED:
            return Abstain()
        await asyncio.sleep(self._seconds)
        return Act(action=JobAction.RESTART_JOB)


@pytest.mark.parametrize("seconds", [0.0, 2.0])
async def test_a_slow_policy_ends_as_a_quick_one_does(seconds: float) -> None:
    async with cluster(policies=(_Slow(seconds),)) as c:
        await c.create(job_manifest("job", replicas=2, run="never"))
        await c.job("job", "Running")
        await c.client.delete(kinds.POD, "job-task-0", "default")
        await c.until(kinds.JOB, Job, lambda jobs: jobs["job"].status.version > 0, "a restart")
        job = await c.job("job", "Running")
        assert (job.status.version, job.status.running) == (1, 2)


class _Thoughtful:
    """Thinks about every event and leaves it to the next policy."""

    name = "thoughtful"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def decide(self, context: PolicyContext) -> Decision:
        """Abstain, after a while."""
        del context
        await asyncio.sleep(self._seconds)
        return Abstain()


_OUTCOMES = {
    "nginx": (0, 6),
    "tensorflow-dist-mnist": (0, 2),
    "mindspore-cpu": (0, 8),
    "restart-any": (1, 1),
    "spark-pi": (0, 6),
    "gang-a": (0, 5),
    "gang-b": (0, 5),
}
"""Jobs of config/examples: retries and succeeded pods."""


@pytest.mark.parametrize("seconds", [0.0, 2.0])
async def test_every_example_ends_the_same_however_long_a_policy_thinks(seconds: float) -> None:
    files = ("00-priority-classes", "01-nginx", "02-tensorflow-dist-mnist", "03-mindspore", "04-restart-any")
    async with cluster(policies=(_Thoughtful(seconds), Declared())) as c:
        await c.example(*(f"{file}.yaml" for file in (*files, "05-spark", "07-two-gangs")))
        done = {name: (await c.job(name, "Completed")).status for name in _OUTCOMES}
        assert {name: (status.retry_count, status.succeeded) for name, status in done.items()} == _OUTCOMES
