"""Part of the cluster that flags exclude (Volcano: cmd/scheduler/app/options).

Several schedulers can share a cluster by node zones. `Handover` keeps a node that moves from one zone to another from
being booked by both; docs/sharing-a-cluster.md states what is guaranteed.
"""

from collections.abc import Iterable

import msgspec

from volcanoio.engine.scheduling.sharding.node_shards import Sharding
from volcanoio.framework.events import Change, Observed
from volcanoio.model.core import Node
from volcanoio.model.storage import CSINode

HANDOVER_SECONDS = 12.0
"""Default delay of a node that comes into the scope, in seconds.

A scheduler sends nothing later than 5 s after it last renewed its lease (`kube.leader_election`), a request has 5 s,
and 2 s are for the watch that shows its pods to us.
"""


class Scope(msgspec.Struct, frozen=True, rename={"excluded_resources": "without"}):
    """Part of the cluster that a scheduler acts on; everything by default.

    Objects of `excluded_resources` count as absent. A node needs one of the labels (key, value) in `node_selector`,
    unless that is empty. Volumes of `ignored_provisioners` have no limit on a node. A node whose labels change so that
    it comes into the scope is used `handover_seconds` later. With `sharding`, nodes also follow NodeShards.
    """

    excluded_resources: tuple[str, ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    ignored_provisioners: tuple[str, ...] = ()
    handover_seconds: float = HANDOVER_SECONDS
    sharding: Sharding | None = None

    def restrict(self, event: Observed) -> Observed | None:
        """Return the event limited to this scope, None if outside; a node that left the scope is gone."""
        obj = event.object
        if event.resource in self.excluded_resources:
            return None
        if isinstance(obj, Node) and self.node_selector:
            labels = obj.metadata.labels
            if not any(labels.get(key) == value for key, value in self.node_selector):
                return msgspec.structs.replace(event, change=Change.GONE)
        if isinstance(obj, CSINode) and self.ignored_provisioners:
            drivers = tuple(driver for driver in obj.spec.drivers if driver.name not in self.ignored_provisioners)
            spec = msgspec.structs.replace(obj.spec, drivers=drivers)
            return msgspec.structs.replace(event, object=msgspec.structs.replace(obj, spec=spec))
        return event


class Handover:
    """Nodes that came into the scope, until the scheduler that had them can have no bind in flight any more."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.waiting: dict[str, tuple[float, Node]] = {}
        """When each node may be used (epoch seconds), and its newest version."""

    @property
    def has_selector(self) -> bool:
        """Whether only nodes with certain labels are used."""
        return bool(self._scope.node_selector)

    def restrict(self, event: Observed, *, is_used: bool) -> Observed | None:
        """Return the event limited to the scope, None if it has no effect now; `is_used`: the node has a row.

        Only a change of a known node is a move; a node that appears belonged to no other zone.
        """
        restricted = self._scope.restrict(event)
        if restricted is None or not isinstance(node := restricted.object, Node) or not self._scope.node_selector:
            return restricted
        name = node.metadata.name
        waiting = self.waiting.pop(name, None)
        if restricted.change is Change.GONE or is_used:
            return restricted
        if waiting is None and restricted.change is Change.APPEARED:
            return restricted
        self.waiting[name] = event.at + self._scope.handover_seconds if waiting is None else waiting[0], node
        return None

    def admit(self, now: float) -> Iterable[Node]:
        """Return the nodes whose delay has ended; they wait no longer."""
        due = [name for name, (until, _) in self.waiting.items() if until <= now]
        return [self.waiting.pop(name)[1] for name in due]
