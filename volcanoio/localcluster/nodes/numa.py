"""NUMA nodes of simulated nodes: a CPU manager that assigns CPUs, and the Numatopology that reports them.

A node with a `NumaShape` refuses pods as a kubelet with the static CPU manager does (`framework.scheduling.numa`): with
TopologyAffinityError or UnexpectedAdmissionError. Its Numatopology is written a second after each change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import anyio
import msgspec

from volcanoio.framework.scheduling.numa import (
    CPU_MANAGER_POLICY,
    STATIC,
    TOPOLOGY_MANAGER_POLICY,
    AffinityError,
    CpuTopology,
    ShortageError,
    TopologyPolicy,
    assign,
    exclusive_cpus,
    format_cpus,
)
from volcanoio.kube.transport import ContentType, Transport, TransportError
from volcanoio.localcluster.clock import Clock
from volcanoio.localcluster.nodes.pods.predicates import PredicateFailure
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.kinds import NUMATOPOLOGY
from volcanoio.model.nodes import CpuDetail

REPORT_DELAY = 1.0
"""Seconds between a change and the report, in which further changes are collected."""
_KEYS = ("policy", "nodes", "threads")
_EXAMPLE = "policy=single-numa-node,nodes=2,threads=2"


class NumaShapeError(ValueError):
    """The text of `--node-numa` does not describe NUMA nodes."""


@dataclass(frozen=True, slots=True)
class NumaShape:
    """The policy of a node's topology manager, its number of NUMA nodes, and of threads of a core."""

    policy: TopologyPolicy
    nodes: int = 2
    threads: int = 2

    def details(self, cpus: int) -> dict[str, CpuDetail]:
        """Return where each of a node's CPUs is; the second threads of all cores come after the first ones."""
        cores = cpus // self.threads
        each = cores // self.nodes
        return {
            str(core + cores * thread): CpuDetail(numa=core // each, socket=core // each, core=core)
            for thread in range(self.threads)
            for core in range(cores)
        }


def parse_numa(text: str, cpus: int) -> NumaShape | None:
    """Parse `policy=…,nodes=…,threads=…` for nodes with so many CPUs; None for "".

    Raises NumaShapeError naming the entry, the rule and an example.
    """
    if not text:
        return None
    given: dict[str, str] = {}
    for entry in text.split(","):
        name, _, value = (part.strip() for part in entry.partition("="))
        if name not in _KEYS or name in given or not value:
            raise _error(entry, f"each of {', '.join(_KEYS)} may be given once, as NAME=VALUE")
        given[name] = value
    if given.get("policy") not in set(TopologyPolicy):
        raise _error(text, f"policy must be one of {', '.join(TopologyPolicy)}")
    counts = {name: given[name] for name in ("nodes", "threads") if name in given}
    for name, value in counts.items():
        if not value.isascii() or not value.isdigit() or not 0 < int(value) <= 64:
            raise _error(f"{name}={value}", "it must be a number from 1 to 64")
    shape = NumaShape(TopologyPolicy(given["policy"]), **{name: int(value) for name, value in counts.items()})
    if not cpus or cpus % (shape.nodes * shape.threads):
        rule = f"{cpus} CPUs cannot be divided into {shape.nodes} NUMA nodes with {shape.threads} threads a core"
        raise _error(text, f"{rule}; change cpu of --node-resources, or")
    return shape


def _error(entry: str, rule: str) -> NumaShapeError:
    joined = rule if rule.endswith("or") else f"{rule};"
    return NumaShapeError(f"--node-numa: {entry.strip()!r}: {joined} write for example {_EXAMPLE}")


@dataclass
class CpuManager:
    """The CPUs of one node, and those of its pods by uid and container. `is_changed`: not reported yet."""

    shape: NumaShape
    capacity: int
    pods: dict[str, tuple[Pod, dict[str, int]]] = field(default_factory=dict)
    is_changed: bool = True

    def __post_init__(self) -> None:
        """Lay out the CPUs."""
        self._details = self.shape.details(self.capacity)
        self._topology = CpuTopology.of(self._details)
        self._free = self._topology.cpus

    def admit(self, pod: Pod) -> PredicateFailure | None:
        """Assign CPUs to a pod, or return why the node refuses it."""
        assigned: dict[str, int] = {}
        counts = exclusive_cpus(pod.spec)
        for name, count in zip(_names(pod, counts), counts, strict=True):
            free = self._free & ~sum(assigned.values())
            try:
                assigned[name] = assign(self._topology, self.shape.policy, free, (count,))
            except AffinityError:
                return PredicateFailure("TopologyAffinityError", "Resources cannot be allocated with Topology locality")
            except ShortageError:
                return PredicateFailure(
                    "UnexpectedAdmissionError",
                    "Allocate failed due to not enough cpus available to satisfy request: "
                    f"requested={count}, available={free.bit_count()}, which is unexpected",
                )
        self._keep(pod, assigned)
        return None

    def restore(self, pod: Pod) -> None:
        """Assign CPUs to a pod that was admitted before this process started, wherever some are free."""
        counts = exclusive_cpus(pod.spec)
        assigned: dict[str, int] = {}
        for name, count in zip(_names(pod, counts), counts, strict=True):
            free = self._free & ~sum(assigned.values())
            assigned[name] = assign(self._topology, TopologyPolicy.BEST_EFFORT, free, (min(count, free.bit_count()),))
        self._keep(pod, assigned)

    def release(self, uid: str) -> None:
        """Release the CPUs of a pod, if it has any."""
        _, assigned = self.pods.pop(uid, (None, {}))
        self._free |= sum(assigned.values())
        self.is_changed = self.is_changed or bool(assigned)

    def _keep(self, pod: Pod, assigned: dict[str, int]) -> None:
        if assigned:
            self.pods[pod.metadata.uid] = pod, assigned
            self._free &= ~sum(assigned.values())
            self.is_changed = True

    def report(self, name: str) -> Manifest:
        """Return the Numatopology of the node."""
        return {
            "apiVersion": NUMATOPOLOGY.api_version,
            "kind": NUMATOPOLOGY.kind,
            "metadata": {"name": name},
            "spec": {
                "policies": {CPU_MANAGER_POLICY: STATIC, TOPOLOGY_MANAGER_POLICY: str(self.shape.policy)},
                "numares": {"cpu": {"allocatable": format_cpus(self._free), "capacity": self.capacity}},
                "cpuDetail": {cpu: _detail(each) for cpu, each in self._details.items()},
                "podAllocations": [_allocation(pod, assigned) for pod, assigned in self.pods.values()],
            },
        }


def _names(pod: Pod, counts: tuple[int, ...]) -> Iterable[str]:
    """Return a name for each container that gets CPUs exclusively, in order."""
    if not counts:
        return ()
    every = (*(each for each in pod.spec.init_containers if each.restart_policy == "Always"), *pod.spec.containers)
    one = msgspec.structs.replace
    return [each.name for each in every if exclusive_cpus(one(pod.spec, containers=(each,), init_containers=()))]


def _detail(detail: CpuDetail) -> Mapping[str, int]:
    return {"numa": detail.numa, "socket": detail.socket, "core": detail.core}


def _allocation(pod: Pod, assigned: Mapping[str, int]) -> Manifest:
    meta = pod.metadata
    containers = [{"name": name, "allocations": {"cpu": format_cpus(cpus)}} for name, cpus in assigned.items()]
    return {"uid": meta.uid, "name": meta.name, "namespace": meta.namespace, "containerAllocations": containers}


class NumaReports:
    """Writer of the Numatopologies of a fleet's nodes (by name); `run` until cancelled."""

    def __init__(self, transport: Transport, clock: Clock, managers: Mapping[str, CpuManager]) -> None:
        self._transport = transport
        self._clock = clock
        self._managers = managers

    async def run(self) -> None:
        """Report each node at the start and after each change."""
        while self._managers:
            for name, manager in self._managers.items():
                if manager.is_changed:
                    manager.is_changed = False
                    try:
                        await self._write(manager.report(name))
                    except TransportError:
                        manager.is_changed = True
            await self._clock.beat(REPORT_DELAY)
        await anyio.sleep_forever()

    async def _write(self, manifest: Manifest) -> None:
        """Create the object, or replace its spec."""
        body = msgspec.json.encode(manifest)
        path = NUMATOPOLOGY.path(name=manifest["metadata"]["name"])
        answer = await self._transport.request("PATCH", path, body=body, content_type=ContentType.MERGE_PATCH)
        if answer.status == 404:
            await self._transport.request("POST", NUMATOPOLOGY.path(), body=body, content_type=ContentType.JSON)
