"""Requests of pods as Kubernetes computes them, and shapes: pods that requests and rules do not distinguish."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.scheduling.harness import decoded
from volcanoio.engine.scheduling.cluster.pod_fields import name_index, observed_status
from volcanoio.engine.scheduling.cluster.shapes import DEFAULT_CPU, DEFAULT_MEMORY, Shapes
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.model.core import Pod

GI = 1024**3


def made(**spec: Any) -> Pod:
    struct = decoded({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    assert isinstance(struct, Pod)
    return struct


def container(name: str = "c", **requests: str) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests}}


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        ({"containers": [container(cpu="1"), container(cpu="500m", memory="1Gi")]}, {"cpu": 1500, "memory": GI}),
        ({"containers": [container(cpu="1")], "initContainers": [container(cpu="3")]}, {"cpu": 3000}),
        (
            {
                "containers": [container(cpu="1")],
                "initContainers": [{**container(cpu="1"), "restartPolicy": "Always"}, container(cpu="2")],
            },
            {"cpu": 3000},
        ),
        (
            {
                "containers": [container(cpu="2")],
                "initContainers": [container(cpu="2"), {**container(cpu="1"), "restartPolicy": "Always"}],
            },
            {"cpu": 3000},
        ),
        ({"containers": [container(cpu="1")], "overhead": {"cpu": "250m"}}, {"cpu": 1250}),
        ({"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "4"}}}, {"cpu": 4000}),
        ({"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]}, {"nvidia.com/gpu": 2000}),
        ({"containers": [container(cpu="0")]}, {}),
    ],
)
def test_requests_of_a_pod_are_computed_as_in_kubernetes(spec: dict[str, Any], requests: dict[str, int]) -> None:
    shape = Shapes().of(made(**spec))
    assert shape.requests == {**requests, "pods": 1}
    assert shape.best_effort is (not requests)


def test_scorers_count_default_amounts_where_nothing_is_requested() -> None:
    shape = Shapes().of(made(containers=[container(), container(cpu="1")]))
    assert shape.nonzero_requests == {"cpu": 1000 + DEFAULT_CPU, "memory": 2 * DEFAULT_MEMORY}


def test_equal_pods_share_a_shape_and_different_ones_do_not() -> None:
    shapes = Shapes()
    first = shapes.of(made(containers=[{**container(cpu="1"), "image": "a"}]))
    assert shapes.of(made(containers=[{**container("other", cpu="1000m"), "image": "b"}])) is first
    assert shapes.of(made(containers=[container(cpu="1")], nodeSelector={"zone": "a"})) is not first
    assert shapes.of(made(containers=[container(cpu="1")], tolerations=[{"key": "k"}])) is not first
    assert [shape.id for shape in shapes.all] == [0, 1, 2]


@pytest.mark.parametrize(
    ("status", "node", "deleting", "expected"),
    [
        ("Pending", "", False, TaskStatus.PENDING),
        ("", "", False, TaskStatus.PENDING),
        ("Pending", "n1", False, TaskStatus.BOUND),
        ("Running", "n1", False, TaskStatus.RUNNING),
        ("Running", "n1", True, TaskStatus.RELEASING),
        ("Pending", "", True, TaskStatus.RELEASING),
        ("Succeeded", "n1", True, TaskStatus.SUCCEEDED),
        ("Failed", "n1", False, TaskStatus.FAILED),
        ("Unknown", "n1", False, TaskStatus.UNKNOWN),
        ("Unknown", "n1", True, TaskStatus.UNKNOWN),
    ],
)
def test_the_status_of_a_task_follows_phase_node_and_deletion(
    status: str, node: str, deleting: bool, expected: TaskStatus
) -> None:
    meta = {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {"name": "p"}
    struct = decoded(
        {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": node}, "status": {"phase": status}}
    )
    assert isinstance(struct, Pod)
    assert observed_status(struct) is expected


@pytest.mark.parametrize(("name", "index"), [("job-task-7", 7), ("job-7", float("inf")), ("a-b-c", float("inf"))])
def test_the_index_of_a_pod_is_the_number_at_the_end_of_its_name(name: str, index: float) -> None:
    assert name_index(name) == index
