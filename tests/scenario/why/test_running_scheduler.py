"""`volcanoio why`, `simulate --live` and `snapshot save --live` against the scheduler of a running cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.commands import run, run_aside
from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from tests.scenario.cluster.preemptors import CONF, high
from volcanoio.compose.live.conditions import evictions_by_events, waiting_by_conditions
from volcanoio.engine.scheduling.diagnosis.answers import UnknownTargetError
from volcanoio.localcluster.apiserver.http.faults import Faults, Rule


async def command(c: Cluster, *words: str) -> tuple[int, str, str]:
    """Run a command on the cluster; return exit code, output and errors."""
    environment = {"KUBECONFIG": str(c.local.kubeconfig), "PATH": "", "HOME": "/nonexistent"}
    done = await run_aside(*words, program="volcanoio", environment=environment)
    return done.code, done.out, done.err


async def shown(c: Cluster, *words: str) -> Any:
    """Run a command with -o json on the cluster; return what it printed."""
    code, out, err = await command(c, *words, "-o", "json")
    assert code == 0, err
    return json.loads(out)


async def test_the_running_scheduler_is_asked_and_remedies_are_tried_on_its_snapshot(tmp_path: Path) -> None:
    async with cluster(speed=0.2, nodes=2) as c:
        await c.create(job_manifest("wide", replicas=2, cpu="5", run="10m"))
        await c.job("wide", "Running")
        await c.create(job_manifest("late", replicas=2, minimum=1, cpu="6"))
        await c.job("late", "Pending")
        _, out, err = await command(c, "why", "late")
        assert "note: answered by the running scheduler, after cycle" in err
        assert "after any one of these; each was tried on a copy of the state" in out
        assert "the end of default/wide-" in out
        found = await shown(c, "why", "late", "--no-remedies")
        assert (found["source"], found["remedies"]) == ("scheduler", [])
        there = await shown(c, "why", "late", "--offline", "--no-remedies")
        assert there["source"] == "cycle"
        assert there["diagnosis"]["code"] == found["diagnosis"]["code"]
        assert (await command(c, "why", "queue/default"))[1].startswith("queue/default is Open; 1 job waiting in it")
        assert (await command(c, "why", "nothing"))[0] == 2
        file = str(tmp_path / "state.json")
        assert (await command(c, "snapshot", "save", file, "--live"))[0] == 0
        content = await anyio.Path(file).read_text()
        assert json.loads(content)["items"][0]["kind"] == "SchedulerMemory"
        live = await shown(c, "simulate", "--live")
    saved = run("simulate", "-f", file, "-o", "json")
    assert json.loads(saved.out)["taskStatus"] == live["taskStatus"]


async def test_a_job_that_has_ended_does_not_wait() -> None:
    async with cluster(nodes=1) as c:
        await c.create(job_manifest("report"))
        await c.job("report", "Completed")
        assert (await command(c, "why", "report"))[:2] == (0, "default/report does not wait: it is Completed.\n")
        code, _, err = await command(c, "why", "node/n1")
        assert (code, '"node" is no kind that waits' in err, "Traceback" in err) == (2, True, False)


async def test_evictions_are_followed_to_the_job_that_profits(tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(CONF, encoding="utf-8")
    async with cluster(nodes=1, node_resources="cpu=8,memory=32Gi,pods=110", scheduler_conf=conf) as c:
        await c.create(high())
        await c.create(job_manifest("low", replicas=4, minimum=1, cpu="2", run="never"))
        await c.job("low", "Running")
        urgent = job_manifest("urgent", replicas=2, cpu="2", run="never")
        urgent["spec"]["priorityClassName"] = "high"
        await c.create(urgent)
        await c.job("urgent", "Running")
        code, out, _ = await command(c, "why", "--evicted", "low")
        assert code == 0
        assert "default/low-task-3 was evicted from node-0 at " in out
        assert "preempt: pods of lower priority make room for a job of their queue" in out
        assert "queue default, priority 1000; its pods are nominated for node-0" in out
        assert "is Running: 2 of 2 needed pods have a node, 0 are pending" in out
        assert "1 other pod in the same decision" in out
        found = await shown(c, "why", "--evicted", "pod/low-task-3")
        assert [each["pod"] for each in found] == ["default/low-task-3"]
        assert "No eviction of urgent" in (await command(c, "why", "--evicted", "urgent"))[1]
        by_events = await evictions_by_events(c.client, "low", "default")
        assert {(each.pod, each.action) for each in by_events} == {
            ("default/low-task-2", "preempt"),
            ("default/low-task-3", "preempt"),
        }
        await c.create(job_manifest("lo", cpu="99"))
        assert await evictions_by_events(c.client, "lo", "default") == ()
        by = by_events[0].by
        assert by is not None
        assert by.job.startswith("default/urgent-")
        assert (by.queue, by.priority) == ("default", 1000)


async def test_without_the_rights_to_list_everything_conditions_are_read() -> None:
    faults = Faults()
    async with cluster(faults=faults, nodes=2) as c:
        await c.create(job_manifest("wide", cpu="9"))
        await c.job("wide", "Pending")
        pod = "wide-task-0"
        await c.events(pod, "FailedScheduling")
        faults.add(Rule("GET", "^/debug/", "status", code=403))
        faults.add(Rule("GET", "^/api/v1/(pods|nodes)$", "status", code=403))
        code, out, err = await command(c, "why", "wide")
        assert code == 0, err
        assert "the running scheduler cannot be asked: Lease volcano-system/volcano has no holder" in err
        assert "this is read from conditions alone: no place in the queue, no nearest node, no remedies" in err
        assert "2  Insufficient cpu" in out
        assert (await shown(c, "why", f"pod/{pod}"))["source"] == "conditions"
        with pytest.raises(UnknownTargetError, match="is in namespace default"):
            await waiting_by_conditions(c.client, "nothing", "default")
