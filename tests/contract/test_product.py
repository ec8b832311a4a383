"""The product against the cluster under test: our definitions, controllers, scheduler and nodes carry out a Job.

Where the cluster is a real control plane, this is Volcano without a line of its own: nothing is shared but the API.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio import to_thread

from tests.contract.hollow import hollow_nodes
from tests.contract.support import Cluster, Namespace, Obj, established, eventually, gone, unique
from volcanoio.compose.controllers import ControllerManager, ControllerSettings
from volcanoio.compose.local import install_crds
from volcanoio.compose.scheduler import SchedulerProcess, SchedulerSettings
from volcanoio.kube import kubeconfig
from volcanoio.kube.clock import WallClock
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.runtime.loading.registry import discover

FLEET = "sim.volcanoio.dev/node"
JOBS = "jobs.v1alpha1.batch.volcano.sh"
GROUPS = "podgroups.v1beta1.scheduling.volcano.sh"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
RESOURCES = "/apis/resource.k8s.io/v1"
DEVICES = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
    arguments: {predicate.DynamicResourceAllocationEnable: true}
  - name: nodeorder
"""
SECONDS = 100


@pytest.fixture(scope="module")
def fleet(cluster: Cluster) -> Iterator[str]:
    """The label value of nodes that are ours."""
    prefix = unique("w")
    with hollow_nodes(cluster, prefix, 3):
        yield f"hollow-{prefix}"


@asynccontextmanager
async def volcano(cluster: Cluster, configuration: str | None = None) -> AsyncIterator[None]:
    """Controllers and scheduler at work on the cluster, each as its process runs it."""
    transport = HttpTransport(await kubeconfig.from_file(cluster.kubeconfig))
    try:
        await install_crds(transport)
        for name in ("jobs.batch.volcano.sh", "podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh"):
            await to_thread.run_sync(established, cluster, name)
        cluster.create(QUEUES, {"metadata": {"name": "default"}, "spec": {"weight": 1}})
        registry, clock = discover(), WallClock()
        controllers = ControllerManager(transport, clock=clock, settings=ControllerSettings(registry=registry))
        settings = SchedulerSettings(registry=registry, configuration=configuration)
        scheduler = SchedulerProcess(transport, clock=clock, settings=settings)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(controllers.run)
            tasks.start_soon(scheduler.run)
            with anyio.fail_after(SECONDS):
                await controllers.synced()
                await scheduler.synced()
                yield
            tasks.cancel_scope.cancel()
    finally:
        await transport.aclose()


def job(fleet: str, replicas: int, run: str, cpu: str = "2") -> Obj:
    """A Job of one gang; each pod runs for a while and then succeeds."""
    template = {
        "metadata": {"annotations": {"sim.volcanoio.dev/run-duration": run}},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {FLEET: fleet},
            "containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}],
        },
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "gang"},
        "spec": {
            "minAvailable": replicas,
            "schedulerName": "volcano",
            "queue": "default",
            "plugins": {"env": [], "svc": []},
            "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}],
            "tasks": [{"name": "worker", "replicas": replicas, "template": template}],
        },
    }


def phases(namespace: Namespace, stored: Obj, last: str) -> list[str]:
    """The phases a Job goes through, up to `last`, each once."""
    seen: list[str] = []
    query = {"resourceVersion": stored["metadata"]["resourceVersion"], "fieldSelector": "metadata.name=gang"}
    with namespace.cluster.watch(namespace.path(JOBS), **query) as events:
        for event in events:
            phase = event["object"].get("status", {}).get("state", {}).get("phase", "")
            if phase and seen[-1:] != [phase]:
                seen.append(phase)
            if phase == last:
                return seen
    raise AssertionError(seen)


async def test_a_job_is_carried_out(namespace: Namespace, fleet: str) -> None:
    cluster = namespace.cluster
    async with volcano(cluster):
        stored = cluster.create(namespace.path(JOBS), job(fleet, 4, "2s")).ok()
        assert await to_thread.run_sync(phases, namespace, stored, "Running") == ["Pending", "Running"]
        pods = cluster.get(namespace.path("pods")).ok()["items"]
        assert {pod["metadata"]["name"] for pod in pods} == {f"gang-worker-{index}" for index in range(4)}
        assert all(pod["spec"]["nodeName"].startswith("w-") for pod in pods)
        (group,) = cluster.get(namespace.path(GROUPS)).ok()["items"]
        assert (group["spec"]["minMember"], group["status"]["phase"]) == (4, "Running")
        assert group["metadata"]["ownerReferences"][0]["uid"] == stored["metadata"]["uid"]
        assert (await to_thread.run_sync(phases, namespace, stored, "Completed"))[-1] == "Completed"
        done = cluster.get(namespace.path(JOBS, "gang")).ok()
        assert done["status"]["succeeded"] == 4


