"""Kubernetes' own workloads in a queue, as gangs by an annotation."""

from __future__ import annotations

from copy import deepcopy

import pytest

from tests.scenario.cluster.containers import read
from tests.scenario.integrations.support import (
    amounts,
    cpus,
    create,
    create_all,
    hurry,
    manifest,
    members,
    owned_by,
    starts_as_a_whole,
    unhurried,
)
from volcanoio.model import kinds
from volcanoio.model.scheduling import PodGroup

OWNERS = {"Deployment": "ReplicaSet", "StatefulSet": "StatefulSet", "Job": "Job"}
"""The controller of the pods of each workload, whose uid is in the name of the PodGroup."""


@pytest.mark.parametrize(
    ("file", "kind"), [("deployment.yaml", "Deployment"), ("statefulset.yaml", "StatefulSet"), ("job.yaml", "Job")]
)
async def test_a_workload_starts_as_a_gang_in_its_queue(file: str, kind: str) -> None:
    async with unhurried(**cpus(3)) as c:
        await create_all(c, "workloads", "queue.yaml")
        found = await starts_as_a_whole(c, lambda: create_all(c, "workloads", file), "podgroup-", 3)
        assert (found.spec.queue, found.spec.min_member) == ("services", 3)
        assert amounts(found.spec.min_resources)["cpu"] == 3
        pods = await members(c, found)
        (owner,) = {(each.kind, each.uid) for pod in pods for each in pod.metadata.owner_references}
        assert owner[0] == OWNERS[kind]
        assert found.metadata.name == f"podgroup-{owner[1]}"
        assert found.metadata.annotations.get("volcano.sh/preemptable", "") == ("true" if kind == "Job" else "")


async def test_each_job_of_a_cronjob_is_a_gang() -> None:
    """The local cluster only stores CronJobs; the test creates what their controller does, a Job of the template."""
    async with unhurried(**cpus(3)) as c:
        await create_all(c, "workloads", "queue.yaml")
        cron = await create(c, manifest("workloads", "cronjob.yaml", kind="CronJob"))
        template = deepcopy(cron["spec"]["jobTemplate"])
        metadata = {**template["metadata"], "name": "nightly-29123456", "ownerReferences": [owned_by(cron)]}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}
        found = await starts_as_a_whole(c, lambda: create(c, job), "podgroup-", 3)
        assert (found.spec.queue, found.spec.min_member) == ("services", 3)
        hurry(c)
        await c.until(
            kinds.POD_GROUP, PodGroup, lambda all_: all_[found.metadata.name].status.phase == "Completed", "is done"
        )
        assert (await read(c, kinds.POD_GROUP, found.metadata.name))["status"]["succeeded"] == 3
