"""Pods: who is given the scheduling gate of queue admission, and disruption budgets in annotations."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.admission.objects import SETTINGS, create, update
from volcanoio.engine.admission.request import Operation, ReviewRequest
from volcanoio.engine.admission.review import review
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.runtime.webhooks.reviewer import Snapshot

GATE = "scheduling.volcano.sh/queue-allocation-gate"


def pod(annotation: str = "true", **spec: Any) -> Manifest:
    containers = [{"name": "main", "image": "busybox"}]
    return {
        "metadata": {"name": "p", "namespace": "ns", "annotations": {GATE: annotation}},
        "spec": {"schedulerName": "volcano", "containers": containers, **spec},
    }


def gates(manifest: Manifest, schedulers: tuple[str, ...] = ("volcano",)) -> list[str]:
    request = ReviewRequest(
        operation=Operation.CREATE, resource=kinds.POD.resource, name="p", namespace="ns", object=manifest
    )
    answer = review(request, Snapshot([]), replace(SETTINGS, gated_schedulers=schedulers))
    assert answer.allowed
    assert answer.object is not None
    return [gate["name"] for gate in answer.object["spec"].get("schedulingGates", [])]


@pytest.mark.parametrize(
    ("manifest", "schedulers", "expected"),
    [
        pytest.param(pod(), ("volcano",), [GATE], id="a pod that asks for it"),
        pytest.param(pod(), (), [], id="the feature is off"),
        pytest.param(pod("false"), ("volcano",), [], id="the annotation is not true"),
        pytest.param(pod(schedulerName="other"), ("volcano",), [], id="its scheduler would never remove the gate"),
        pytest.param(pod(schedulingGates=[{"name": "a"}]), ("volcano",), ["a", GATE], id="after gates of its own"),
        pytest.param(pod(schedulingGates=[{"name": GATE}]), ("volcano",), [GATE], id="it has the gate already"),
        pytest.param({**pod(), "metadata": {"name": "p"}}, ("volcano",), [], id="no annotations"),
    ],
)
def test_the_gate_is_given_to(manifest: Manifest, schedulers: tuple[str, ...], expected: list[str]) -> None:
    assert gates(manifest, schedulers) == expected


MIN, MAX = "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"


def budgeted(scheduler: str = "volcano", **annotations: str) -> Manifest:
    keys = {"least": MIN, "most": MAX, "job": "volcano.sh/job-name"}
    made = pod(schedulerName=scheduler)
    made["metadata"]["annotations"] = {keys[name]: value for name, value in annotations.items()}
    return made


@pytest.mark.parametrize(
    ("manifest", "fields"),
    [
        (budgeted(least="1"), []),
        (budgeted(most="99%"), []),
        (budgeted(least="0"), [MIN]),
        (budgeted(least="100%"), [MIN]),
        (budgeted(most="-1"), [MAX]),
        (budgeted(most="many"), [MAX]),
        (budgeted(least="1", most="1"), [MAX]),
        (budgeted("other", least="0"), []),
        (budgeted(least="0", job="j"), []),
    ],
)
def test_budgets_are_positive_numbers_or_percentages(manifest: Manifest, fields: list[str]) -> None:
    messages = create(kinds.POD, manifest).messages
    assert [message.partition(": ")[0] for message in messages] == [
        f"metadata.annotations[{field}]" for field in fields
    ]


def test_a_stored_budget_may_stay() -> None:
    old = budgeted(least="0")
    assert update(kinds.POD, old, {**old, "spec": {**old["spec"], "priority": 1}}).allowed
    assert not update(kinds.POD, budgeted(least="1"), old).allowed