async def test_a_gang_waits_for_room_for_all(namespace: Namespace, fleet: str) -> None:
    cluster = namespace.cluster
    async with volcano(cluster):
        stored = cluster.create(
            namespace.path(JOBS), job(fleet, 4, "never", cpu="5")
        ).ok()  # one fits on each of three nodes
        group = await to_thread.run_sync(unschedulable, namespace, stored)
        assert group["status"]["phase"] in {"Pending", "Inqueue"}
        pods = cluster.get(namespace.path("pods"), fieldSelector="spec.nodeName!=").ok()["items"]
        assert pods == [], "all or none"


def unschedulable(namespace: Namespace, stored: Obj) -> Obj:
    """The PodGroup of the Job once it says that it does not fit."""
    with namespace.cluster.watch(namespace.path(GROUPS)) as events:
        for event in events:
            group: Obj = event["object"]
            conditions = group.get("status", {}).get("conditions", [])
            if any(one["type"] == "Unschedulable" and one["status"] == "True" for one in conditions):
                return group
    raise AssertionError("the watch ended")


async def test_objects_of_a_job_are_deleted_with_it(namespace: Namespace, fleet: str) -> None:
    cluster = namespace.cluster
    async with volcano(cluster):
        stored = cluster.create(namespace.path(JOBS), job(fleet, 2, "never")).ok()
        await to_thread.run_sync(phases, namespace, stored, "Running")
        cluster.delete(namespace.path(JOBS, "gang"), {"propagationPolicy": "Background"}).ok()
        for plural in (GROUPS, "services"):
            await to_thread.run_sync(emptied, namespace, plural)
        for index in range(2):
            await to_thread.run_sync(gone, cluster, namespace.path("pods", f"gang-worker-{index}"))


def emptied(namespace: Namespace, plural: str) -> None:
    """Wait until nothing is listed any more."""
    for one in namespace.cluster.get(namespace.path(plural)).ok()["items"]:
        gone(namespace.cluster, namespace.path(plural, one["metadata"]["name"]))


def devices(cluster: Cluster, driver: str, count: int) -> Iterator[tuple[str, Obj]]:
    """Yield path and content of a class, and of slices with devices of a driver on each node that is ours."""
    selector = {"cel": {"expression": f'device.driver == "{driver}" && device.attributes["{driver}"].healthy'}}
    yield f"{RESOURCES}/deviceclasses", {"metadata": {"name": driver}, "spec": {"selectors": [selector]}}
    for node in cluster.get("/api/v1/nodes", labelSelector=FLEET).ok()["items"]:
        name = node["metadata"]["name"]
        spec = {
            "driver": driver,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"d{at}", "attributes": {"healthy": {"bool": at > 0}}} for at in range(count + 1)],
        }
        yield f"{RESOURCES}/resourceslices", {"metadata": {"name": f"{name}-{driver}"}, "spec": spec}


async def test_pods_get_devices_for_their_claims_and_free_them(namespace: Namespace, fleet: str) -> None:
    """The claims are made and released by the cluster's own controller: on a real one kube-controller-manager's."""
    cluster, driver = namespace.cluster, f"{unique('dra')}.example.com"
    paths = f"{RESOURCES}/namespaces/{namespace.name}"
    claims = f"{paths}/resourceclaims"
    made = [
        f"{path}/{cluster.create(path, body).ok()['metadata']['name']}" for path, body in devices(cluster, driver, 1)
    ]
    try:
        request = {"name": "one", "exactly": {"deviceClassName": driver}}
        template = {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
        cluster.create(f"{paths}/resourceclaimtemplates", template).ok()
        async with volcano(cluster, DEVICES):
            gang = job(fleet, 3, "2s", cpu="100m")
            gang["spec"]["tasks"][0]["template"]["spec"]["resourceClaims"] = [
                {"name": "one", "resourceClaimTemplateName": "t"}
            ]
            stored = cluster.create(namespace.path(JOBS), gang).ok()
            assert (await to_thread.run_sync(phases, namespace, stored, "Running"))[-1] == "Running"
            placed = {
                pod["metadata"]["uid"]: pod["spec"]["nodeName"]
                for pod in cluster.get(namespace.path("pods")).ok()["items"]
            }
            statuses = [claim["status"] for claim in cluster.get(claims).ok()["items"]]
            assert len(statuses) == 3
            for status in statuses:
                (result,), (consumer,) = status["allocation"]["devices"]["results"], status["reservedFor"]
                assert (result["driver"], result["device"]) == (driver, "d1")
                assert result["pool"] == placed.pop(consumer["uid"])
            assert (await to_thread.run_sync(phases, namespace, stored, "Completed"))[-1] == "Completed"

            def free() -> bool | None:
                return cluster.get(claims).ok()["items"] == [] or None

            await to_thread.run_sync(eventually, free)
    finally:
        for path in made:
            cluster.delete(path)
