"""Whole lives of jobs where something is short: room, an object that the pods need, an action of the scheduler."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from tests.scenario.cluster.harness import cluster, job_manifest
from volcanoio.framework.events import Event, Observed
from volcanoio.kube.requests import DeleteOptions
from volcanoio.model import kinds, names
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup

_FULL = "cpu=3,memory=8Gi,pods=20"


async def test_a_pod_of_a_job_that_fills_the_cluster_can_be_restarted_again_and_again() -> None:
    policies = [{"event": "PodEvicted", "action": "RestartPod"}]
    async with cluster(nodes=1, node_resources=_FULL) as c:
        await c.create(job_manifest("job", replicas=3, run="never", policies=policies))
        await c.job("job", "Running")
        for _ in range(3):
            before = (await c.pods("job-task-0"))[0].metadata.uid
            await c.client.delete(kinds.POD, "job-task-0", "default", DeleteOptions(grace=0))

            def successor_runs(pods: dict[str, Pod], before: str = before) -> bool:
                pod = pods.get("job-task-0")
                return pod is not None and pod.metadata.uid != before and pod.status.phase == "Running"

            await c.until(kinds.POD, Pod, successor_runs, "the successor running")
            await c.until(kinds.JOB, Job, lambda jobs: jobs["job"].status.running == 3, "three running")
        job = await c.job("job", "Running")
        assert (job.status.version, job.status.retry_count) == (0, 0)


async def test_a_deleted_pod_of_a_running_gang_is_replaced_and_the_gang_stays_running() -> None:
    """The pod takes a minute to stop. A job that aborts when its PodGroup is Unknown is not aborted."""
    phases: set[str] = set()

    def fold(batch: Iterable[Event]) -> None:
        for event in batch:
            if isinstance(event, Observed) and isinstance(event.object, PodGroup):
                phases.add(event.object.status.phase)

    manifest = job_manifest(
        "gang",
        replicas=3,
        run="never",
        policies=[{"event": "Unknown", "action": "AbortJob"}],
        annotations={names.STOP_DURATION: "60s"},
    )
    manifest["spec"]["tasks"][0]["template"]["spec"]["terminationGracePeriodSeconds"] = 90
    async with cluster(speed=math.inf, nodes=1, node_resources=_FULL) as c:
        await c.create(manifest)
        await c.job("gang", "Running")
        await c.until(kinds.JOB, Job, lambda jobs: jobs["gang"].status.running == 3, "three running")
        async with c.local.observing((kinds.POD_GROUP,), fold):
            before = (await c.pods("gang-task-0"))[0].metadata.uid
            deleted = c.local.clock.now()
            await c.client.delete(kinds.POD, "gang-task-0", "default")

            def successor_runs(pods: dict[str, Pod]) -> bool:
                pod = pods.get("gang-task-0")
                return pod is not None and pod.metadata.uid != before and pod.status.phase == "Running"

            await c.until(kinds.POD, Pod, successor_runs, "the successor running")
            took = c.local.clock.now() - deleted
            await c.until(kinds.JOB, Job, lambda jobs: jobs["gang"].status.running == 3, "three running again")
        job = await c.job("gang", "Running")
    assert phases == {"Running"}
    assert took >= 60.0
    assert (job.status.version, job.status.retry_count) == (0, 0)


async def test_jobs_applied_in_one_manifest_run_in_the_order_of_their_names() -> None:
    """Each fills the cluster. Their PodGroups are of the same second, or of two where the machine is slow."""
    names = ["bake", "eat", "knead", "mix", "rest", "sleep"]
    async with cluster(speed=math.inf, nodes=1, node_resources=_FULL) as c:
        for name in names:
            await c.create(job_manifest(name, cpu="3", run="1h"))
        groups = await c.until(kinds.POD_GROUP, PodGroup, lambda all_: len(all_) == len(names), "all PodGroups")
        created = sorted((group.metadata.creation_timestamp or "", group.metadata.name) for group in groups.values())
        for name in names:
            await c.job(name, "Completed")
        pods = sorted(await c.pods(), key=lambda pod: pod.status.start_time or "")
    started = [pod.metadata.name.removesuffix("-task-0") for pod in pods]
    assert started == [name.partition("-")[0] for _, name in created]


async def test_a_job_waits_for_a_missing_priority_class() -> None:
    async with cluster() as c:
        await c.create(job_manifest("job", replicas=2, priorityClassName="urgent"))
        jobs = await c.until(kinds.JOB, Job, lambda all_: bool(all_["job"].status.state.reason), "a reason")
        state = jobs["job"].status.state
        assert (state.phase, state.reason) == ("Pending", "FailedCreate")
        assert "no PriorityClass with name urgent was found" in state.message
        urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
        await c.client.create(kinds.PRIORITY_CLASS, {**urgent, "value": 1000})
        done = await c.job("job", "Completed")
        assert (done.status.state.reason, done.status.succeeded) == ("", 2)


async def test_jobs_run_where_no_enqueue_action_is_configured(tmp_path: Path) -> None:
    conf = tmp_path / "volcano-scheduler.conf"
    plugins = "- plugins:\n  - name: gang\n- plugins:\n  - name: predicates\n  - name: nodeorder\n"
    conf.write_text(f'actions: "allocate, backfill"\ntiers:\n{plugins}')
    async with cluster(scheduler_conf=conf) as c:
        await c.create(job_manifest("job", replicas=2))
        done = await c.job("job", "Completed")
        assert done.status.succeeded == 2
