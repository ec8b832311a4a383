"""`watchdog` reports failed, waiting and idle jobs once each, by Event, metric and webhook."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from tests.scenario.policies.hooks import Hook, webhook
from volcanoio.model import kinds, names
from volcanoio.model.batch import Job


def configured(tmp_path: Path, arguments: str) -> Path:
    conf = tmp_path / "volcano-controller.conf"
    conf.write_text(f"policies:\n- name: watchdog\n  arguments: {arguments}\n- name: declared\n")
    return conf


def reporting(tmp_path: Path, hook: Hook, **options: Any) -> AbstractAsyncContextManager[Cluster]:
    return cluster(controller_conf=configured(tmp_path, f"{{webhook: '{hook.url}'}}"), **options)


async def alerts(c: Cluster) -> list[str]:
    text = (await c.local.probe.render()).decode()
    return [line for line in text.splitlines() if line.startswith("volcanoio_policy_alerts_total")]


async def test_a_failed_job_is_reported_once_also_by_a_webhook_that_fails_at_first(tmp_path: Path) -> None:
    async with webhook(failures=2) as hook, reporting(tmp_path, hook) as c:
        await c.create(job_manifest("job", annotations={names.EXIT_CODE: "1"}))
        await c.job("job", "Failed")
        (event,) = await c.events("job", "JobFailed")
        assert event.type == "Warning"
        assert "job default/job failed after 0 retries, 1 pod failed" in event.message
        await hook.heard()
        await c.until(
            kinds.JOB, Job, lambda all_: '"webhook"' not in all_["job"].status.controlled_resources[names.ALERTS],
            "reported and stored",
        )  # fmt: skip
        c.local.stop("controllers")
        await c.local.start_controllers()
        await c.create(job_manifest("fine"))
        await c.job("fine", "Completed")
        assert [reported["alert"] for reported in hook.reported] == ["JobFailed"]
        assert hook.reported[0]["job"]["name"] == "job"
        assert hook.attempts == 3
        (line,) = await alerts(c)
        assert 'policy="watchdog"' in line


async def test_a_webhook_that_was_not_called_is_called_by_the_next_process(tmp_path: Path) -> None:
    async with webhook(failures=1) as hook, reporting(tmp_path, hook, speed=1.0) as c:
        await c.create(job_manifest("job", run="0s", annotations={names.EXIT_CODE: "1"}))
        await c.events("job", "JobFailed")
        c.local.stop("controllers")
        await c.local.start_controllers()
        await hook.heard()
        assert [reported["alert"] for reported in hook.reported] == ["JobFailed"]


async def test_a_job_that_waits_too_long_causes_an_alert(tmp_path: Path) -> None:
    async with cluster(nodes=1, speed=100.0, controller_conf=configured(tmp_path, "{waiting: 60s}")) as c:
        await c.create(job_manifest("full", cpu="4", run="never"))
        await c.job("full", "Running")
        await c.create(job_manifest("job", cpu="5"))
        (event,) = await c.events("job", "JobWaiting")
        assert "has been waiting for more than 1m0s; queue resource quota insufficient" in event.message


async def test_a_job_that_uses_little_of_its_requests_causes_an_alert(tmp_path: Path) -> None:
    conf = configured(tmp_path, "{share: 0.2, after: 20s}")
    async with cluster(controller_conf=conf) as c:
        idle = {names.KWOK_USAGE_CPU: "50m", names.KWOK_USAGE_MEMORY: "1Gi"}
        await c.create(job_manifest("idle", run="never", annotations=idle))
        await c.create(job_manifest("busy", run="never", annotations={names.KWOK_USAGE_CPU: "900m"}))
        (event,) = await c.events("idle", "JobUsesLittle")
        assert "uses 5 % of its cpu, less than 20 %" in event.message
        job = await c.job("busy", "Running")
        assert names.ALERTS not in job.status.controlled_resources
