"""`HyperNodeController`: counts the nodes of HyperNodes, and discovers HyperNodes (Volcano: pkg/controllers/hypernode).

A key is a HyperNode, or a source of HyperNodes: `/label` and `/ufm`. Unlike Volcano: counts follow changes of nodes,
count each node below a HyperNode once, and no names of nodes that do not exist.
"""

from collections.abc import Iterable, Mapping
from typing import cast

from volcanoio.engine.hypernodes import fabric, labels
from volcanoio.engine.hypernodes.nodes_by_hyper_node import NodesByHyperNode
from volcanoio.engine.hypernodes.reconciliation import Differences, compare, source_of
from volcanoio.framework.controller import ControllerContext, Rule
from volcanoio.framework.effects import Patch, Record, record_event
from volcanoio.framework.events import Change, Observed
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import NO_CHANGES, READ, Plan, Reconciler, ReconcileView, Write
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.core import Node
from volcanoio.model.nodes import (
    CONFIGURATION_NAME,
    LABEL,
    UFM,
    DiscoveryConfiguration,
    DiscoverySource,
    Fabric,
    HyperNode,
)

NAME = "hyperNode-controller"
KEY_PREFIX = "/"
"""First character of the keys of sources; no HyperNode's name contains it."""
_WARNING = "Warning"
Report = tuple[str, str]
"""Name of an object and the problem that was reported on it."""


