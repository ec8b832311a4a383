"""A cluster with a data directory remembers jobs that their TTL deleted, also after another start."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.scenario.cluster.harness import job_manifest
from volcanoio.compose.local import LocalCluster
from volcanoio.compose.options import LocalOptions
from volcanoio.kube.client import Client
from volcanoio.model import kinds
from volcanoio.runtime.accounting.history_store import read_history


def options(data: Path) -> LocalOptions:
    return LocalOptions.parse(nodes=1, data=data, memory=False, speed=math.inf)


async def test_a_job_that_its_ttl_deleted_is_in_the_history(tmp_path: Path) -> None:
    async with LocalCluster(options(tmp_path)) as running:
        manifest = job_manifest("train", replicas=2, run="90s")
        manifest["spec"]["ttlSecondsAfterFinished"] = 5
        await running.submit(manifest)
        client, waited = Client(running.transport), 0
        while await client.list(kinds.JOB, "default"):
            await running.clock.sleep(1.0)
            waited += 1
            assert waited < 600
    (job,) = read_history(tmp_path / "history.sqlite", with_places=True)
    assert (job.name, job.owner, job.queue, job.phase) == ("train", "volcanoio", "default", "Completed")
    assert job.exit_code == 0
    assert job.pods == 2
    assert len(job.places) == 2
    assert job.run_time == pytest.approx(90, abs=3)
    assert job.pod_seconds == pytest.approx(180, abs=3)
    async with LocalCluster(options(tmp_path)):
        pass
    assert read_history(tmp_path / "history.sqlite", with_places=True) == [job]
