"""The built-in policies of the sharding controller (Volcano: pkg/controllers/sharding/policy).

A policy takes part in the phases whose method it has: `accepts` filters nodes, `score` orders them, `select` cuts the
ordered nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec

from volcanoio.framework.arguments import ArgumentError, convert

WARMUP_LABEL = "node.volcano.sh/warmup"


class NodeFacts(NamedTuple):
    """The fields of a node that policies read; `cpu` is the requested share of its capacity, None if that is 0."""

    name: str
    labels: Mapping[str, str]
    cpu: float | None


@runtime_checkable
class Filters(Protocol):
    """A policy that rejects nodes."""

    def accepts(self, node: NodeFacts) -> bool:
        """Return whether the scheduler may have the node."""
        ...


@runtime_checkable
class Scores(Protocol):
    """A policy that orders nodes."""

    def score(self, node: NodeFacts) -> float:
        """Return a number, normally from 0 to 1; nodes with a higher sum are taken first."""
        ...


@runtime_checkable
class Selects(Protocol):
    """A policy that cuts the ordered nodes."""

    def select(self, nodes: Sequence[NodeFacts]) -> Sequence[NodeFacts]:
        """Return the nodes to keep."""
        ...


class AllocationRate(msgspec.Struct, frozen=True, rename="camel"):
    """Accepts nodes whose requested share of CPU is in a range, both ends included; fuller nodes first."""

    min_cpu_util: float = msgspec.field(default=0.0, name="minCPUUtil")
    max_cpu_util: float = msgspec.field(default=1.0, name="maxCPUUtil")

    def check(self, owner: str) -> None:
        """Raise ArgumentError for an impossible range."""
        if not 0 <= self.min_cpu_util <= self.max_cpu_util <= 1:
            raise ArgumentError(
                f"{owner}: minCPUUtil {self.min_cpu_util} and maxCPUUtil {self.max_cpu_util} must be from 0 to 1, the"
                " first not above the second",
                key="minCPUUtil",
            )

    def accepts(self, node: NodeFacts) -> bool:
        """Return whether the node's share is known and in the range, by two decimals."""
        return node.cpu is not None and self.min_cpu_util <= round(node.cpu, 2) <= self.max_cpu_util

    def score(self, node: NodeFacts) -> float:
        """Return where in the range the node's share is, from 0 to 1."""
        width = self.max_cpu_util - self.min_cpu_util
        return 0.0 if not width or node.cpu is None else (node.cpu - self.min_cpu_util) / width


class Warmup(msgspec.Struct, frozen=True, rename="camel"):
    """Prefers nodes with a label."""

    warmup_label: str = WARMUP_LABEL
    warmup_label_value: str = "true"

    def check(self, owner: str) -> None:
        """Raise ArgumentError without a label."""
        if not self.warmup_label:
            raise ArgumentError(f"{owner}: warmupLabel must not be empty; leave it out for {WARMUP_LABEL}")

    def score(self, node: NodeFacts) -> float:
        """Return 1 for a node with the label, else 0."""
        return float(node.labels.get(self.warmup_label) == self.warmup_label_value)


class NodeLimit(msgspec.Struct, frozen=True, rename="camel"):
    """Keeps the first `maxNodes`, all if that is 0; fewer than `minNodes` are kept as they are."""

    min_nodes: int = 0
    max_nodes: int = 0

    def check(self, owner: str) -> None:
        """Raise ArgumentError for an impossible range."""
        if self.min_nodes < 0 or (0 < self.max_nodes < self.min_nodes):
            raise ArgumentError(
                f"{owner}: minNodes {self.min_nodes} must be 0 or more, and maxNodes {self.max_nodes} not below it;"
                " 0 is no maximum",
                key="minNodes",
            )

    def select(self, nodes: Sequence[NodeFacts]) -> Sequence[NodeFacts]:
        """Return the first nodes, up to the limit."""
        return nodes[: self.max_nodes] if self.max_nodes > 0 else nodes


class Policy(NamedTuple):
    """A policy of a scheduler, with the weight of its score."""

    policy: Filters | Scores | Selects
    weight: int = 1


_Arguments = TypeVar("_Arguments", AllocationRate, Warmup, NodeLimit)
NODE_LIMIT = "node-limit"


def _make(form: type[_Arguments]) -> Callable[[Mapping[str, Any], str], _Arguments]:
    def make(arguments: Mapping[str, Any], owner: str) -> _Arguments:
        made = convert(arguments, form, owner)
        made.check(owner)
        return made

    return make


POLICIES: Mapping[str, Callable[[Mapping[str, Any], str], Filters | Scores | Selects]] = {
    "allocation-rate": _make(AllocationRate),
    "warmup": _make(Warmup),
    NODE_LIMIT: _make(NodeLimit),
}
"""How each policy is made of its arguments and a name for errors; raises ArgumentError."""
