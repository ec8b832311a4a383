"""`namespace_quota`: gangs whole or not at all, in order, with their place; what is freed wakes the next."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod

_CAPS = "policies:\n- name: namespace_quota\n  arguments: {namespaces: {default: %s}}\n- name: declared\n"


@asynccontextmanager
async def capped(tmp_path: Path, caps: str, **options: Any) -> AsyncIterator[Cluster]:
    conf = tmp_path / "volcano-controller.conf"
    conf.write_text(_CAPS % caps)
    async with cluster(controller_conf=conf, **options) as c:
        yield c


async def waiting(c: Cluster, name: str, text: str) -> Job:
    jobs = await c.until(
        kinds.JOB, Job, lambda all_: name in all_ and text in all_[name].status.state.message, f"{name}: {text}"
    )
    return jobs[name]


def since(job: Job, phase: str) -> str:
    """When the job entered a phase."""
    return next(each.last_transition_time or "" for each in job.status.conditions if each.status == phase)


async def test_a_gang_is_created_whole_and_freed_quota_wakes_the_next(tmp_path: Path) -> None:
    async with capped(tmp_path, "{cpu: 5}") as c:
        await c.create(job_manifest("first", replicas=3, run="60s"))
        await c.job("first", "Running")
        await c.create(job_manifest("second", replicas=3, run="60s"))
        await c.create(job_manifest("third", replicas=2, run="60s"))
        held = await waiting(c, "second", "place 1 in line")
        assert "needs cpu 3 at once; free: cpu 2 of cpu 5" in held.status.state.message
        assert held.status.state.reason == "Hold"
        await waiting(c, "third", "place 2 in line")  # it would fit, but it is not its turn
        assert await c.pods("second") == []
        assert await c.pods("third") == []
        groups = await c.client.list(kinds.POD_GROUP, "default")
        assert [group.metadata.name.rpartition("-")[0].startswith("first") for group in groups] == [True]
        await c.client.delete(kinds.JOB, "first", "default")
        await c.job("second", "Running")
        third = await c.job("third", "Running")
        assert third.status.state.message == ""


async def test_the_higher_priority_goes_first_and_nothing_ever_exceeds_the_cap(tmp_path: Path) -> None:
    async with capped(tmp_path, "{pods: 2}") as c:
        high: Manifest = {
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000,
        }  # fmt: skip
        await c.create(high)
        await c.create(job_manifest("a", replicas=2, run="30s"))
        await c.job("a", "Running")
        await c.create(job_manifest("b", replicas=2, run="30s"))
        await waiting(c, "b", "place 1")
        await c.create(job_manifest("c", replicas=2, run="30s", priorityClassName="high"))
        await waiting(c, "c", "place 1")
        done = [await c.job(name, "Completed") for name in ("a", "c", "b")]
        started = [since(job, "Running") for job in done]
        assert started == sorted(started)


async def test_pods_beyond_the_gang_are_made_as_they_fit(tmp_path: Path) -> None:
    async with capped(tmp_path, "{pods: 3}") as c:
        await c.create(job_manifest("elastic", replicas=5, minimum=2, run="20s"))
        job = await waiting(c, "elastic", "has what its gang needs")
        pods = await c.until(kinds.POD, Pod, lambda all_: len(all_) >= 3, "three pods")
        assert len(pods) == 3
        assert "free: pods 0" in job.status.state.message
        job = await c.job("elastic", "Completed")
        assert job.status.succeeded == 5


async def test_a_job_that_can_never_fit_reports_it_and_blocks_no_other(tmp_path: Path) -> None:
    async with capped(tmp_path, "{cpu: 4}") as c:
        await c.create(job_manifest("huge", replicas=9))
        await waiting(c, "huge", "can never have it: needs cpu 9, more than the cap of cpu 4")
        await c.create(job_manifest("small", replicas=2))
        await c.job("small", "Completed")


async def test_a_new_process_counts_the_same_and_keeps_the_order(tmp_path: Path) -> None:
    async with capped(tmp_path, "{cpu: 2}") as c:
        await c.create(job_manifest("a", replicas=2, run="never"))
        await c.job("a", "Running")
        for name in ("b", "c"):
            await c.create(job_manifest(name, replicas=2, run="never"))
        await waiting(c, "c", "place 2")
        c.local.stop("controllers")
        await c.client.delete(kinds.JOB, "a", "default")
        await c.local.start_controllers()
        await c.job("b", "Running")
        assert await c.pods("c") == []
        await waiting(c, "c", "place 1")


async def test_a_failed_pod_of_a_running_gang_precedes_waiting_jobs(tmp_path: Path) -> None:
    async with capped(tmp_path, "{cpu: 2}") as c:
        restart = [{"event": "PodFailed", "action": "RestartPod"}]
        fails = {names.FAIL_ATTEMPTS: "1"}
        await c.create(job_manifest("gang", replicas=2, run="30s", annotations=fails, policies=restart))
        await c.job("gang", "Running")
        await c.create(job_manifest("next", replicas=1))
        await waiting(c, "next", "place 1")
        gang = await c.job("gang", "Completed")
        assert gang.status.succeeded == 2
        then = await c.job("next", "Completed")
        assert since(then, "Running") >= since(gang, "Completed")
