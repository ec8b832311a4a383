"""A node never takes in more than it has."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.localcluster.nodes.pods.predicates import Usage, pod_requests
from volcanoio.model.core import Pod
from volcanoio.model.resources import amounts

NODE = amounts({"cpu": "8", "memory": "8Gi", "pods": "3", "ephemeral-storage": "2Gi", "nvidia.com/gpu": "2"})


def pod(**spec: Any) -> Pod:
    return msgspec.convert({"spec": spec}, Pod)


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("requests", "reason", "message"),
    [
        ({"cpu": "9"}, "OutOfcpu", "resource: cpu, requested: 9000, used: 0, capacity: 8000"),
        ({"memory": "9Gi"}, "OutOfmemory", "resource: memory, requested: 9663676416, used: 0, capacity: 8589934592"),
        ({"nvidia.com/gpu": "3"}, "OutOfnvidia.com/gpu", "nvidia.com/gpu, requested: 3, used: 0, capacity: 2"),
        ({"example.com/fpga": "1"}, "OutOfexample.com/fpga", "requested: 1, used: 0, capacity: 0"),
        (
            {"ephemeral-storage": "3Gi", "amd.com/gpu": "1"},
            "OutOfephemeral-storage", "ephemeral-storage, requested: 3221225472, used: 0, capacity: 2147483648",
        ),
        ({"cpu": "9", "pods": "4"}, "OutOfpods", "resource: pods, requested: 4, used: 0, capacity: 3"),
    ],
)  # fmt: skip
def test_refusal_is_worded_as_kubernetes_does(requests: dict[str, str], reason: str, message: str) -> None:
    rejection = Usage(NODE).admit("a", amounts(requests))
    assert rejection is not None
    assert rejection.reason == reason
    assert rejection.message.startswith("Node didn't have enough resource: ")
    assert rejection.message.endswith(message)


def test_a_full_node_refuses_until_a_pod_is_released() -> None:
    ledger = Usage(NODE)
    one = amounts({"cpu": "1"})
    assert ledger.admit("full", amounts({"cpu": "8"})) is None
    rejection = ledger.admit("late", one)
    assert rejection is not None
    assert rejection.message.endswith("cpu, requested: 1000, used: 8000, capacity: 8000")
    ledger.release("full")
    assert ledger.admit("late", one) is None


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container("1"), container("500m")]}, 1500),
        ({"containers": [container("1")], "initContainers": [container("3")]}, 3000),
        ({"containers": [container("2")], "initContainers": [container("1", restartPolicy="Always")]}, 3000),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("1", restartPolicy="Always"), container("4")],
            },
            5000,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, 2000),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}}, 4000),
    ],
    ids=[
        "containers add up",
        "an init container may need more",
        "a sidecar runs beside",
        "and beside later init containers",
        "overhead is on top",
        "a limit stands for a missing request",
        "pod-level requests replace the sum",
    ],
)
def test_requests_of_a_pod(spec: dict[str, Any], cpu: int) -> None:
    requests = pod_requests(pod(**spec))
    assert requests["cpu"] == cpu
    assert requests["pods"] == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["admit", "release"]),
            st.integers(0, 9),
            st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "pods"]), st.integers(0, 9000)),
        ),
        max_size=60,
    )
)
def test_never_over_allocatable(steps: list[tuple[str, int, dict[str, int]]]) -> None:
    ledger = Usage({"cpu": 8000, "memory": 5000, "nvidia.com/gpu": 4000, "pods": 3})
    held: dict[str, dict[str, int]] = {}
    for action, number, requests in steps:
        uid = str(number)
        if action == "admit":
            if ledger.admit(uid, requests) is None:
                held.setdefault(uid, requests)
        else:
            ledger.release(uid)
            held.pop(uid, None)
        for name, capacity in ledger.allocatable.items():
            used = sum(pod.get(name, 0) for pod in held.values())
            assert ledger.used.get(name, 0) == used <= capacity
