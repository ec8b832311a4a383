"""What a simulated node offers, and how a user says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from volcanoio.model import quantity
from volcanoio.model.quantity import QuantityError

DEFAULT_RESOURCES: Mapping[str, str] = {"cpu": "8", "memory": "32Gi", "pods": "110"}
_EXAMPLE = "cpu=8,memory=32Gi,pods=110,nvidia.com/gpu=8"


class NodeResourcesError(ValueError):
    """What was written for `--node-resources` cannot be a node."""


@dataclass(frozen=True, slots=True)
class NodeShape:
    """One node: its name, what it offers (a ResourceList) and labels beyond the usual ones."""

    name: str
    resources: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_RESOURCES))
    labels: Mapping[str, str] = field(default_factory=dict)


def parse_node_resources(text: str) -> dict[str, str]:
    """`cpu=8,memory=32Gi,…` as a ResourceList; cpu, memory and pods not named keep their defaults.

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
        if name not in DEFAULT_RESOURCES and name != "ephemeral-storage" and "/" not in name:
            raise _error(
                entry, f"{name} is no resource of a node; extended resources have a domain (example.com/{name})"
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


def uniform_fleet(count: int, resources: Mapping[str, str] | None = None) -> tuple[NodeShape, ...]:
    """`count` equal nodes, node-0 and up. Raises NodeResourcesError when count is negative."""
    if count < 0:
        msg = f"--nodes: {count} must be 0 or more"
        raise NodeResourcesError(msg)
    offered = dict(resources or DEFAULT_RESOURCES)
    return tuple(NodeShape(f"node-{index}", offered) for index in range(count))
