"""`ShardingController`: keeps one NodeShard per configured scheduler (Volcano: pkg/controllers/sharding).

It has one key. Shards are computed again every sync period, and soon after nodes or the requests on them changed much.
Only `spec.nodesDesired` is written here; each scheduler writes the status of its NodeShard.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from volcanoio.engine.sharding.assignment import RequestsByNode, assign, due_writes
from volcanoio.engine.sharding.configuration import FILE, ShardingConfiguration, of_flags, parse
from volcanoio.engine.sharding.policies import NodeFacts
from volcanoio.framework.arguments import ArgumentError
from volcanoio.framework.controller import ControllerContext, Input, Reference, Rule
from volcanoio.framework.effects import Create, Delete, Patch, Record, record_event
from volcanoio.framework.events import Change, Observed
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import READ, Plan, Reconciler, ReconcileView, Write
from volcanoio.model import kinds
from volcanoio.model.core import ConfigMap, Node, Pod
from volcanoio.model.nodes import NodeShard

KEY = "shards"
DEBOUNCE_SECONDS = 0.2
"""Delay after a change, so that more changes are taken together."""
LARGE_CHANGE = 0.5
"""Change of a node's requested share of CPU or memory above which nodes are divided again at once."""


class ShardingMemory(msgspec.Struct, frozen=True):
    """The configuration in force, and the version of the ConfigMap that was read last."""

    configuration: ShardingConfiguration
    version: str = ""


