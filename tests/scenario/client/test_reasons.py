"""Why a job waits, by each of the sources: the scheduler, a cycle in this process, and conditions."""

from __future__ import annotations

import pytest

from tests.scenario.client.conftest import Refusing
from volcanoio.client import AsyncClient, AsyncJob, Client
from volcanoio.kube.client import Client as KubeClient
from volcanoio.model import kinds
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
