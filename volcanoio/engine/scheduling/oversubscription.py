"""What a node lends beyond its allocatable: room that is requested and not used, as Volcano's agent reports it.

A node with the label `volcano.sh/oversubscription` offers as much more as its annotations say:
`volcano.sh/oversubscription-cpu` in thousandths of a CPU, `volcano.sh/oversubscription-memory` in bytes.
Source: pkg/scheduler/api/node_info.go, setOversubscription.
"""

from __future__ import annotations

from volcanoio.model.core import Node
from volcanoio.model.resources import CPU, MEMORY, Amounts

OVERSUBSCRIBED = "volcano.sh/oversubscription"
_SAID = {CPU: "volcano.sh/oversubscription-cpu", MEMORY: "volcano.sh/oversubscription-memory"}
_TRUE = ("true", "True", "TRUE", "t", "T", "1")


def lend(node: Node, offered: Amounts) -> None:
    """Add what the node lends; what is no number, or less than none, is nothing."""
    if node.metadata.labels.get(OVERSUBSCRIBED) not in _TRUE:
        return
    for resource, name in _SAID.items():
        try:
            amount = float(node.metadata.annotations.get(name, 0))
        except ValueError:
            continue
        if 0 < amount < float("inf"):
            offered[resource] = offered.get(resource, 0) + int(amount)