class ShardingController(Reconciler):
    """Writes the NodeShards of the configured schedulers, and deletes those of all others.

    An invalid ConfigMap, or its deletion, leaves the configuration in force; the reason is an Event of the ConfigMap.
    Raises ArgumentError for invalid flags.
    """

    name = "sharding-controller"
    primary = kinds.NODE_SHARD
    batch_period = DEBOUNCE_SECONDS
    writes = (
        Rule(kinds.NODE_SHARD.group, ("nodeshards",), ("create", "patch", "delete")),
        Rule("", ("events",), ("create", "patch")),
    )

    def __init__(self, context: ControllerContext) -> None:
        self._settings = context.sharding
        self._flags = of_flags(self._settings)
        self._configuration = self._flags
        self._requests = RequestsByNode()
        self._used: dict[str, tuple[float | None, float | None]] = {}
        """Requested shares of CPU and memory by node at the last sync."""
        self._assigned: dict[str, tuple[str, ...]] = {}
        """Nodes of each scheduler at the last sync."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The kinds it reads; of ConfigMaps the one with its configuration."""
        namespace, name = self._settings.configmap_namespace, self._settings.configmap
        only = f"metadata.name={name},metadata.namespace={namespace}"
        one = (Input(kind, lambda _: (KEY,)) for kind in (kinds.NODE_SHARD, kinds.NODE, kinds.POD))
        return (*one, Input(kinds.CONFIG_MAP, lambda _: (KEY,), field_selector=only))

    @property
    def references(self) -> tuple[Reference, ...]:
        """None: everything it reads is an input."""
        return ()

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rights to read its kinds, of ConfigMaps only its own, and `writes`."""
        read = (kinds.NODE_SHARD, kinds.NODE, kinds.POD)
        named = Rule("", ("configmaps",), ("list", "watch"), (self._settings.configmap,))
        return (*(Rule(kind.group, (kind.plural,), READ) for kind in read), named, *self.writes)

    def all_keys(self, objects: Objects, now: float) -> Iterable[str]:
        """Return the only key, once everything is listed."""
        del now
        self._requests.rebuild(objects.all(kinds.POD, Pod))
        return (KEY,)

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        """Return the key for a change after which nodes are divided again at once."""
        match event.object:
            case Pod():
                node = self._requests.observe(event)
                is_due = bool(node) and self._configuration.node_events and self._has_moved(node, objects)
            case Node() as node:
                is_due = self._configuration.node_events and _is_new(node, event)
            case NodeShard() as shard:
                stored = None if _is_gone(event) else shard.spec.nodes_desired
                is_due = stored != self._assigned.get(shard.metadata.name)
            case _:
                is_due = self._is_own_config_map(event.object)
        return (KEY,) if is_due else ()

    def _is_own_config_map(self, obj: object) -> bool:
        return isinstance(obj, ConfigMap) and obj.metadata.key == self._config_map_key

    @property
    def _config_map_key(self) -> str:
        return f"{self._settings.configmap_namespace}/{self._settings.configmap}"

    def _has_moved(self, name: str, objects: Objects) -> bool:
        """Return whether the requests on a node differ much from those at the last sync."""
        if (node := objects.get(kinds.NODE, name, Node)) is None:
            return False
        before = self._used.get(name, (0.0, 0.0))
        pairs = zip(self._requests.utilization(node), before, strict=True)
        return any(abs((now or 0.0) - (then or 0.0)) > LARGE_CHANGE for now, then in pairs)

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        """Return the writes of shards that are due, and when to look again."""
        del key
        memory, events = self._configured(view)
        configuration = self._configuration = memory.configuration
        nodes = view.objects.all(kinds.NODE, Node)
        self._used = {node.metadata.name: self._requests.utilization(node) for node in nodes}
        facts = (NodeFacts(at.metadata.name, at.metadata.labels, self._used[at.metadata.name][0]) for at in nodes)
        assigned = self._assigned = assign(configuration.schedulers, facts)
        shards = {shard.metadata.name: shard for shard in view.objects.all(kinds.NODE_SHARD, NodeShard)}
        stored = {name: shard.spec.nodes_desired for name, shard in shards.items()}
        due = due_writes(assigned, stored)
        writes = [Write(_write(name, desired, shards.get(name))) for name, desired in sorted(due.items())]
        stale = (shard for name, shard in shards.items() if name not in assigned)
        writes += [Write(Delete.of(kinds.NODE_SHARD.resource, shard)) for shard in stale]
        requeue_at = view.now + configuration.sync_period
        return Plan((tuple(writes),) if writes else (), events, requeue_at, memory=memory)

    def _configured(self, view: ReconcileView) -> tuple[ShardingMemory, tuple[Record, ...]]:
        """Return the configuration in force, and an Event where the ConfigMap is new and cannot be used."""
        memory: ShardingMemory = view.memory or ShardingMemory(self._flags)
        config_map = view.objects.get(kinds.CONFIG_MAP, self._config_map_key, ConfigMap)
        if config_map is None or (version := config_map.metadata.resource_version) == memory.version:
            return memory, ()
        try:
            if (text := config_map.data.get(FILE)) is None:
                raise ArgumentError(f"the key {FILE} is missing; add it")
            return ShardingMemory(parse(text, self._settings), version), ()
        except ArgumentError as error:
            message = f"{error}; the previous configuration stays in force"
            event = record_event(kinds.CONFIG_MAP, config_map, "InvalidConfiguration", message, type_="Warning")
            return msgspec.structs.replace(memory, version=version), (event,)


def _is_gone(event: Observed) -> bool:
    return event.change is Change.GONE


def _is_new(node: Node, event: Observed) -> bool:
    """Return whether a node was added or removed, or its labels or capacity changed."""
    before = event.previous
    if _is_gone(event) or not isinstance(before, Node):
        return True
    return before.metadata.labels != node.metadata.labels or before.status.capacity != node.status.capacity


def _write(name: str, desired: tuple[str, ...], shard: NodeShard | None) -> Create | Patch:
    """Return the write of a shard's nodes."""
    spec = {"nodesDesired": list(desired)}
    if shard is not None:
        return Patch.of(kinds.NODE_SHARD.resource, shard, {"spec": spec})
    kind = kinds.NODE_SHARD
    manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}
    return Create(resource=kind.resource, manifest=manifest)
