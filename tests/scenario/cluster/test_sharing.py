"""Two schedulers with a node zone each on one API server; a node moves between the zones while binds are in flight."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.compose.scheduler import SchedulerProcess, SchedulerSettings
from volcanoio.engine.scheduling.cluster.scope import Scope
from volcanoio.engine.scheduling.cluster.state import StateOptions
from volcanoio.localcluster.apiserver.http.faults import Faults, Rule
from volcanoio.model import kinds
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup
from volcanoio.runtime.api_metrics import REQUESTS, CountingTransport
from volcanoio.runtime.loading.registry import discover
from volcanoio.runtime.metrics import PrometheusProbe

ZONE, NAMES = "zone", ("sched-a", "sched-b")


def scope_of(zone: str) -> Scope:
    return Scope(node_selector=((ZONE, zone),))


async def put_into_zone(there: Cluster, name: str, zone: str) -> None:
    await there.client.patch(kinds.NODE, name, {"metadata": {"labels": {ZONE: zone}}})


@asynccontextmanager
async def two_schedulers() -> AsyncIterator[tuple[Cluster, PrometheusProbe]]:
    """Run the schedulers of zones a and b, with two nodes each; yields the cluster and what the second one counts.

    A bind takes a second of the cluster's. The scheduler of zone a is the cluster's own. Cluster scenarios fail when a
    node gets more than it has.
    """
    faults = Faults(Rule("POST", "/binding$", "delay", seconds=0.05))
    async with cluster(nodes=4, faults=faults, scope=scope_of("a"), scheduler_name=NAMES) as there:
        probe = PrometheusProbe(process=False)
        there.local.stop("scheduler")
        schedulers = [
            SchedulerProcess(
                CountingTransport(there.local.transport, probe, there.local.clock),
                clock=there.local.clock,
                settings=SchedulerSettings(
                    registry=discover(),
                    state=StateOptions(scheduler_names=frozenset({name}), scope=scope_of(name[-1])),
                ),
                probe=probe,
            )
            for name in NAMES
        ]
        async with anyio.create_task_group() as tasks:
            for number, zone in enumerate("aabb"):
                await put_into_zone(there, f"node-{number}", zone)
            for scheduler in schedulers:
                tasks.start_soon(scheduler.run)
                await scheduler.synced()
            yield there, probe
            tasks.cancel_scope.cancel()


async def bound(there: Cluster, scheduler: str, number: int) -> Counter[str]:
    """Return the nodes of a scheduler's pods, once so many are bound."""

    def are_bound(pods: dict[str, Pod]) -> bool:
        return number <= sum(bool(pod.spec.node_name) for pod in pods.values() if pod.spec.scheduler_name == scheduler)

    found = await there.until(kinds.POD, Pod, are_bound, f"{number} bound pods of {scheduler}")
    own = [pod for pod in found.values() if pod.spec.scheduler_name == scheduler]
    return Counter(pod.spec.node_name for pod in own if pod.spec.node_name)


async def test_a_node_moves_between_two_running_schedulers() -> None:
    async with two_schedulers() as (there, _):
        node = await there.client.get_raw(kinds.NODE, "node-0")
        per_node = int(node["status"]["allocatable"]["cpu"])
        wanted = 3 * per_node + 1
        for name in (*NAMES, "none-of-ours"):
            await there.create(job_manifest(name, replicas=wanted, minimum=1, run="1h", schedulerName=name))
        assert set(await bound(there, "sched-a", 1)) <= {"node-0", "node-1"}
        await put_into_zone(there, "node-1", "b")  # while binds of a are in flight
        await bound(there, "sched-b", 2 * per_node)
        await there.client.delete(kinds.JOB, "sched-a", "default")
        nodes = await bound(there, "sched-b", 3 * per_node)
        assert nodes["node-1"] == per_node, "what a had there is free again"
        await put_into_zone(there, "node-2", "a")
        await there.client.delete(kinds.JOB, "sched-b", "default")
        await there.until(kinds.JOB, Job, lambda jobs: set(jobs) == {"none-of-ours"}, "both Jobs gone")
        await there.create(job_manifest("again", replicas=wanted, minimum=1, run="1h", schedulerName="sched-a"))
        assert set(await bound(there, "sched-a", 2 * per_node)) == {"node-0", "node-2"}
        foreign = await there.pods("none-of-ours")
        assert foreign, "the PodGroup of a scheduler that admits none is admitted by one of ours"
        assert not any(pod.spec.node_name for pod in foreign), "but its pods are not bound"


async def test_schedulers_leave_the_podgroups_of_each_other_alone() -> None:
    async with two_schedulers() as (there, probe):
        for name in NAMES:
            await there.create(job_manifest(name, replicas=4, run="1h", schedulerName=name))
        for name in NAMES:
            await there.job(name, "Running")

        def run(groups: dict[str, PodGroup]) -> bool:
            return [group.status.running for group in groups.values() if group.status.phase == "Running"] == [4, 4]

        before = await there.until(kinds.POD_GROUP, PodGroup, run, "both PodGroups Running")
        await there.local.clock.sleep(5.0)
        assert before == {group.metadata.name: group for group in await there.client.list(kinds.POD_GROUP, "default")}
        labels = {"verb": "patch", "resource": kinds.POD_GROUP.resource, "subresource": "", "code": "200"}
        assert 0 < probe.value(REQUESTS, **labels) <= 12, "Inqueue, Running and how many run: a few writes for each"
