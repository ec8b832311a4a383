"""Simulated nodes with NUMA nodes: which pods they refuse, and what they report."""

from __future__ import annotations

import msgspec
import pytest

from volcanoio.framework.scheduling.numa import TopologyPolicy
from volcanoio.localcluster.nodes.numa import CpuManager, NumaShape, NumaShapeError, parse_numa
from volcanoio.model.core import Pod

SINGLE = NumaShape(TopologyPolicy.SINGLE)


def pod(name: str, *cpus: str, policy: str = "") -> Pod:
    listed = [{"cpu": amount, "memory": "1Gi"} for amount in cpus]
    containers = [{"name": f"c{at}", "resources": {"limits": each}} for at, each in enumerate(listed)]
    meta = {"name": name, "namespace": "ns", "uid": name}
    return msgspec.convert({"metadata": meta, "spec": {"containers": containers}}, Pod)


def test_options() -> None:
    assert parse_numa("", 8) is None
    assert parse_numa("policy=restricted", 8) == NumaShape(TopologyPolicy.RESTRICTED, 2, 2)
    assert parse_numa("policy=none, nodes=4, threads=1", 8) == NumaShape(TopologyPolicy.NONE, 4, 1)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("nodes=2", "policy must be one of none, best-effort, restricted, single-numa-node; write for example policy="),
        ("policy=strict", "policy must be one of"),
        ("policy=none,policy=none", "may be given once, as NAME=VALUE; write for example"),
        ("policy=none,sockets=2", "each of policy, nodes, threads"),
        ("policy=none,nodes=0", "'nodes=0': it must be a number from 1 to 64"),
        ("policy=none,nodes=3", "8 CPUs cannot be divided into 3 NUMA nodes with 2 threads a core; change cpu of "),
    ],
)
def test_wrong_options_are_refused(text: str, rule: str) -> None:
    with pytest.raises(NumaShapeError) as refused:
        parse_numa(text, 8)
    assert rule in str(refused.value)


def test_cpus_are_assigned_reported_and_released() -> None:
    node = CpuManager(SINGLE, 8)
    assert node.admit(pod("a", "3", "2")) is None
    spec = node.report("n")["spec"]
    assert spec["podAllocations"] == [
        {
            "uid": "a",
            "name": "a",
            "namespace": "ns",
            "containerAllocations": [
                {"name": "c0", "allocations": {"cpu": "0-1,4"}},
                {"name": "c1", "allocations": {"cpu": "2,6"}},
            ],
        }
    ]
    assert spec["numares"]["cpu"]["allocatable"] == "3,5,7"
    assert spec["policies"] == {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node"}
    assert spec["cpuDetail"]["6"] == {"numa": 1, "socket": 1, "core": 2}
    node.release("a")
    assert node.report("n")["spec"]["numares"]["cpu"]["allocatable"] == "0-7"


def test_a_pod_that_cannot_be_aligned_is_refused() -> None:
    node = CpuManager(SINGLE, 8)
    refusal = node.admit(pod("a", "2", "5"))
    assert refusal is not None
    assert refusal == ("TopologyAffinityError", "Resources cannot be allocated with Topology locality")
    assert node.report("n")["spec"]["podAllocations"] == []


def test_missing_cpus_are_an_unexpected_admission_error() -> None:
    node = CpuManager(NumaShape(TopologyPolicy.BEST_EFFORT), 8)
    assert node.admit(pod("a", "6")) is None
    refusal = node.admit(pod("b", "3"))
    assert refusal is not None
    assert refusal.reason == "UnexpectedAdmissionError"
    assert refusal.message.endswith("to satisfy request: requested=3, available=2, which is unexpected")


def test_pods_without_exclusive_cpus_take_none() -> None:
    node = CpuManager(SINGLE, 8)
    assert node.admit(pod("a", "1500m")) is None
    assert node.report("n")["spec"]["numares"]["cpu"]["allocatable"] == "0-7"


def test_pods_of_an_earlier_process_get_cpus_again() -> None:
    node = CpuManager(SINGLE, 8)
    node.restore(pod("a", "6", "1"))
    assert node.report("n")["spec"]["numares"]["cpu"]["allocatable"].count(",") + 1 == 1
