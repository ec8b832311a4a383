"""Whole lives of jobs where something is short: room, an object that the pods need, an action of the scheduler."""

from __future__ import annotations

from pathlib import Path

from tests.scenario.cluster.harness import cluster, job_manifest
from volcanoio.model import kinds
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod

_FULL = "cpu=3,memory=8Gi,pods=20"


async def test_a_pod_of_a_job_that_fills_the_cluster_can_be_restarted_again_and_again() -> None:
    policies = [{"event": "PodEvicted", "action": "RestartPod"}]
    async with cluster(nodes=1, node_resources=_FULL) as c:
        await c.create(job_manifest("job", replicas=3, run="never", policies=policies))
        await c.job("job", "Running")
        for _ in range(3):
            before = (await c.pods("job-task-0"))[0].metadata.uid
            await c.client.delete(kinds.POD, "job-task-0", "default", grace=0)

            def successor_runs(pods: dict[str, Pod], before: str = before) -> bool:
                pod = pods.get("job-task-0")
                return pod is not None and pod.metadata.uid != before and pod.status.phase == "Running"

            await c.until(kinds.POD, Pod, successor_runs, "the successor running")
            await c.until(kinds.JOB, Job, lambda jobs: jobs["job"].status.running == 3, "three running")
        job = await c.job("job", "Running")
        assert (job.status.version, job.status.retry_count) == (0, 0)


async def test_a_missing_priority_class_is_why_the_job_waits_and_ends_the_wait_when_it_comes() -> None:
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
