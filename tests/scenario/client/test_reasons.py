"""Why a job waits, by each of the sources: the scheduler, a cycle in this process, and conditions."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.scenario.client.conftest import Refusing
from volcanoio.client import AsyncClient, AsyncJob, Client, Job, LocalOptions
from volcanoio.kube.client import Client as KubeClient
from volcanoio.model import kinds
from volcanoio.model.names import RUN_DURATION
from volcanoio.model.scheduling import PodGroup


async def condition_is_written(client: KubeClient, job: AsyncJob) -> None:
    """Return once the scheduler has written why the job waits."""
    async with client.watch(kinds.POD_GROUP, job.namespace) as changes:
        async for change in changes:
            group = change.object
            assert isinstance(group, PodGroup)
            if group.metadata.name == f"{job.name}-{job.uid}" and group.status.conditions:
                return


@pytest.mark.parametrize(
    ("refused", "source", "position", "has_remedies"),
    [
        ((), "scheduler", 1, True),
        (("/why",), "cycle", 1, True),
        (("/why", "/nodes"), "conditions", 0, False),
    ],
)
async def test_the_next_source_is_asked_where_one_is_refused(
    cluster: Client, refused: tuple[str, ...], source: str, position: int, has_remedies: bool
) -> None:
    async with AsyncClient(cluster.kubeconfig) as client:
        job = await client.submit(image="busybox", resources={"cpu": 100})
        async with client._cluster.requests() as kube:
            await condition_is_written(kube, job)
            kube.transport = Refusing(kube.transport, *refused)
        reason = await job.why()
        assert (reason.source, reason.code, reason.position) == (source, "ClusterInsufficient", position)
        assert bool(reason.remedies) == has_remedies
        assert "the cluster has 32" in str(reason)
        await job.cancel()


def nightly(client: Client, number: int, *, ends: bool = True) -> Job:
    """Submit a job of an hour that needs a whole node."""
    pod = {} if ends else {"metadata": {"annotations": {RUN_DURATION: "never"}}}
    name = f"nightly-{number}"
    return client.submit(name=name, image="busybox", command="sleep 3600", resources={"cpu": 8}, pod=pod)


def test_a_start_is_estimated_from_jobs_of_its_name(tmp_path: Path) -> None:
    """There is one node, and the last job on it does not end, so that the next one waits."""
    with Client(local=LocalOptions(nodes=1, data=tmp_path, memory=False, speed=math.inf)) as client:
        first, *_ = [nightly(client, number) for number in range(7)]
        nightly(client, 7, ends=False).wait("Running")
        found = nightly(client, 8).eta()
        assert (found.waits, found.position, found.run_time) == (True, 1, 3600.0)
        assert found.p10 is not None
        assert found.p90 is not None
        assert found.p10 <= 3600 <= found.p90
        assert not first.eta().waits