class HyperNodeController(Reconciler):
    """Reconciler with one key per HyperNode and per source."""

    name = NAME
    primary = kinds.HYPER_NODE
    reads = (kinds.NODE, kinds.DISCOVERY, kinds.FABRIC)
    batch_period = 0.2
    rules = (
        Rule(kinds.HYPER_NODE.group, ("hypernodes",), (*READ, "create", "patch", "delete")),
        Rule(kinds.HYPER_NODE.group, ("hypernodes/status",), ("patch",)),
        Rule("", ("nodes",), READ),
        Rule("", ("secrets",), ("get",)),
        Rule("", ("events",), ("create", "patch")),
    )

    def __init__(self, context: ControllerContext) -> None:
        """Create the controller; it has no options."""
        del context
        self._nodes = NodesByHyperNode()
        self._reported: dict[str, frozenset[Report]] = {}
        """Problems that the last plan of each source reported, so that each is reported once."""

    def all_keys(self, objects: Objects, now: float) -> Iterable[str]:
        """Return all keys, those of low tiers first; the node sets are built again from the cache."""
        del now
        self._nodes = NodesByHyperNode()
        for name, node in objects.by_key(kinds.NODE).items():
            self._nodes.set_node(name, node.metadata.labels)
        hyper_nodes = objects.all(kinds.HYPER_NODE, HyperNode)
        for each in hyper_nodes:
            self._nodes.set_hyper_node(each.metadata.name, each.spec)
        yield from (each.metadata.name for each in sorted(hyper_nodes, key=lambda each: each.spec.tier))
        yield from (KEY_PREFIX + source for source in (LABEL, UFM))

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        """Return the HyperNodes whose nodes may have changed, and the sources that need another look."""
        gone = event.change is Change.GONE
        match event.obj:
            case HyperNode() as hyper_node:
                name = hyper_node.metadata.name
                changed = self._nodes.set_hyper_node(name, None if gone else hyper_node.spec)
                yield from dict.fromkeys([name, *self._existing(changed, objects)])
                if _is_changed(event):
                    sources = {source_of(each) for each in (hyper_node, event.previous) if each is not None}
                    yield from (KEY_PREFIX + source for source in sorted(sources & {LABEL, UFM}))
            case Node() as node:
                labels_now = None if gone else node.metadata.labels
                yield from self._existing(self._nodes.set_node(node.metadata.name, labels_now), objects)
                if _is_relabelled(event) and _configuration(objects).enabled(LABEL) is not None:
                    yield KEY_PREFIX + LABEL
            case Fabric():
                yield KEY_PREFIX + UFM
            case DiscoveryConfiguration():
                yield from (KEY_PREFIX + source for source in (LABEL, UFM))

    def _existing(self, hyper_nodes: set[str], objects: Objects) -> list[str]:
        known = objects.by_key(kinds.HYPER_NODE)
        return sorted(name for name in hyper_nodes if name in known)

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        """Return the status of a HyperNode, or the writes that a source requires."""
        if view.is_backing_off:
            return Plan(memory=view.memory)
        if key.startswith(KEY_PREFIX):
            source = key.removeprefix(KEY_PREFIX)
            setting = _configuration(view.objects).enabled(source)
            return NO_CHANGES if setting is None else self._discover(setting, view)
        hyper_node = view.objects.get(kinds.HYPER_NODE, key, HyperNode)
        if hyper_node is None or hyper_node.metadata.deletion_timestamp is not None:
            return NO_CHANGES
        return self._count(hyper_node, view)

    def _count(self, hyper_node: HyperNode, view: ReconcileView) -> Plan:
        name = hyper_node.metadata.name
        problem = self._nodes.problem(name)
        events: tuple[Record, ...] = ()
        if problem and problem != view.memory:
            events = (_warning(kinds.HYPER_NODE, hyper_node, "InvalidTopology", problem),)
        count = len(self._nodes.nodes(name))
        if count == hyper_node.status.node_count:
            return Plan(events=events, memory=problem)
        write = Patch.of(
            kinds.HYPER_NODE.resource,
            hyper_node,
            {"status": {"nodeCount": count}},
            at_version=True,
            subresource="status",
        )
        return Plan(((Write(write),),), events, memory=problem)

    def _discover(self, setting: DiscoverySource, view: ReconcileView) -> Plan:
        """Compare the HyperNodes of a source with what it describes now."""
        existing = cast("Mapping[str, HyperNode]", view.objects.by_key(kinds.HYPER_NODE))
        reports: dict[Report, Record] = {}
        if setting.source == LABEL:
            differences = self._labelled(setting, existing, view, reports)
        else:
            found = view.objects.get(kinds.FABRIC, setting.source, Fabric)
            if found is None:  # nothing listed yet
                return NO_CHANGES
            differences = compare(setting.source, fabric.discover(found.links), existing)
        for taken in differences.taken:
            text = (
                f"source {setting.source} discovered a HyperNode of this name, but this one is not from it; it is left "
                "alone: rename or delete it"
            )
            reports[taken.metadata.name, text] = _warning(kinds.HYPER_NODE, taken, "NameTaken", text)
        before = self._reported.get(setting.source, frozenset())
        self._reported[setting.source] = frozenset(reports)
        events = tuple(record for report, record in sorted(reports.items()) if report not in before)
        return Plan(differences.stages, events)

    def _labelled(
        self,
        setting: DiscoverySource,
        existing: Mapping[str, HyperNode],
        view: ReconcileView,
        reports: dict[Report, Record],
    ) -> Differences:
        nodes = view.objects.by_key(kinds.NODE)
        ours = [each for each in existing.values() if source_of(each) == LABEL]
        by_name = {name: node.metadata.labels for name, node in nodes.items()}
        found = labels.discover(setting.types, by_name, ours, view.suffix)
        for each in found.problems:
            reports[each.node, each.message] = _warning(
                kinds.NODE, nodes[each.node], "NetworkTopologyConflict", each.message
            )
        return compare(
            LABEL,
            found.desired,
            existing,
            lambda stored: any(labels.is_of_type(stored, name) for name in found.kept),
        )


def _configuration(objects: Objects) -> DiscoveryConfiguration:
    return objects.get(kinds.DISCOVERY, CONFIGURATION_NAME, DiscoveryConfiguration) or DiscoveryConfiguration()


def _is_changed(event: Observed) -> bool:
    """Return whether an event is more than a new status."""
    before, after = event.previous, event.obj
    if not isinstance(before, HyperNode) or not isinstance(after, HyperNode) or event.change is not Change.CHANGED:
        return True
    return before.spec != after.spec or before.metadata.labels != after.metadata.labels


def _is_relabelled(event: Observed) -> bool:
    previous = event.previous
    return (
        event.change is not Change.CHANGED or previous is None or previous.metadata.labels != event.obj.metadata.labels
    )


def _warning(kind: kinds.Kind, obj: ApiObject, reason: str, message: str) -> Record:
    return record_event(kind, obj, reason, message, type_=_WARNING)
