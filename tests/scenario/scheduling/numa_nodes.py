"""Nodes with NUMA nodes, and pods that get CPUs exclusively."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import group, node, pod
from volcanoio.framework.scheduling.numa import format_cpus
from volcanoio.model.base import Manifest

POLICY = "volcano.sh/numa-topology-policy"
DECISION = "volcano.sh/topology-decision"
CONF = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: numa-aware}]
"""


def numa_node(
    name: str, policy: str = "single-numa-node", *, numa: int = 2, cpus: int = 4, **more: Any
) -> list[Manifest]:
    """Return a node of `numa` NUMA nodes of `cpus` CPUs, two to a core, and its Numatopology."""
    return [node(name, cpu=str(numa * cpus)), numatopology(name, policy, numa=numa, cpus=cpus, **more)]


def numatopology(
    name: str,
    policy: str = "single-numa-node",
    *,
    numa: int = 2,
    cpus: int = 4,
    free: str | None = None,
    manager: str = "static",
    reserved: str = "",
    allocations: dict[str, str] | None = None,
    version: str = "1",
) -> Manifest:
    """Return a Numatopology; `free` are the allocatable CPUs (all), `allocations` those of pods by name."""
    every = (1 << (numa * cpus)) - 1
    return {
        "apiVersion": "nodeinfo.volcano.sh/v1alpha1",
        "kind": "Numatopology",
        "metadata": {"name": name, "uid": f"numa-{name}", "resourceVersion": version},
        "spec": {
            "policies": {"CPUManagerPolicy": manager, "TopologyManagerPolicy": policy},
            "resReserved": {"cpu": reserved} if reserved else {},
            "numares": {"cpu": {"allocatable": format_cpus(every) if free is None else free, "capacity": numa * cpus}},
            "cpuDetail": {
                str(cpu): {"numa": cpu // cpus, "socket": cpu // cpus, "core": cpu // 2} for cpu in range(numa * cpus)
            },
            "podAllocations": [
                {"uid": f"ns-{pod}", "name": pod, "namespace": "ns",
                 "containerAllocations": [{"name": "main", "allocations": {"cpu": held}}]}
                for pod, held in (allocations or {}).items()
            ],
        },
    }  # fmt: skip


def fixed(name: str, job: str, *cpus: str, policy: str = "", **more: Any) -> Manifest:
    """Return a Guaranteed pod with a container for each amount of CPUs."""
    containers = []
    for number, amount in enumerate(cpus):
        listed = {"cpu": amount, "memory": "1Gi"}
        containers.append({"name": f"c{number}", "resources": {"requests": listed, "limits": listed}})
    marks = {**more.pop("annotations", {}), **({POLICY: policy} if policy else {})}
    return pod(name, job, annotations=marks, spec={"containers": containers}, **more)


def job(name: str, *pods_cpus: str, policy: str = "", minimum: int | None = None) -> list[Manifest]:
    """Return a PodGroup and its Guaranteed pods, one for each amount of CPUs."""
    pods = [fixed(f"{name}-{number}", name, cpus, policy=policy) for number, cpus in enumerate(pods_cpus)]
    return [group(name, len(pods) if minimum is None else minimum), *pods]
