"""Why a job waits, on the page of a cluster whose scheduler answers at the API server."""

from __future__ import annotations

import math

from tests.scenario.web.support import site
from volcanoio.compose.local import LocalCluster
from volcanoio.compose.options import LocalOptions
from volcanoio.kube.client import Client
from volcanoio.model import kinds
from volcanoio.model.scheduling import PodGroup
from volcanoio.web.app import PageOptions
from volcanoio.web.viewers import Viewers

TOO_LARGE = {
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {
        "minAvailable": 1,
        "tasks": [
            {
                "name": "worker",
                "replicas": 1,
                "template": {
                    "spec": {
                        "containers": [
                            {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "100"}}},
                        ],
                    },
                },
            },
        ],
    },
}


async def submit_and_wait_for_its_condition(client: Client) -> None:
    """Submit a job for which no node has room; returns once the scheduler has written that."""
    await client.create(kinds.JOB, TOO_LARGE, namespace="default")
    async with client.watch(kinds.POD_GROUP, "default") as changes:
        async for change in changes:
            assert isinstance(change.object, PodGroup)
            if change.object.status.conditions:
                return


async def test_the_running_scheduler_answers_and_remedies_are_tried_on_a_copy_of_it() -> None:
    async with LocalCluster(LocalOptions.parse(nodes=1, speed=math.inf)) as cluster:
        await submit_and_wait_for_its_condition(Client(cluster.transport))
        async with site(Viewers(own=cluster.transport), PageOptions(now=cluster.clock.now)) as page:
            why = await page.get("api/why", kind="job", name="train", namespace="default", remedies="true")
            queue = await page.get("api/why", kind="queue", name="default")
    assert (why["answer"]["source"], why["notes"]) == ("scheduler", ["answered by the running scheduler"])
    assert why["answer"]["diagnosis"]["code"] == "ClusterInsufficient"
    assert why["answer"]["remedies"]
    assert queue["answer"]["source"] == "scheduler"
    assert [job["target"].partition("-")[0] for job in queue["answer"]["waiting"]] == ["default/train"]
