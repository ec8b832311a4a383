"""Spark, natively and by its operator, and Flink: a PodGroup for a driver that creates the other pods itself."""

from __future__ import annotations

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


async def the_only_group(c: Cluster) -> PodGroup:
    """The one PodGroup of the namespace."""
    (only,) = await c.client.list(kinds.POD_GROUP, "default")
    assert isinstance(only, PodGroup)
    return only


async def test_spark_submit_reserves_room_for_the_executors_before_the_driver_starts() -> None:
    drivers: list[Manifest] = []

    async def submit(c: Cluster) -> None:
        (template,) = manifests("spark", "podgroup-template.yaml")
        drivers.append(await operators.spark_submit(c, "spark-4f1c", template))

    async with unhurried(**cpus(3)) as c:
        found = await starts_as_a_whole(c, lambda: submit(c), "spark-4f1c-podgroup", 1)
        assert (found.spec.min_member, found.spec.queue) == (1, "default")
        assert amounts(found.spec.min_resources) == amounts({"cpu": "3", "memory": "3Gi"})
        await operators.spark_executors(c, drivers[0], 2)
        await running(c, 2, **{"spark-role": "executor"})
        only = await the_only_group(c)
        assert [each.kind for each in only.metadata.owner_references] == ["Pod"]
        assert only.metadata.uid == found.metadata.uid
        await c.client.delete(kinds.POD, "spark-4f1c-driver", "default")
        await c.until(kinds.POD_GROUP, PodGroup, lambda all_: not all_, "the group goes with the driver")
        await c.until(kinds.POD, Pod, lambda all_: not all_, "the executors, too")


async def test_spark_without_a_template_gets_the_default_queue() -> None:
    async with unhurried() as c:
        driver = await operators.spark_submit(c, "spark-77aa", None)
        await running(c, 1, **{"spark-role": "driver"})
        assert (await read(c, kinds.POD_GROUP, "spark-77aa-podgroup"))["spec"]["queue"] == "default"
        await operators.spark_executors(c, driver, 2)
        await running(c, 2, **{"spark-role": "executor"})
        hurry(c)
        await c.until(
            kinds.POD, Pod, lambda all_: all_["spark-77aa-driver"].status.phase == "Succeeded", "the driver is done"
        )
        assert (await the_only_group(c)).metadata.name == "spark-77aa-podgroup"


async def test_the_spark_operator_asks_for_the_resources_of_all_pods() -> None:
    app = manifest("spark", "sparkapplication.yaml", kind="SparkApplication")
    drivers: list[Manifest] = []

    async def submit(c: Cluster) -> None:
        drivers.append(await operators.spark_operator(c, await create(c, app)))

    async with unhurried(**cpus(3)) as c:
        await define(c, app)
        found = await starts_as_a_whole(c, lambda: submit(c), "spark-pi-pg", 1)
        assert (found.spec.min_member, found.spec.queue) == (1, "default")
        assert amounts(found.spec.min_resources) == amounts({"cpu": "3", "memory": "4224Mi"})
        await operators.spark_executors(c, drivers[0], 2)
        await group(c, "spark-pi-pg", lambda one: one.status.running == 3, "runs with its executors")
        hurry(c)
        done = await group(c, "spark-pi-pg", lambda one: one.status.succeeded == 3, "is done")
        assert done.status.phase == "Completed"


async def test_a_driver_whose_executors_find_no_room_does_not_start() -> None:
    """What minResources is for: two CPUs are free, and a driver alone would wait in them for its executors."""
    (template,) = manifests("spark", "podgroup-template.yaml")
    async with unhurried(**cpus(2)) as c:
        await operators.spark_submit(c, "spark-0001", template)
        waiting = await group(c, "spark-0001-podgroup", lambda one: bool(one.status.conditions), "waits")
        assert waiting.status.phase == "Pending"
        assert not [pod for pod in await c.pods("spark-0001") if pod.spec.node_name]


async def test_flink_gets_a_group_per_owner_in_the_queue_of_its_template() -> None:
    deployment = manifest("flink", "flinkdeployment.yaml", kind="FlinkDeployment")
    async with unhurried() as c:
        await define(c, deployment)
        *_, stored = await create_all(c, "flink", "flinkdeployment.yaml")
        manager = await operators.flink_operator(c, stored)
        await running(c, 1, component="jobmanager")
        await operators.flink_task_managers(c, stored, manager)
        await running(c, 2, component="taskmanager")
        groups = {
            component: {pod.metadata.annotations["scheduling.k8s.io/group-name"] for pod in await c.pods()
                        if pod.metadata.labels["component"] == component}
            for component in ("jobmanager", "taskmanager")
        }  # fmt: skip
        assert groups["taskmanager"] == {f"podgroup-{manager['metadata']['uid']}"}
        for (name,) in groups.values():
            found = await group(c, name, lambda one: one.status.phase == "Running", "runs")
            assert (found.spec.min_member, found.spec.queue) == (1, "streaming")


async def test_flink_in_a_group_of_the_users_waits_for_room_for_all_its_pods() -> None:
    deployment = manifest("flink", "flinkdeployment-gang.yaml", kind="FlinkDeployment")
    managers: list[tuple[Manifest, Manifest]] = []

    async def submit(c: Cluster) -> None:
        *_, stored = await create_all(c, "flink", "flinkdeployment-gang.yaml")
        managers.append((stored, await operators.flink_operator(c, stored)))

    async with unhurried(**cpus(3)) as c:
        await define(c, deployment)
        await starts_as_a_whole(c, lambda: submit(c), "fraud-detection", 1)
        await operators.flink_task_managers(c, *managers[0])
        await group(c, "fraud-detection", lambda one: one.status.running == 3, "runs with its TaskManagers")
        assert (await the_only_group(c)).metadata.name == "fraud-detection"
