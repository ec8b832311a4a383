"""Kubeflow's Trainer v2, Training Operator v1 and MPI operator: their PodGroups, pods, and traps."""

from __future__ import annotations

import pytest

from tests.commands import run_aside
from tests.scenario.cluster.containers import read
from tests.scenario.cluster.harness import Cluster
from tests.scenario.integrations import operators
from tests.scenario.integrations.support import (
    amounts,
    cpus,
    create,
    create_all,
    define,
    group,
    hurry,
    kind_of,
    manifest,
    manifests,
    running,
    starts_as_a_whole,
    unhurried,
)
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup


async def train(c: Cluster, *objects: Manifest) -> None:
    """Define Trainer's kinds, create the objects, and let Trainer reconcile the last two: the runtime and its job."""
    await define(c, *objects[-2:])
    *_, runtime, job = [await create(c, each) for each in objects]
    await operators.trainer(c, runtime, job)


async def test_trainer_applies_the_group_on_the_server_and_all_nodes_start_together() -> None:
    objects = manifests("kubeflow-trainer", "trainjob.yaml")
    async with unhurried(**cpus(4)) as c:
        found = await starts_as_a_whole(c, lambda: train(c, *objects), "finetune", 4)
        assert (found.spec.min_member, found.spec.queue) == (4, "training")
        assert amounts(found.spec.min_resources) == amounts({"cpu": "4", "memory": "8Gi"})
        stored = await read(c, kinds.POD_GROUP, "finetune")
        managers = {(each["manager"], each["operation"]) for each in stored["metadata"]["managedFields"]}
        assert ("trainer", "Apply") in managers
        hurry(c)
        done = await group(c, "finetune", lambda one: one.status.succeeded == 4, "is done")
        assert done.status.phase == "Completed"


async def test_without_a_scheduler_name_trainers_pods_are_no_gang() -> None:
    """The trap of Trainer's own example: pods that name the group are placed one by one by the default scheduler."""
    objects = manifests("kubeflow-trainer", "trainjob.yaml")
    del objects[-2]["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"][
        "schedulerName"
    ]
    async with unhurried(**cpus(3)) as c:
        await train(c, *objects)
        pods = await c.until(
            kinds.POD, Pod, lambda all_: sum(pod.status.phase == "Running" for pod in all_.values()) == 3, "a part runs"
        )
        assert sorted(bool(pod.spec.node_name) for pod in pods.values()) == [False, True, True, True]
        assert {pod.spec.scheduler_name for pod in pods.values()} == {"default-scheduler"}
        environment = {"KUBECONFIG": str(c.local.kubeconfig)}
        asked = await run_aside("why", "finetune", environment=environment)
        assert "OtherScheduler" in asked.out
        assert "set schedulerName in their template" in asked.out
        found = await run_aside("doctor", environment=environment)
        assert "scheduling.k8s.io/group-name is set, but default-scheduler places pods one by one" in found.out


async def reconciled(c: Cluster, job: Manifest) -> None:
    """Let Training Operator reconcile until the pods exist: whenever the PodGroup changes."""
    while not await operators.training_operator(c, job):
        assert await c.pods(job["metadata"]["name"]) == [], "no pods before the PodGroup is Inqueue"
        name = job["metadata"]["name"]
        await group(c, name, lambda one: one.status.phase not in ("", "Pending"), "may have pods")


@pytest.mark.parametrize(
    ("file", "kind", "minimum", "least"),
    [
        ("pytorchjob.yaml", "PyTorchJob", 3, {"cpu": "3", "memory": "3Gi"}),
        ("tfjob.yaml", "TFJob", 2, {"cpu": "2", "memory": "2Gi"}),
    ],
)
async def test_training_operator_makes_no_pods_before_the_group_is_inqueue(
    file: str, kind: str, minimum: int, least: dict[str, str]
) -> None:
    job = manifest("kubeflow-training-operator", file, kind=kind)
    async with unhurried(**cpus(3)) as c:
        await define(c, job)
        stored = await create(c, job)
        await reconciled(c, stored)
        found = await group(c, job["metadata"]["name"], lambda one: one.status.running == 3, "runs")
        assert (found.spec.min_member, found.spec.queue) == (minimum, "default")
        assert amounts(found.spec.min_resources) == amounts(least)
        pods = await c.pods(job["metadata"]["name"])
        assert len({pod.metadata.annotations["volcano.sh/task-spec"] for pod in pods}) == 2
        hurry(c)
        await group(c, job["metadata"]["name"], lambda one: one.status.succeeded >= 2, "has done its work")
        await c.client.delete(kinds.POD_GROUP, job["metadata"]["name"], "default")  # as the operator does
        await c.client.delete(kind_of(job), job["metadata"]["name"], "default")
        await c.until(kinds.POD, Pod, lambda all_: not all_, "the pods go with the job")


