"""Devices by pool, and the devices that each node can use, from ResourceSlices.

Of a pool only the slices of the highest generation count. A pool of which some are missing is incomplete, and nothing
is allocated from it (Kubernetes: k8s.io/dynamic-resource-allocation/structured, GatherPools).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.model import kinds
from volcanoio.model.core import NodeSelector
from volcanoio.model.dynamic_resources.objects import Device, ResourceSlice
from volcanoio.model.dynamic_resources.selectors import SelectorError, device_variables
from volcanoio.model.quantity import parse
from volcanoio_plugins.scheduling.kubernetes.nodeindex import Mask, NodeIndex

PoolKey: TypeAlias = tuple[str, str]
"""Driver and name of a pool."""
DeviceId: TypeAlias = tuple[str, str, str]
"""Driver, pool and name of a device."""
CounterKey: TypeAlias = tuple[str, str]
"""Names of a counter set and of a counter."""
SLICES = kinds.RESOURCE_SLICE.resource


class Reach(NamedTuple):
    """The nodes that can use a device: one by name, all, or those that a selector matches."""

    node: str = ""
    everywhere: bool = False
    selector: NodeSelector | None = None


class PooledDevice:
    """A device of a pool."""

    def __init__(self, driver: str, pool: str, spec: Device, reach: Reach) -> None:
        self.id: DeviceId = (driver, pool, spec.name)
        self.spec = spec
        self.reach = reach
        self.matches: dict[tuple[str, ...], bool | SelectorError] = {}
        """Whether it satisfies some expressions, as far as that was evaluated."""

    @property
    def pool(self) -> PoolKey:
        """The key of its pool."""
        return self.id[:2]

    @cached_property
    def variables(self) -> Mapping[str, Any]:
        """The variables of selectors; raises SelectorError."""
        return device_variables(self.id[0], self.spec)

    @cached_property
    def consumes(self) -> dict[CounterKey, Fraction]:
        """The counters that it consumes while it is allocated."""
        amounts: dict[CounterKey, Fraction] = {}
        for each in self.spec.consumes_counters:
            for name, counter in each.counters.items():
                key = (each.counter_set, name)
                amounts[key] = amounts.get(key, Fraction(0)) + parse(str(counter.value))
        return amounts


class Pool:
    """The devices and counters of a pool; `fault` is why nothing can be allocated from it."""

    def __init__(self, key: PoolKey, slices: Sequence[ResourceSlice]) -> None:
        self.key = key
        self.is_incomplete = len(slices) != slices[0].spec.pool.resource_slice_count
        self.devices: list[PooledDevice] = []
        self.by_name: dict[str, PooledDevice] = {}
        self.counters: dict[CounterKey, Fraction] = {}
        self.reaches: list[Reach] = []
        """The nodes that some slice of it is for, its counters aside."""
        self.fault = ""
        for each in sorted(slices, key=lambda one: one.metadata.name):
            self._add(each)
        for device in self.devices:
            for counter_set, counter in device.consumes:
                if (counter_set, counter) not in self.counters:
                    self.fault = self.fault or f"counter {counter} not found in counter set {counter_set}"

    @property
    def is_usable(self) -> bool:
        """Whether devices may be allocated from it."""
        return not self.is_incomplete and not self.fault

    def _add(self, part: ResourceSlice) -> None:
        spec = part.spec
        for counters in spec.shared_counters:
            for name, counter in counters.counters.items():
                if (counters.name, name) in self.counters:
                    self.fault = f"duplicate counter set name {counters.name}"
                self.counters[counters.name, name] = parse(str(counter.value))
        whole = Reach(spec.node_name, spec.all_nodes, spec.node_selector)
        if not spec.shared_counters and not spec.per_device_node_selection:
            self.reaches.append(whole)
        for device in spec.devices:
            own = Reach(device.node_name, device.all_nodes, device.node_selector)
            reach = own if spec.per_device_node_selection else whole
            pooled = PooledDevice(*self.key, device, reach)
            if device.name in self.by_name:
                self.fault = f"duplicate device name {device.name}"
            self.by_name[device.name] = pooled
            self.devices.append(pooled)
            if spec.per_device_node_selection and reach not in self.reaches:
                self.reaches.append(reach)


class Visible(NamedTuple):
    """A pool and those of its devices that a node can use."""

    pool: Pool
    devices: list[PooledDevice]

    @property
    def is_conditional(self) -> bool:
        """Whether some of the devices have binding conditions; others are tried before."""
        return any(device.spec.binding_conditions for device in self.devices)


class Inventory:
    """All pools, and the pools that each node can use, kept across sessions; call `update` before reading."""

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self.pools: dict[PoolKey, Pool] = {}
        self.generation = 0
        """Changes whenever a slice or a node did: what was derived for nodes is then outdated."""
        self._slices: dict[PoolKey, dict[str, ResourceSlice]] = {}
        self._pool_of: dict[str, PoolKey] = {}
        """The pool of each slice, by its name."""
        self._seen = -1
        self._nodes_seen = -1
        self._local: dict[int, list[Pool]] = {}
        """The pools that only one node can use, by its row."""
        self._wide: list[tuple[Pool, list[tuple[Reach, Mask]]]] = []
        """The other pools, with the nodes of each reach."""
        self._visible: dict[int, list[Visible]] = {}
        self._rows: dict[PoolKey, Sequence[int]] = {}

    def update(self) -> None:
        """Follow changes of slices and nodes."""
        session, index = self._index.session, self._index.update()
        version = session.version(SLICES)
        changed = version != self._seen
        if changed:
            self._read(session, session.changed_since(SLICES, self._seen) if self._seen >= 0 else None)
            self._seen = version
        if changed or index.version != self._nodes_seen:
            self._nodes_seen = index.version
            self.generation += 1
            self._spread(index)

    def at(self, row: int) -> list[Visible]:
        """Return the pools that the node of a row can use, in the order in which devices are tried."""
        if (known := self._visible.get(row)) is None:
            seen = [Visible(pool, pool.devices) for pool in self._local.get(row, ())]
            for pool, reaches in self._wide:
                near = [reach for reach, mask in reaches if mask.item(row)]
                if near:
                    seen.append(Visible(pool, [device for device in pool.devices if device.reach in near]))
            known = self._visible[row] = sorted(seen, key=lambda one: (one.is_conditional, one.pool.key))
        return known

    def rows_of(self, key: PoolKey) -> Sequence[int]:
        """Return the rows of the nodes that can use devices of a pool."""
        return self._rows.get(key, ())

    def device(self, device: DeviceId) -> PooledDevice | None:
        """Return a device, None if no slice has it."""
        pool = self.pools.get(device[:2])
        return None if pool is None else pool.by_name.get(device[2])

    def _read(self, session: SessionView, names: Collection[str] | None) -> None:
        slices = session.objects(SLICES)
        if names is None:
            self.pools.clear()
            self._slices.clear()
            self._pool_of.clear()
            names = slices.keys()
        touched: set[PoolKey] = set()
        for name in dict.fromkeys(names):
            if (before := self._pool_of.pop(name, None)) is not None:
                del self._slices[before][name]
                touched.add(before)
            if isinstance(now := slices.get(name), ResourceSlice):
                key = self._pool_of[name] = (now.spec.driver, now.spec.pool.name)
                self._slices.setdefault(key, {})[name] = now
                touched.add(key)
        for key in touched:
            if parts := list(self._slices[key].values()):
                newest = max(part.spec.pool.generation for part in parts)
                self.pools[key] = Pool(key, [part for part in parts if part.spec.pool.generation == newest])
            else:
                del self._slices[key]
                self.pools.pop(key, None)

    def _spread(self, index: NodeIndex) -> None:
        """Find the nodes of every pool."""
        self._visible.clear()
        self._local.clear()
        self._wide.clear()
        self._rows.clear()
        for key in sorted(self.pools):
            pool = self.pools[key]
            if len(pool.reaches) == 1 and pool.reaches[0].node:
                if (row := index.row_of(pool.reaches[0].node)) is not None:
                    self._local.setdefault(row, []).append(pool)
                    self._rows[key] = (row,)
            elif pool.reaches:
                reaches = [(reach, _mask(index, reach)) for reach in pool.reaches]
                self._wide.append((pool, reaches))
                self._rows[key] = np.flatnonzero(np.logical_or.reduce([mask for _, mask in reaches])).tolist()


def _mask(index: NodeIndex, reach: Reach) -> Mask:
    mask: Mask = index.selected({})
    if reach.node:
        mask[:] = False
        if (row := index.row_of(reach.node)) is not None:
            mask[row] = True
    elif not reach.everywhere:
        return index.matches_any(reach.selector.node_selector_terms if reach.selector is not None else ())
    return mask
