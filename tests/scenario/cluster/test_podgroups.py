"""Pods that no Volcano Job made, under schedulerName volcano: bare ones and those of Kubernetes' own workloads."""

from __future__ import annotations

from typing import Any

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.kube.requests import DeleteOptions
from volcanoio.localcluster.controllers.objects import BATCH_JOB, DAEMON_SET, DEPLOYMENT, STATEFUL_SET
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.kinds import Kind
from volcanoio.model.scheduling import PodGroup


def template(cpu: str = "1", run: str = "never", **meta: Any) -> Manifest:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    annotations = {names.RUN_DURATION: run, **meta.pop("annotations", {})}
    return {
        "metadata": {"labels": {"app": "web"}, "annotations": annotations},
        "spec": {"schedulerName": "volcano", "containers": [container]},
    }


def workload(kind: Kind, name: str, pods: Manifest, annotations: dict[str, str] | None = None, **spec: Any) -> Manifest:
    """A workload of these pods."""
    chosen = {} if kind is BATCH_JOB else {"selector": {"matchLabels": {"app": "web"}}}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {**chosen, **spec, "template": pods},
    }


async def running(c: Cluster, prefix: str, number: int) -> list[Pod]:
    """The pods, once so many of a prefix run."""

    def those(all_: dict[str, Pod]) -> list[Pod]:
        mine = [pod for name, pod in sorted(all_.items()) if name.startswith(prefix)]
        return [pod for pod in mine if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None]

    return those(
        await c.until(kinds.POD, Pod, lambda all_: len(those(all_)) == number, f"{number} of {prefix} running")
    )


async def group_of(c: Cluster, pods: list[Pod], phase: str = "Running") -> PodGroup:
    """The one PodGroup of pods, once it is in a phase."""
    (name,) = {pod.metadata.annotations[names.GROUP_NAME] for pod in pods}
    return await c.group(name, lambda group: group.status.phase == phase, phase)


async def test_a_bare_pod_has_its_own_group_until_deleted() -> None:
    async with cluster() as c:
        pod = {"apiVersion": "v1", "kind": "Pod", **template(annotations={"scheduling.volcano.sh/queue-name": "q"})}
        pod["metadata"]["name"] = "alone"
        await c.create({"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", "metadata": {"name": "q"}})
        await c.queue("q", lambda queue: queue.status.state == "Open", "open")
        await c.create(pod)
        (run,) = await running(c, "alone", 1)
        group = await group_of(c, [run])
        assert group.metadata.name == f"podgroup-{run.metadata.uid}"
        assert (group.spec.queue, group.spec.min_member) == ("q", 1)
        await c.queue("q", lambda queue: queue.status.running == 1, "with a running group")
        assert group.spec.min_resources == {"count/pods": "1", "pods": "1", "cpu": "1", "requests.cpu": "1"}
        await c.client.delete(kinds.POD, "alone", "default", DeleteOptions(grace=0))
        await c.until(kinds.POD_GROUP, PodGroup, lambda all_: not all_, "no group")
        await c.queue("q", lambda queue: queue.status.running == 0, "without a running group")


async def test_a_deployment_has_a_group_for_each_of_its_replica_sets() -> None:
    async with cluster() as c:
        minimum = {names.GROUP_MIN_MEMBER: "3", "volcano.sh/sla-waiting-time": "1h"}
        await c.client.create(
            DEPLOYMENT, workload(DEPLOYMENT, "web", template(), minimum, replicas=3), namespace="default"
        )
        first = await group_of(c, await running(c, "web", 3))
        assert first.spec.min_member == 3
        assert first.metadata.annotations["volcano.sh/sla-waiting-time"] == "1h"
        assert [owner.kind for owner in first.metadata.owner_references] == ["ReplicaSet"]
        await c.client.patch(DEPLOYMENT, "web", {"spec": {"template": template(cpu="500m")}}, "default")
        groups = await c.until(
            kinds.POD_GROUP, PodGroup,
            lambda all_: first.metadata.name not in all_ and len(all_) == 1, "the successor's group alone",
        )  # fmt: skip
        second = await c.group(next(iter(groups)), lambda group: group.spec.min_member == 3, "that has grown")
        assert second.spec.min_resources
        assert second.spec.min_resources["cpu"] == "1500m"
        await c.client.patch(DEPLOYMENT, "web", {"spec": {"replicas": 0}}, "default")
        await c.until(kinds.POD_GROUP, PodGroup, lambda all_: not all_, "no group of no replicas")
        await c.client.patch(DEPLOYMENT, "web", {"spec": {"replicas": 2}}, "default")
        await c.until(kinds.POD_GROUP, PodGroup, lambda all_: len(all_) == 1, "its group again")
        await c.client.patch(DEPLOYMENT, "web", {"metadata": {"annotations": {names.GROUP_MIN_MEMBER: "2"}}}, "default")
        again = await group_of(c, await running(c, "web", 2))
        assert again.spec.min_member == 2