async def test_a_group_without_pods_waits_for_room_and_is_admitted_by_its_resources() -> None:
    job = manifest("kubeflow-training-operator", "pytorchjob.yaml", kind="PyTorchJob")
    full = operators.pod_group("full", {"apiVersion": "v1", "kind": "x", "metadata": {"name": "x", "uid": "1"}})
    full["metadata"].pop("ownerReferences")
    async with unhurried(**cpus(3)) as c:
        await define(c, job)
        await create(c, {**full, "spec": {"minMember": 1, "minResources": {"cpu": "3"}}})
        await group(c, "full", lambda one: one.status.phase == "Inqueue", "is admitted without a pod")
        assert not await operators.training_operator(c, await create(c, job))
        waiting = await group(c, "mnist", lambda one: bool(one.status.conditions), "waits")
        assert waiting.status.phase == "Pending"
        free = {**full, "metadata": {"name": "free"}, "spec": {"minMember": 5}}
        await create(c, free)
        await group(c, "free", lambda one: one.status.phase == "Inqueue", "is admitted, as it names no resources")
        await c.client.delete(kinds.POD_GROUP, "full", "default")
        await group(c, "mnist", lambda one: one.status.phase == "Inqueue", "is admitted")


async def test_an_mpijobs_launcher_and_workers_start_together_in_the_queue_of_the_annotation() -> None:
    job = manifest("mpi-operator", "mpijob.yaml", kind="MPIJob")

    async def submit(c: Cluster) -> None:
        *_, stored = await create_all(c, "mpi-operator", "mpijob.yaml")
        await operators.mpi_operator(c, stored)

    async with unhurried(**cpus(3)) as c:
        await define(c, job)
        found = await starts_as_a_whole(c, lambda: submit(c), "pi", 3)
        assert (found.spec.min_member, found.spec.queue) == (3, "hpc")
        assert amounts(found.spec.min_resources) == amounts({"cpu": "3", "memory": "3Gi"})
        await running(c, 1, **{"job-name": "pi-launcher"})
        assert {pod.spec.scheduler_name for pod in await c.pods("pi-")} == {"volcano"}


async def test_an_mpijob_that_is_scaled_changes_its_group_and_one_that_ends_deletes_it() -> None:
    job = manifest("mpi-operator", "mpijob.yaml", kind="MPIJob")
    async with unhurried() as c:
        await define(c, job)
        *_, stored = await create_all(c, "mpi-operator", "mpijob.yaml")
        await operators.mpi_operator(c, stored)
        await group(c, "pi", lambda one: one.status.running == 3, "runs")
        body = await read(c, kinds.POD_GROUP, "pi")
        body["spec"] |= {"minMember": 4, "minResources": {"cpu": "4", "memory": "4Gi"}}
        await operators.update(c, body)
        template = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
        grouped = {"scheduling.k8s.io/group-name": "pi"}
        await create(c, operators.pod("pi-worker-2", template, stored, annotations=grouped))
        grown = await group(c, "pi", lambda one: one.status.running == 4, "has grown")
        assert grown.spec.min_member == 4
        await c.client.delete(kinds.POD_GROUP, "pi", "default")
        await c.until(kinds.POD_GROUP, PodGroup, lambda all_: not all_, "the group is gone")
        assert {pod.status.phase for pod in await c.pods("pi-")} == {"Running"}, "pods outlive their group"
