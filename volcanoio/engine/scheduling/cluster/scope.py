"""Part of the cluster that flags exclude (Volcano: cmd/scheduler/app/options)."""

import msgspec

from volcanoio.framework.events import Change, Observed
from volcanoio.model.core import Node
from volcanoio.model.storage import CSINode


class Scope(msgspec.Struct, frozen=True, rename={"excluded_resources": "without"}):
    """Part of the cluster that a scheduler acts on; everything by default.

    Objects of `excluded_resources` count as absent. A node needs one of the labels (key, value) in `node_selector`,
    unless that is empty. Volumes of `ignored_provisioners` have no limit on a node.
    """

    excluded_resources: tuple[str, ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    ignored_provisioners: tuple[str, ...] = ()

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
