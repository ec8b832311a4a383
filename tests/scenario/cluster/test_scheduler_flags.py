"""The scheduler's flags in a whole cluster; that a replay needs them too is checked by the harness."""

from __future__ import annotations

from pathlib import Path

from tests.scenario.cluster.harness import cluster, job_manifest
from volcanoio.engine.scheduling.cluster.scope import Scope
from volcanoio.framework.scheduling.settings import FeatureGate
from volcanoio.model import kinds
from volcanoio.model.core import Pod

HOSTNAME = "kubernetes.io/hostname"
GATE = "scheduling.volcano.sh/queue-allocation-gate"
CAPACITY = """
actions: "allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: capacity
"""


async def test_only_selected_nodes_get_pods_as_their_labels_come_and_go() -> None:
    async with cluster(nodes=3, scope=Scope(node_selector=((HOSTNAME, "node-1"), ("batch", "yes")))) as c:
        await c.create(job_manifest("wide", replicas=10, run="1h"))
        await c.create(job_manifest("narrow", replicas=2, run="1h"))
        await c.job("narrow", "Running")
        assert {pod.spec.node_name for pod in await c.pods("narrow")} == {"node-1"}
        await c.client.patch(kinds.NODE, "node-2", {"metadata": {"labels": {"batch": "yes"}}})
        await c.job("wide", "Running")
        assert {pod.spec.node_name for pod in await c.pods("wide")} == {"node-1", "node-2"}


async def test_the_flag_disables_priority_classes() -> None:
    scope = Scope(excluded_resources=(kinds.PRIORITY_CLASS.resource,))
    async with cluster(nodes=1, scope=scope) as c:
        high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
        await c.create({**high, "value": 1000})
        await c.create(job_manifest("j", run="1h", priorityClassName="high"))
        await c.job("j", "Running")
        assert [job.priority for job in c.local.scheduler.scheduler.state.ledger.schedulable_jobs.values()] == [0]


async def test_the_default_queue_has_the_name_that_was_asked_for() -> None:
    async with cluster(nodes=1, default_queue="batch") as c:
        await c.queue("batch", lambda queue: queue.status.state == "Open", "Open")
        assert sorted(queue.metadata.name for queue in await c.client.list(kinds.QUEUE)) == ["batch", "root"]


async def test_pods_wait_behind_the_gate_of_queue_admission_until_their_queue_has_room(tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(CAPACITY)
    gates = frozenset({FeatureGate.QUEUE_ADMISSION})
    async with cluster(nodes=1, feature_gates=gates, scheduler_conf=conf) as c:
        small = {"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", "metadata": {"name": "small"}}
        await c.create({**small, "spec": {"capability": {"cpu": "1"}}})
        await c.queue("small", lambda queue: queue.status.state == "Open", "Open")
        await c.create(job_manifest("first", run="1h", queue="small", annotations={GATE: "true"}))
        await c.job("first", "Running")
        await c.create(job_manifest("second", run="1h", queue="small", annotations={GATE: "true"}))
        await c.until(kinds.POD, Pod, lambda pods: "second-task-0" in pods, "the pod of second")
        [waiting] = await c.pods("second")
        assert [gate.name for gate in waiting.spec.scheduling_gates] == [GATE]
        assert [(each.type, each.reason) for each in waiting.status.conditions] == [("PodScheduled", "SchedulingGated")]
        await c.client.delete(kinds.JOB, "first", "default")
        await c.job("second", "Running")
        [running] = await c.pods("second")
        assert running.spec.scheduling_gates == ()


async def test_without_the_feature_no_pod_is_gated() -> None:
    async with cluster(nodes=1) as c:
        await c.create(job_manifest("j", run="1h", annotations={GATE: "true"}))
        await c.job("j", "Running")