async def test_a_stateful_set_a_batch_job_and_a_daemon_set_run() -> None:
    async with cluster(nodes=2) as c:
        for kind, name, pods, spec in (
            (STATEFUL_SET, "set", template(), {"replicas": 2, "serviceName": "set"}),
            (BATCH_JOB, "batch", template(run="1s"), {"completions": 3, "parallelism": 3}),
            (DAEMON_SET, "daemon", template(cpu="100m"), {}),
        ):
            if kind is BATCH_JOB:
                pods["spec"]["restartPolicy"] = "Never"
            else:
                pods["metadata"]["labels"]["app"] = name
            manifest = workload(kind, name, pods, **spec)
            if kind is not BATCH_JOB:
                manifest["spec"]["selector"]["matchLabels"]["app"] = name
            await c.client.create(kind, manifest, namespace="default")
        done = await c.until(
            kinds.POD, Pod,
            lambda all_: sum(pod.status.phase == "Succeeded" for pod in all_.values()) == 3, "the job's pods done",
        )  # fmt: skip
        await group_of(c, [pod for name, pod in done.items() if name.startswith("batch")], "Completed")
        assert (await group_of(c, await running(c, "set", 2))).spec.min_member == 1
        assert (await group_of(c, await running(c, "daemon", 2))).spec.min_member == 1


async def test_a_group_waits_as_a_whole_and_its_pods_show_the_reason() -> None:
    async with cluster(nodes=1, node_resources="cpu=2,memory=8Gi,pods=20") as c:
        minimum = {names.GROUP_MIN_MEMBER: "3"}
        await c.client.create(
            DEPLOYMENT, workload(DEPLOYMENT, "web", template(), minimum, replicas=3), namespace="default"
        )
        await c.until(
            kinds.POD_GROUP, PodGroup, lambda all_: any(group.status.conditions for group in all_.values()), "a reason"
        )
        assert not [pod for pod in await c.pods("web") if pod.spec.node_name]


async def test_a_deleted_group_of_existing_pods_is_created_again() -> None:
    async with cluster() as c:
        await c.client.create(DEPLOYMENT, workload(DEPLOYMENT, "web", template(), replicas=2), namespace="default")
        group = await group_of(c, await running(c, "web", 2))
        await c.client.delete(kinds.POD_GROUP, group.metadata.name, "default")
        await c.group(group.metadata.name, lambda new: new.metadata.uid != group.metadata.uid, "again")


async def test_a_queue_that_refuses_the_group_is_reported_on_the_pod() -> None:
    async with cluster() as c:
        pod = {"apiVersion": "v1", "kind": "Pod", **template(annotations={"scheduling.volcano.sh/queue-name": "none"})}
        pod["metadata"]["name"] = "alone"
        await c.create(pod)
        (reported, *_) = await c.events("alone", "FailedCreate")
        assert "none" in reported.message
        await c.create({"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", "metadata": {"name": "none"}})
        await running(c, "alone", 1)


async def test_objects_created_during_downtime_run_afterwards() -> None:
    async with cluster() as c:
        c.local.stop("controllers")
        await c.client.create(DEPLOYMENT, workload(DEPLOYMENT, "web", template(), replicas=2), namespace="default")
        await c.until(kinds.POD, Pod, lambda all_: len(all_) == 2, "two pods")
        await c.local.start_controllers()
        await group_of(c, await running(c, "web", 2))


async def test_pods_of_jobs_and_of_other_schedulers_get_no_group_of_ours() -> None:
    async with cluster() as c:
        plain = template()
        plain["spec"].pop("schedulerName")
        await c.client.create(DEPLOYMENT, workload(DEPLOYMENT, "web", plain, replicas=2), namespace="default")
        await c.create(job_manifest("job", replicas=2, run="never"))
        await c.job("job", "Running")
        await running(c, "web", 2)
        names_ = {group.metadata.name for group in await c.client.list(kinds.POD_GROUP, "default")}
        assert [name.rpartition("-")[0].startswith("job") for name in names_] == [True]


async def test_a_cluster_may_go_by_other_names() -> None:
    """Jobs that name no scheduler get the first name; pods under any of them are bound, in groups."""
    async with cluster(scheduler_name=("first", "second")) as c:
        job = job_manifest("job", replicas=1, run="never")
        job["spec"].pop("schedulerName", None)
        await c.create(job)
        await c.job("job", "Running")
        assert {pod.spec.scheduler_name for pod in await c.pods("job")} == {"first"}
        for name in ("second", "volcano"):
            pod = {"apiVersion": "v1", "kind": "Pod", **template()}
            pod["metadata"]["name"] = pod["spec"]["schedulerName"] = name
            await c.create(pod)
        await running(c, "second", 1)
        (foreign_pod,) = await c.pods("volcano")
        assert names.GROUP_NAME not in foreign_pod.metadata.annotations
