"""A gang of high priority on a full cluster: it runs in the place of others, which come back after it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from tests.scenario.cluster.preemptors import CONF, high
from volcanoio.framework.events import Change, Event, Observed
from volcanoio.model import kinds, names
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod
from volcanoio.model.packaged import config_path


class Witness:
    """What became of pods by job: whom it saw terminating with which conditions, and nominated for which node."""

    def __init__(self) -> None:
        self.ended: dict[str, tuple[str, set[tuple[str, str]]]] = {}
        self.nominated: dict[str, str] = {}
        self.nodes: dict[str, str] = {}

    def fold(self, batch: Iterable[Event]) -> None:
        """Look at every version of every pod."""
        for event in batch:
            if isinstance(event, Observed) and isinstance(event.object, Pod):
                self._look(event.object, event.change)

    def _look(self, pod: Pod, change: Change) -> None:
        job, uid = pod.metadata.annotations.get(names.JOB_NAME, ""), pod.metadata.uid
        if pod.metadata.deletion_timestamp and change is not Change.GONE:
            self.ended[uid] = job, {(entry.type, entry.reason) for entry in pod.status.conditions}
        if pod.status.nominated_node_name:
            self.nominated[uid] = pod.status.nominated_node_name
        self.nodes[uid] = pod.spec.node_name

    def evicted(self) -> Counter[str]:
        """How many pods of which job were evicted."""
        return Counter(
            job
            for job, conditions in self.ended.values()
            if ("DisruptionTarget", "PreemptionByScheduler") in conditions
        )


async def _preempted(c: Cluster, **low: Any) -> None:
    """A job of four on all eight CPUs of the node, then one of two gangs' members of two that needs half of them."""
    await c.create(high())
    await c.create(job_manifest("low", replicas=4, cpu="2", run="never", **low))
    await c.job("low", "Running")
    await c.until(kinds.POD, Pod, lambda all_: sum(pod.status.phase == "Running" for pod in all_.values()) == 4, "four")
    manifest = job_manifest("urgent", replicas=2, cpu="2", run="30s")
    manifest["spec"]["priorityClassName"] = "high"
    await c.create(manifest)
    await c.job("urgent", "Running")


@pytest.mark.parametrize("policies", [[], [{"event": "PodEvicted", "action": "RestartJob"}]])
async def test_a_gang_of_high_priority_runs_and_its_victims_come_back(tmp_path: Path, policies: list[Any]) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(CONF, encoding="utf-8")
    witness = Witness()
    async with (
        cluster(nodes=1, node_resources="cpu=8,memory=32Gi,pods=110", scheduler_conf=conf) as c,
        c.local.observing((kinds.POD,), witness.fold),
    ):
        low = {"policies": policies} if policies else {}
        await _preempted(c, minimum=1, **low)
        assert witness.evicted() == {"low": 2}, "two, and no pod of the gang itself"
        assert len(witness.nominated) == 2
        assert all(witness.nodes[uid] == node for uid, node in witness.nominated.items())
        assert any(
            event.message.startswith("Pod is evicted, because of preempt (for default/urgent-")
            for event in await c.events("low-task-3", "Evict")
        )
        await c.job("urgent", "Completed")
        jobs = await c.until(
            kinds.JOB, Job, lambda all_: all_["low"].status.running == 4 if "low" in all_ else False, "all of low again"
        )
        assert jobs["low"].status.retry_count == 0, "an eviction counts as no retry"
        assert witness.evicted() == {"low": 2}


GANGS = CONF.replace("backfill, preempt", "backfill, gangpreempt")


async def test_a_gang_evicts_a_whole_gang_that_runs_again_afterwards(tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(GANGS, encoding="utf-8")
    witness = Witness()
    async with (
        cluster(nodes=1, node_resources="cpu=8,memory=32Gi,pods=110", scheduler_conf=conf) as c,
        c.local.observing((kinds.POD,), witness.fold),
    ):
        await _preempted(c, policies=[{"event": "PodEvicted", "action": "RestartJob"}])
        assert witness.evicted() == {"low": 4}, "half of a gang is of no use to it"
        assert len(witness.nominated) == 2
        assert all(witness.nodes[uid] == node for uid, node in witness.nominated.items())
        await c.job("urgent", "Completed")
        await c.until(
            kinds.JOB, Job, lambda all_: all_["low"].status.running == 4 if "low" in all_ else False, "all of low again"
        )
        assert witness.evicted() == {"low": 4}


def running(jobs: dict[str, Job]) -> dict[str, int]:
    return {name: job.status.running for name, job in jobs.items()}


async def test_a_borrowing_queue_gives_back_by_reclaim_until_the_weights_are_met() -> None:
    """config/examples/reclaim under config/scheduler/reclaim.conf: weights 1 and 3, 32 pods of one core each."""
    witness = Witness()
    async with (
        cluster(speed=math.inf, nodes=4, scheduler_conf=config_path("scheduler", "reclaim.conf")) as c,
        c.local.observing((kinds.POD,), witness.fold),
    ):
        await c.example("reclaim/1-borrower.yaml")
        await c.until(kinds.JOB, Job, lambda jobs: running(jobs) == {"borrower": 32}, "all borrowed")
        await c.example("reclaim/2-owner.yaml")
        await c.until(kinds.JOB, Job, lambda jobs: running(jobs) == {"borrower": 8, "owner": 24}, "by weight")
        owner = await c.job("owner", "Completed")
        await c.until(
            kinds.JOB, Job, lambda jobs: running(jobs) == {"borrower": 32, "owner": 0}, "all borrowed once more"
        )
    assert witness.evicted() == {"borrower": 24}
    assert owner.status.succeeded == 32
