"""`min_runtime`: a pod is spared by the scheduler for a while, through the annotation that the cdp plugin heeds."""

from __future__ import annotations

from pathlib import Path

from tests.scenario.cluster.harness import cluster, job_manifest
from tests.scenario.cluster.preemptors import CONF, high
from volcanoio.model import names

_MINE = {names.POLICIES: "min_runtime", names.POLICY_ARGUMENTS + "min_runtime": "{duration: 60s}"}


async def test_a_young_pod_is_not_preempted_and_an_old_one_is(tmp_path: Path) -> None:
    scheduler = tmp_path / "volcano-scheduler.conf"
    scheduler.write_text(CONF.replace("  - name: gang\n", "  - name: gang\n  - name: cdp\n"))
    async with cluster(nodes=1, speed=60.0, scheduler_conf=scheduler) as c:  # of 8 cpus
        await c.create(high())
        low = job_manifest("low", replicas=4, minimum=1, cpu="2", run="never")
        low["metadata"]["annotations"] = dict(_MINE)
        await c.create(low)
        job = await c.job("low", "Running")
        assert job.metadata.annotations[names.COOLDOWN_TIME] == "1m0s"
        began = c.local.clock.now()
        await c.create(job_manifest("urgent", cpu="2", run="never", priorityClassName="high"))
        await c.job("urgent", "Running")
        assert c.local.clock.now() - began > 50


async def test_a_job_keeps_its_own_annotation() -> None:
    async with cluster() as c:
        manifest = job_manifest("job")
        manifest["metadata"]["annotations"] = {**_MINE, names.COOLDOWN_TIME: "5s"}
        await c.create(manifest)
        job = await c.job("job", "Completed")
        assert job.metadata.annotations[names.COOLDOWN_TIME] == "5s"
        (pod,) = await c.pods()
        assert pod.metadata.annotations[names.COOLDOWN_TIME] == "5s"
