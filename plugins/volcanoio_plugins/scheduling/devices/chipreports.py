"""Chips and nodes that MindCluster reports as faulty, in ConfigMaps.

Source: Volcano, third_party/ascend-for-volcano/common/k8s, and MindCluster's documentation of its ConfigMaps. Those of
the device plugin and of NodeD are about one node, those of ClusterD about many. What any of them reports counts; texts
that cannot be read report nothing.

| ConfigMap | Key | JSON |
|---|---|---|
| kube-system/mindx-dl-deviceinfo-NODE | DeviceInfoCfg | `{"DeviceInfo": {"DeviceList": {...}}}` |
| mindx-dl/mindx-dl-nodeinfo-NODE | NodeInfo | `{"NodeInfo": {"NodeStatus": ...}}` |
| mindx-dl/cluster-info-device-N | its name | `{"mindx-dl-deviceinfo-NODE": {"DeviceList": {...}}, ...}` |
| mindx-dl/cluster-info-node-cm | its name | `{"mindx-dl-nodeinfo-NODE": {"NodeStatus": ...}, ...}` |

The keys `huawei.com/Ascend310P-Unhealthy` and `-Recovering` of a DeviceList have names of chips, such as Ascend310P-0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.core import ConfigMap

DEVICES, NODES = "mindx-dl-deviceinfo-", "mindx-dl-nodeinfo-"
OF_DEVICE_PLUGIN, OF_NODED = f"kube-system/{DEVICES}", f"mindx-dl/{NODES}"
OF_CLUSTERD, NODES_OF_CLUSTERD = "mindx-dl/cluster-info-device-", "mindx-dl/cluster-info-node-cm"
NOT_USED = ("PreSeparate", "UnHealthy")
"""States of nodes that get no pods."""
_CONFIG_MAPS = kinds.CONFIG_MAP.resource


class _Devices(msgspec.Struct, frozen=True):
    lists: dict[str, str] = msgspec.field(default={}, name="DeviceList")


class _Status(msgspec.Struct, frozen=True):
    status: str = msgspec.field(default="", name="NodeStatus")


class _DevicesOfNode(msgspec.Struct, frozen=True):
    devices: _Devices = msgspec.field(default=_Devices(), name="DeviceInfo")


class _StatusOfNode(msgspec.Struct, frozen=True):
    node: _Status = msgspec.field(default=_Status(), name="NodeInfo")


class Report(NamedTuple):
    """What is reported of a node: faulty chips by number, whether its chips are reported at all, and its state."""

    faulty: frozenset[str] = frozenset()
    has_chips: bool = False
    status: str = ""


class ChipReports:
    """Reports by node, read from the ConfigMaps that changed."""

    def __init__(self) -> None:
        self._version = -1
        self._of_map: dict[str, dict[str, Report]] = {}
        """Reports by ConfigMap and node."""
        self._of_clusterd: set[str] = set()
        """ConfigMaps about the devices of many nodes."""
        self._nodes: dict[str, Report] = {}

    def of(self, node: str) -> Report:
        """Return what is reported of a node."""
        return self._nodes.get(node, Report())

    def read(self, session: SessionView) -> set[str]:
        """Read what changed; return the nodes of which something else is reported now."""
        version = session.version(_CONFIG_MAPS)
        if version == self._version:
            return set()
        objects = session.objects(_CONFIG_MAPS)
        keys: Iterable[str] | None = session.changed_since(_CONFIG_MAPS, self._version) if self._version >= 0 else None
        self._version = version
        touched: set[str] = set()
        for key in {*objects, *self._of_map} if keys is None else keys:
            if not key.startswith((OF_DEVICE_PLUGIN, OF_NODED, OF_CLUSTERD, NODES_OF_CLUSTERD)):
                continue
            found = _reports_in(key, objects.get(key))
            touched.update(self._of_map.pop(key, {}), found)
            if found:
                self._of_map[key] = found
            if key.startswith(OF_CLUSTERD):
                self._of_clusterd.add(key)
        return {node for node in touched if self._combine(node)}

    def _combine(self, node: str) -> bool:
        """Combine the reports of a node; return whether the result differs from before."""
        keys = (OF_DEVICE_PLUGIN + node, OF_NODED + node, NODES_OF_CLUSTERD, *self._of_clusterd)
        parts = [report for key in keys if (report := self._of_map.get(key, {}).get(node)) is not None]
        status = next((part.status for part in parts if part.status in NOT_USED), "")
        faulty = frozenset[str]().union(*(part.faulty for part in parts))
        new = Report(faulty, any(part.has_chips for part in parts), status)
        before = self.of(node)
        self._nodes[node] = new
        if new == Report():
            del self._nodes[node]
        return new != before


def _reports_in(key: str, stored: ApiObject | None) -> dict[str, Report]:
    """Return what a ConfigMap reports, by node."""
    data = stored.data if isinstance(stored, ConfigMap) else {}
    name = key.partition("/")[2]
    if key.startswith(OF_DEVICE_PLUGIN):
        one = _decode(data, "DeviceInfoCfg", _DevicesOfNode)
        return {} if one is None else {name.removeprefix(DEVICES): _chips(one.devices)}
    if key.startswith(OF_NODED):
        state = _decode(data, "NodeInfo", _StatusOfNode)
        return {} if state is None else {name.removeprefix(NODES): Report(status=state.node.status)}
    if key == NODES_OF_CLUSTERD:
        states = _decode(data, name, dict[str, _Status]) or {}
        return {node.removeprefix(NODES): Report(status=each.status) for node, each in states.items()}
    devices = _decode(data, name, dict[str, _Devices]) or {}
    return {node.removeprefix(DEVICES): _chips(each) for node, each in devices.items()}


Form = TypeVar("Form")


def _decode(data: Mapping[str, str], key: str, form: type[Form]) -> Form | None:
    """Return the JSON of a key, None if it is missing or cannot be read."""
    try:
        return msgspec.json.decode(data.get(key, ""), type=form)
    except msgspec.DecodeError:
        return None


def _chips(devices: _Devices) -> Report:
    names = [
        name.strip()
        for key, names in devices.lists.items()
        if key.endswith(("-Unhealthy", "-Recovering"))
        for name in names.split(",")
    ]
    return Report(frozenset(name.rpartition("-")[2] for name in names if name.count("-") == 1), has_chips=True)
