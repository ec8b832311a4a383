"""Why a native group waits, by its conditions alone: for users who may read one namespace only."""

from __future__ import annotations

import pytest

from tests.scenario.look.world import World, world
from volcanoio.compose.live.conditions import waiting_by_conditions
from volcanoio.engine.scheduling.diagnosis.answers import Waiting
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.workloads import INITIALLY_SCHEDULED, QUEUE_PHASE, place_message

AT = "2026-01-01T00:00:00Z"


async def put_group(w: World, name: str, phase: str, scheduled: Manifest) -> None:
    """Create a native group of Workload w, as the scheduler has it in queue ml, and a pod of it."""
    counted = {"type": QUEUE_PHASE, "status": "True", "reason": phase, "message": place_message("ml", "volcano"),
               "lastTransitionTime": AT}  # fmt: skip
    condition = {"type": INITIALLY_SCHEDULED, "lastTransitionTime": AT, **scheduled}
    reference = {"workloadName": "w", "templateName": "t"}
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}, "workloadRef": reference}
    await w.make(kinds.NATIVE_POD_GROUP, name, {"spec": spec}, {"conditions": [counted, condition]})
    where = {"nodeName": "n1"} if scheduled["status"] == "True" else {}
    containers = [{"name": "main", "image": "busybox"}]
    body = {"spec": {"schedulingGroup": {"podGroupName": name}, "containers": containers, **where}}
    await w.make(kinds.POD, f"{name}-0", body, {"phase": "Running" if where else "Pending"})


@pytest.mark.parametrize("target", ["b", "podgroup.scheduling.k8s.io/b", "pod/b-0", "workload/w", "w"])
async def test_queue_phase_and_stage_are_those_that_the_scheduler_wrote(target: str) -> None:
    """A Workload means the group of it that waits."""
    async with world() as w:
        template = {"name": "t", "schedulingPolicy": {"gang": {"minCount": 1}}}
        await w.make(kinds.WORKLOAD, "w", {"spec": {"podGroupTemplates": [template]}})
        await put_group(w, "a", "Running", {"status": "True", "reason": "Scheduled", "message": ""})
        text = "1/1 tasks in gang unschedulable: queue ml has no room left for 1 of its tasks (queue ml: needs cpu 1)"
        await put_group(w, "b", "Inqueue", {"status": "False", "reason": "Unschedulable", "message": text})
        found: Waiting = await waiting_by_conditions(w.client, target, "default")
    assert (found.target, found.phase) == ("default/podgroup.scheduling.k8s.io/b", "Inqueue")
    assert found.diagnosis is not None
    assert (found.diagnosis.stage, found.diagnosis.code, found.diagnosis.queue) == ("queue", "QueueQuota", "ml")
