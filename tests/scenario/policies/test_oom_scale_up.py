"""`oom_scale_up`: a killed task comes back with more, it costs no retry, and its namesake has learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.framework.overrides import stored_overrides
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup

_ON = {names.POLICIES: "oom_scale_up"}


def hungry(name: str, peak: str, limit: str, *, arguments: str = "", replicas: int = 1, **spec: Any) -> Manifest:
    """A job whose containers reach `peak`; it names the policy itself."""
    manifest = job_manifest(name, replicas=replicas, annotations={names.PEAK_MEMORY: peak}, **spec)
    manifest["metadata"]["annotations"] = {
        **_ON,
        **({names.POLICY_ARGUMENTS + "oom_scale_up": arguments} if arguments else {}),
    }
    container = manifest["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "1", "memory": limit}, "limits": {"memory": limit}}
    return manifest


def memory(pod: Pod) -> tuple[object, object]:
    resources = pod.spec.containers[0].resources
    return resources.requests["memory"], resources.limits["memory"]


async def test_an_oomkilled_task_restarts_with_more_memory_without_a_retry() -> None:
    async with cluster() as c:
        manifest = hungry("job", "300Mi", "100Mi")
        other = job_manifest("x")["spec"]["tasks"][0]
        manifest["spec"]["tasks"].append({**other, "name": "other"})
        manifest["spec"]["minAvailable"] = 2
        await c.create(manifest)
        job = await c.job("job", "Completed")
        assert job.status.retry_count == 0
        (override,) = stored_overrides(job)
        assert (override.task, override.attempts) == ("task", 2)
        assert override.resources["main"].limits["memory"] == "400Mi"
        assert override.resources["main"].requests == {"cpu": "1", "memory": "400Mi"}
        pods = {pod.metadata.name: pod for pod in await c.pods()}
        assert memory(pods["job-task-0"]) == ("400Mi", "400Mi")
        assert "memory" not in pods["job-other-0"].spec.containers[0].resources.requests
        reported = await c.events("job", "Override")
        assert any("100Mi -> 200Mi" in event.message for event in reported)


async def test_min_resources_follow_and_the_next_of_the_name_starts_with_what_was_learned() -> None:
    async with cluster() as c:
        await c.create(hungry("job", "150Mi", "100Mi", run="never"))
        groups = await c.until(
            kinds.POD_GROUP,
            PodGroup,
            lambda all_: any((g.spec.min_resources or {}).get("memory") == "200Mi" for g in all_.values()),
            "minResources of 200Mi",
        )
        assert groups
        await c.job("job", "Running")
        await c.client.delete(kinds.JOB, "job", "default")
        await c.until(kinds.JOB, Job, lambda jobs: not jobs, "no job")
        await c.until(kinds.POD, Pod, lambda pods: not pods, "no pods")
        await c.create(hungry("job", "150Mi", "100Mi"))
        job = await c.job("job", "Completed")
        (pod,) = await c.pods()
        assert memory(pod) == ("200Mi", "200Mi")
        assert [override.attempts for override in stored_overrides(job)] == [0]
        assert job.status.version == 0


async def test_the_cap_and_the_attempts_end_it() -> None:
    async with cluster() as c:
        await c.create(hungry("capped", "900Mi", "100Mi", arguments="{cap: 150Mi, factor: 1.5}"))
        await c.create(hungry("few", "900Mi", "100Mi", arguments="{attempts: 1}"))
        failed = await c.job("capped", "Failed")
        assert stored_overrides(failed)[0].resources["main"].limits["memory"] == "150Mi"
        assert any("cap is reached" in event.message for event in await c.events("capped", "OOMScaleUpExhausted"))
        failed = await c.job("few", "Failed")
        assert stored_overrides(failed)[0].resources["main"].limits["memory"] == "200Mi"


async def test_a_namespace_quota_bounds_it() -> None:
    async with cluster() as c:
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "small"},
            "spec": {"hard": {"requests.memory": "250Mi"}},
        }
        await c.create(quota)
        await c.create(hungry("job", "900Mi", "100Mi"))
        failed = await c.job("job", "Failed")
        assert stored_overrides(failed)[0].resources["main"].requests["memory"] == "250Mi"


async def test_a_wrong_argument_is_reported_on_the_job() -> None:
    async with cluster() as c:
        await c.create(hungry("job", "10Mi", "100Mi", arguments="{factor: 0.5}"))
        await c.job("job", "Completed")
        reported = await c.events("job", "PolicyFailed")
        assert any('"factor" must be more than 1' in event.message for event in reported)


async def test_it_can_be_on_for_every_job(tmp_path: Path) -> None:
    conf = tmp_path / "volcano-controller.conf"
    conf.write_text("policies:\n- name: oom_scale_up\n  arguments: {action: RestartTask}\n- name: declared\n")
    async with cluster(controller_conf=conf) as c:
        manifest = hungry("job", "150Mi", "100Mi", replicas=2)
        del manifest["metadata"]["annotations"]
        await c.create(manifest)
        await c.job("job", "Completed")
        assert [memory(pod) for pod in await c.pods()] == [("200Mi", "200Mi")] * 2


async def kill_and_restart(c: Cluster) -> None:
    c.local.stop("controllers")
    await c.local.start_controllers()


async def test_a_controller_killed_meanwhile_does_not_apply_it_twice() -> None:
    async with cluster() as c:
        await c.create(hungry("job", "150Mi", "100Mi", run="never"))
        await c.until(kinds.JOB, Job, lambda jobs: bool(stored_overrides(jobs["job"])), "the value stored")
        await kill_and_restart(c)
        job = await c.job("job", "Running")
        (override,) = stored_overrides(job)
        assert (override.attempts, override.resources["main"].limits["memory"]) == (1, "200Mi")
        assert job.status.retry_count == 0
