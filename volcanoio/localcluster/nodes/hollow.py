"""Hollow nodes: the resources and labels a simulated node offers, and its state within the fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from volcanoio.kube.transport import Transport
from volcanoio.localcluster.clock import Clock
from volcanoio.localcluster.nodes.addresses import host_address
from volcanoio.localcluster.nodes.devices import DeviceManager, DeviceSpec, register
from volcanoio.localcluster.nodes.numa import CpuManager, NumaShape
from volcanoio.localcluster.nodes.pods.predicates import Port, Usage
from volcanoio.localcluster.timers import Timers
from volcanoio.model import quantity
from volcanoio.model.core import Taint
from volcanoio.model.node_failures import NO_FAILURES, NodeFailures
from volcanoio.model.quantity import QuantityError
from volcanoio.model.resources import CPU, amounts

DEFAULT_RESOURCES: Mapping[str, str] = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
_EXAMPLE = "cpu=8,memory=32Gi,pods=110,nvidia.com/gpu=8"


class NodeResourcesError(ValueError):
    """The text of `--node-resources` does not describe a node."""


@dataclass(frozen=True, slots=True)
class NodeShape:
    """One node: its name, capacity (a ResourceList), labels and annotations beyond the default ones, and devices.

    `numa` is None for a node that assigns no CPUs.
    """

    name: str
    resources: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_RESOURCES))
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[DeviceSpec, ...] = ()
    numa: NumaShape | None = None

    def equipped(self, devices: tuple[DeviceSpec, ...]) -> NodeShape:
        """Return the node with devices that pods share, as their device plugins register them."""
        shown = register(devices, self.name)
        return NodeShape(
            self.name,
            {**self.resources, **shown.resources},
            {**self.labels, **shown.labels},
            {**self.annotations, **shown.annotations},
            devices,
            self.numa,
        )


def parse_node_resources(text: str) -> dict[str, str]:
    """Parse `cpu=8,memory=32Gi,…` to a ResourceList, with DEFAULT_RESOURCES for missing names.

    Raises NodeResourcesError naming the entry, the rule and an example.
    """
    result = dict(DEFAULT_RESOURCES)
    seen: set[str] = set()
    for entry in text.split(","):
        name, equals, amount = (part.strip() for part in entry.partition("="))
        if not name or not equals or not amount:
            raise _error(entry, "each entry must be NAME=QUANTITY")
        if name in seen:
            raise _error(entry, f"{name} is given twice")
        if name not in DEFAULT_RESOURCES and "/" not in name:
            raise _error(
                entry, f"{name} is not a resource of a node; extended resources have a domain (example.com/{name})"
            )
        try:
            exact = quantity.parse(amount)
        except QuantityError as error:
            raise _error(entry, str(error)) from None
        if exact <= 0:
            raise _error(entry, "the quantity must be greater than 0")
        if (name == "pods" or "/" in name) and exact.denominator != 1:
            raise _error(entry, f"{name} is counted in whole units")
        seen.add(name)
        result[name] = amount
    return result


def _error(entry: str, rule: str) -> NodeResourcesError:
    return NodeResourcesError(f"--node-resources: {entry.strip()!r}: {rule}; write for example {_EXAMPLE}")


def uniform_fleet(
    count: int,
    resources: Mapping[str, str] | None = None,
    devices: tuple[DeviceSpec, ...] = (),
    numa: NumaShape | None = None,
) -> tuple[NodeShape, ...]:
    """Return `count` equal nodes, from node-0.

    Raises NodeResourcesError when count is negative.
    """
    if count < 0:
        msg = f"--nodes: {count} must be 0 or more"
        raise NodeResourcesError(msg)
    offered = dict(resources or DEFAULT_RESOURCES)
    return tuple(NodeShape(f"node-{index}", offered, numa=numa).equipped(devices) for index in range(count))


@dataclass(slots=True)
class HollowNode:
    """A node: its capacity and allocations, its stored object, and its failures to come.

    While it is `out` nothing is heard of it, and it hears nothing: what it should have heard waits in `unheard`.
    `contradicts` is set until it has reported Ready to an object that is not ready.
    """

    shape: NodeShape
    ledger: Usage
    address: str
    uid: str = ""
    created: float = 0.0
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    ports: dict[str, tuple[Port, ...]] = field(default_factory=dict)
    devices: DeviceManager = field(default_factory=DeviceManager)
    cpus: CpuManager | None = None
    runtime: str = ""
    outlook: NodeFailures = NO_FAILURES
    outlook_due: float = 0.0
    drained: float = 0.0
    cordoned: bool = False
    out: bool = False
    contradicts: bool = False
    unheard: list[Callable[[], None]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the Node object."""
        return self.shape.name

    def release(self, uid: str) -> None:
        """Stop counting what a pod had."""
        self.ledger.release(uid)
        self.devices.release(uid)
        if self.cpus is not None:
            self.cpus.release(uid)

    def taken_ports(self) -> frozenset[Port]:
        """Return the host ports that its pods use."""
        return frozenset(port for ports in self.ports.values() for port in ports)


def hollow_nodes(shapes: Sequence[NodeShape]) -> dict[str, HollowNode]:
    """Return the nodes of a fleet by name, none registered yet."""
    return {
        shape.name: HollowNode(
            shape,
            Usage(offered),
            host_address(index),
            labels=dict(shape.labels),
            devices=DeviceManager(shape.name, shape.devices),
            cpus=None if shape.numa is None else CpuManager(shape.numa, offered.get(CPU, 0) // 1000),
        )
        for index, shape in enumerate(shapes)
        for offered in (amounts(shape.resources),)
    }


@dataclass(frozen=True, slots=True)
class FleetContext:
    """Shared state of a fleet. Time does not jump for `patient_timers`."""

    transport: Transport
    clock: Clock
    nodes: dict[str, HollowNode]
    timers: Timers
    patient_timers: Timers
