"""Metrics of Jobs follow from stored Jobs and pods, and end with the Job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
import structlog.testing

from tests.unit.kube.scripted import Call, ScriptedTransport, answer, refusal
from tests.unit.runtime.virtual_time import VirtualClock
from volcanoio.engine.hosting.host import Host
from volcanoio.engine.jobs.controller import JobController
from volcanoio.framework.controller import ControllerContext
from volcanoio.framework.events import Change, Observed
from volcanoio.kube.client import Client
from volcanoio.kube.transport import Response
from volcanoio.model import kinds
from volcanoio.runtime.controllers.job_figures import COMPLETED, PHASE, REQUESTED, STARTED, UNUSED, USED, JobFigures
from volcanoio.runtime.metrics import PrometheusProbe

LABELS = {"job_name": "train", "job_namespace": "ns", "queue": "gold"}
EPOCH = 1767225600.0
"""2026-01-01T00:00:00Z."""


def job(phase: str, revision: int) -> dict[str, Any]:
    conditions = [{"status": "Pending", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    conditions.append({"status": "Running", "lastTransitionTime": "2026-01-01T00:00:05Z"})
    return {
        "metadata": {"name": "train", "namespace": "ns", "uid": "1", "resourceVersion": str(revision)},
        "spec": {"queue": "gold", "tasks": [{"name": "w", "replicas": 2}]},
        "status": {
            "state": {"phase": phase, "lastTransitionTime": "2026-01-01T00:01:00Z"},
            "conditions": conditions,
        },
    }


def pod(name: str, phase: str) -> dict[str, Any]:
    owner = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": "train", "uid": "1", "controller": True}
    requests = {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "1"}
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": name,
            "resourceVersion": "1",
            "ownerReferences": [owner],
            "annotations": {"volcano.sh/job-name": "train", "volcano.sh/task-spec": "w", "volcano.sh/job-version": "0"},
        },
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {"phase": phase},
    }


class World:
    """A host with one job, and a resource metrics API."""

    def __init__(self, usage: Mapping[str, dict[str, str]] | None) -> None:
        self.usage = usage
        self.body = b""
        """What the metrics API answers instead."""
        self.host = Host([JobController(ControllerContext())])
        self.probe = PrometheusProbe(process=False)
        self.transport = ScriptedTransport(self._answer)
        self.clock = VirtualClock()
        self.figures = JobFigures(self.host, Client(self.transport), probe=self.probe, clock=self.clock)
        self._seq = 0

    async def _answer(self, call: Call) -> Response:
        if self.usage is None:
            return refusal(404, "NotFound")
        if self.body:
            return Response(200, self.body)
        assert call.path == "/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods"
        items = [
            {"metadata": {"name": name, "namespace": "ns"}, "containers": [{"name": "c", "usage": used}]}
            for name, used in self.usage.items()
        ]
        return answer({"metadata": {}, "items": items})

    def observe(self, kind: kinds.Kind, content: dict[str, Any], change: Change = Change.CHANGED) -> None:
        self._seq += 1
        obj = kind.decode(msgspec.json.encode(content))
        self.host.handle(Observed(seq=self._seq, at=EPOCH, resource=kind.resource, change=change, object=obj))

    def series(self) -> set[str]:
        page = self.probe.page().decode().splitlines()
        return {line for line in page if line.startswith("volcanoio_job_")}


async def test_a_job_has_phase_times_and_amounts() -> None:
    world = World({"a": {"cpu": "250m", "memory": "256Mi"}})
    world.observe(kinds.JOB, job("Running", 1))
    world.observe(kinds.POD, pod("a", "Running"))
    world.observe(kinds.POD, pod("b", "Running"))
    world.observe(kinds.POD, pod("c", "Pending"))
    await world.figures.report()
    value = world.probe.value
    assert value(PHASE, phase="Running", **LABELS) == 1
    assert value(STARTED, **LABELS) == EPOCH + 5
    assert value(REQUESTED, resource="cpu", **LABELS) == 3
    assert value(REQUESTED, resource="memory", **LABELS) == 2 * 2**30
    assert value(REQUESTED, resource="nvidia.com/gpu", **LABELS) == 2
    assert value(USED, resource="cpu", **LABELS) == 0.25
    assert value(UNUSED, resource="cpu", **LABELS) == 1.25  # of the pod that has metrics
    assert value(UNUSED, resource="memory", **LABELS) == 2**30 * 3 / 4
    assert not any(COMPLETED in line for line in world.series())


async def test_without_the_metrics_api_a_job_has_no_usage() -> None:
    world = World(None)
    world.observe(kinds.JOB, job("Running", 1))
    world.observe(kinds.POD, pod("a", "Running"))
    await world.figures.report()
    await world.clock.advance(120)
    await world.figures.report()
    assert len(world.transport.calls) == 1
    assert not any(USED in line or UNUSED in line for line in world.series())
    assert world.probe.value(REQUESTED, resource="cpu", **LABELS) == 1.5


@pytest.mark.parametrize(
    "body",
    [
        b"<html>it works</html>",
        b'{"metadata":{},"items":[{"metadata":{"name":"a"},"containers":"none"}]}',
        b'{"metadata":[],"items":[]}',
        b"[" * 100_000,
    ],
    ids=["no JSON", "an item of another form", "a list of another form", "nested too deeply"],
)
async def test_an_answer_that_cannot_be_read_is_counted_and_reported_once(body: bytes) -> None:
    world = World({})
    world.observe(kinds.JOB, job("Running", 1))
    world.observe(kinds.POD, pod("a", "Running"))
    world.body = body
    with structlog.testing.capture_logs() as lines:
        await world.figures.report()
        await world.clock.advance(60)
        await world.figures.report()
    assert [line["log_level"] for line in lines] == ["warning"]
    resource = kinds.POD_METRICS.resource
    assert world.probe.value("volcanoio_undecodable_objects_total", resource=resource) == 2
    assert world.probe.value(REQUESTED, resource="cpu", **LABELS) == 1.5
    assert not any(USED in line for line in world.series())


async def test_series_end_with_their_phase_and_with_the_job() -> None:
    world = World({})
    world.observe(kinds.JOB, job("Running", 1))
    await world.figures.report()
    world.observe(kinds.JOB, job("Completed", 2))
    await world.figures.report()
    phases = [line for line in world.series() if line.startswith(PHASE)]
    assert len(phases) == 1
    assert 'phase="Completed"' in phases[0]
    assert world.probe.value(COMPLETED, **LABELS) == EPOCH + 60
    world.observe(kinds.JOB, job("Completed", 3), Change.GONE)
    await world.figures.report()
    assert world.series() == set()
