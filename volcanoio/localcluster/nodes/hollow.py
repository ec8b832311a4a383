"""One simulated node, as the fleet keeps it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from volcanoio.localcluster.nodes.addresses import host_address
from volcanoio.localcluster.nodes.admission import Ledger
from volcanoio.localcluster.nodes.chaos import QUIET, Outlook
from volcanoio.localcluster.nodes.predicates import Port
from volcanoio.localcluster.nodes.shapes import NodeShape
from volcanoio.model.core import Taint
from volcanoio.model.resources import amounts


@dataclass(slots=True)
class HollowNode:
    """A node: what it offers and has given away, what its object says, and what is to befall it.

    While it is `out` nothing is heard of it, and it hears nothing: what it should have heard waits in `unheard`.
    `contradicts` while it is about to say that it is well, though its object says otherwise.
    """

    shape: NodeShape
    ledger: Ledger
    address: str
    uid: str = ""
    created: float = 0.0
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    ports: dict[str, tuple[Port, ...]] = field(default_factory=dict)
    runtime: str = ""
    outlook: Outlook = QUIET
    outlook_due: float = 0.0
    drained: float = 0.0
    cordoned: bool = False
    out: bool = False
    contradicts: bool = False
    unheard: list[Callable[[], None]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of its object."""
        return self.shape.name

    def taken_ports(self) -> frozenset[Port]:
        """Ports of the host that its pods have."""
        return frozenset(port for ports in self.ports.values() for port in ports)


def hollow_nodes(shapes: Sequence[NodeShape]) -> dict[str, HollowNode]:
    """The nodes of a fleet by name, none known to an API server yet."""
    return {
        shape.name: HollowNode(shape, Ledger(amounts(shape.resources)), host_address(index), labels=dict(shape.labels))
        for index, shape in enumerate(shapes)
    }
