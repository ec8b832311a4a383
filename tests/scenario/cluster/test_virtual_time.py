"""A cluster whose time skips every wait: a day of it, bounded in its own time."""

from __future__ import annotations

import asyncio
import math

import pytest

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.cli import nodes
from volcanoio.cli.terminal import CommandError
from volcanoio.kube.errors import NotFound
from volcanoio.model import kinds, names
from volcanoio.model.batch import Job
from volcanoio.model.core import Node, Pod

HOUR = 3600.0
JOBS = 12


async def test_a_day_of_jobs_fits_a_day() -> None:
    """Twelve gangs that fill the cluster run one after the other, two hours each."""
    async with cluster(speed=math.inf, nodes=2) as c:
        began = c.local.clock.now()
        for number in range(JOBS):
            await c.create(job_manifest(f"j{number}", replicas=2, cpu="8", run="2h"))
        await c.until(kinds.JOB, Job, lambda found: completed(found) == JOBS, "all jobs Completed")
        took = c.local.clock.now() - began
    assert JOBS * 2 * HOUR <= took < JOBS * 2 * HOUR + 0.5 * HOUR


def completed(found: dict[str, Job]) -> int:
    return sum(job.status.state.phase == "Completed" for job in found.values())


async def test_a_cluster_at_rest_does_not_hurry() -> None:
    async with cluster(speed=math.inf, nodes=2) as c:
        await c.create(job_manifest("long", run="never"))
        await c.job("long", "Running")
        await asyncio.sleep(0)
        jumps = c.local.clock.jumps  # type: ignore[union-attr]  # the clock of this speed
        for _ in range(50):
            await c.client.list(kinds.POD, "default")
        assert c.local.clock.jumps - jumps < 50  # type: ignore[union-attr]  # as above


async def test_a_policy_that_waits_an_hour_has_its_hour() -> None:
    """A delayed action is due by the cluster's clock."""
    policies = [{"event": "PodFailed", "action": "AbortJob", "timeout": "1h"}]
    manifest = job_manifest("patient", run="never", policies=policies)
    failing = job_manifest("x", run="1m", annotations={names.EXIT_CODE: "1"})["spec"]["tasks"][0]
    manifest["spec"]["tasks"].append({**failing, "name": "failing"})
    async with cluster(speed=math.inf, nodes=1) as c:
        began = c.local.clock.now()
        await c.create(manifest)
        await c.job("patient", "Aborted")
        took = c.local.clock.now() - began
    assert HOUR <= took < HOUR + 600


async def test_nodes_fail_drain_and_recover_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    async with cluster(nodes=2) as c:
        await c.create(job_manifest("stays", replicas=2, cpu="8", run="never"))
        await c.job("stays", "Running")
        await nodes.annotate(c.client, ["node-0"], nodes.failure_annotations("1h"), "fails")
        await nodes.annotate(c.client, ["node-1"], nodes.DRAIN_ANNOTATIONS, "drains")
        await c.until(
            kinds.NODE, Node, lambda all_: all_["node-1"].spec.unschedulable if "node-1" in all_ else False, "a cordon"
        )
        await nodes.show(c.client)
        shown = capsys.readouterr().out
        assert "node/node-0 fails" in shown
        assert "fails at" in shown
        assert "Ephemeral-Storage" in shown
        assert "100Gi" in shown
        assert "SchedulingDisabled" in shown
        await nodes.annotate(c.client, ["node-0"], nodes.RECOVERY_ANNOTATIONS, "recovers")
        await nodes.uncordon(c.client, ["node-1"])
        await c.job("stays", "Running")
        await refused(c)


async def refused(c: Cluster) -> None:
    """What cannot be done is said before anything is changed."""
    with pytest.raises(CommandError, match='there is no node "nope"; there are: node-0, node-1'):
        await nodes.annotate(c.client, ["node-0", "nope"], nodes.failure_annotations(""), "fails")
    assert names.NODE_NOT_READY_AT not in (await c.client.get(kinds.NODE, "node-0")).metadata.annotations
    await c.client.create(kinds.NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real"}})
    with pytest.raises(CommandError, match='node "real" is not a simulated one'):
        await nodes.annotate(c.client, ["real"], nodes.failure_annotations(""), "fails")
    with pytest.raises(NotFound):
        await c.client.get(kinds.NODE, "nope")


@pytest.mark.parametrize(
    ("call", "reported"),
    [
        (lambda: nodes.failure_annotations("soon"), "--for: 'soon' is not a duration"),
        (lambda: nodes.failure_annotations("0s"), "--for: '0s' must be more than 0"),
        (lambda: nodes.flap_annotations("1m", "2m"), "--for: 2m must be less than --every 1m"),
    ],
)
def test_durations_are_checked(call: object, reported: str) -> None:
    assert callable(call)
    with pytest.raises(CommandError) as raised:
        call()
    assert reported in str(raised.value)


async def test_a_node_that_fails_is_noticed_and_its_pods_are_evicted_after_five_minutes() -> None:
    async with cluster(speed=math.inf, nodes=2) as c:
        began = c.local.clock.now()
        await c.create(job_manifest("moves", cpu="8", run="never", policies=[{"event": "*", "action": "RestartJob"}]))
        await c.job("moves", "Running")
        (pod,) = await c.pods("moves")
        await nodes.annotate(c.client, [pod.spec.node_name], nodes.failure_annotations("1h"), "fails")
        await c.until(kinds.NODE, Node, lambda all_: _ready(all_, pod.spec.node_name) == "Unknown", "Unknown")
        await c.until(
            kinds.POD, Pod, lambda all_: any(p.metadata.deletion_timestamp for p in all_.values()), "an eviction"
        )
        assert 350 <= c.local.clock.now() - began < 600


def _ready(all_: dict[str, Node], name: str) -> str:
    node = all_.get(name)
    return next((c.status for c in node.status.conditions if c.type == "Ready"), "") if node is not None else ""


async def test_a_pod_that_waits_for_others_does_not_make_time_hurry() -> None:
    """A pod that waits for a user (a ConfigMap, an image, room) is waited for in real time."""
    async with cluster(speed=math.inf, nodes=1) as c:
        volume = {"name": "v", "configMap": {"name": "missing"}}
        manifest = job_manifest("waits")
        manifest["spec"]["tasks"][0]["template"]["spec"]["volumes"] = [volume]
        await c.create(manifest)
        await c.create(job_manifest("big", cpu="100"))
        await c.create(job_manifest("imageless", annotations={names.IMAGE_PULL: "error"}))
        await c.events("waits-task-0", "FailedMount")
        before = c.local.clock.now()
        for _ in range(50):
            await c.client.list(kinds.POD, "default")
        assert c.local.clock.now() - before < 60
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "missing"}}
        await c.client.create(kinds.CONFIG_MAP, config, namespace="default")
        await c.job("waits", "Completed")
